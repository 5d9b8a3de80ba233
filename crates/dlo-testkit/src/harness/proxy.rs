//! A wire that can be cut, go silent, or take its time: a TCP proxy in front of a server.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

/// Pieces that are on a slow wire at once, at most.
const PIECES: usize = 10_000;

/// Passes bytes between clients and one server until it is told otherwise.
#[derive(Debug)]
pub struct Proxy {
    pub address: SocketAddr,
    open: Arc<Mutex<Vec<Wire>>>,
    /// Whether connections that are opened now pass bytes.
    passing: Arc<AtomicBool>,
    accepting: JoinSet<()>,
}

/// One connection through the proxy.
#[derive(Debug)]
struct Wire {
    task: AbortHandle,
    silent: watch::Sender<bool>,
}

impl Proxy {
    /// Listens on a free port of its own, in front of `server`.
    pub async fn before(server: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("binding a free port");
        Self::on(listener, server, Duration::ZERO)
    }

    /// The same with a wire on which everything takes `delay`, in each direction. What a client has sent arrives even if the
    /// client is gone by then.
    pub async fn slow(server: SocketAddr, delay: Duration) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("binding a free port");
        Self::on(listener, server, delay)
    }

    /// Listens on `port`, for servers that must be told the address of their wire before they start.
    pub async fn on_port(port: u16, server: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.expect("binding the proxy's port");
        Self::on(listener, server, Duration::ZERO)
    }

    fn on(listener: TcpListener, server: SocketAddr, delay: Duration) -> Self {
        let address = listener.local_addr().expect("the address of a bound port");
        let open: Arc<Mutex<Vec<Wire>>> = Arc::default();
        let passing = Arc::new(AtomicBool::new(true));
        let mut accepting = JoinSet::new();
        let (known, passes) = (Arc::clone(&open), Arc::clone(&passing));
        accepting.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (silent, silenced) = watch::channel(!passes.load(Ordering::SeqCst));
                let task = tokio::spawn(pass(client, server, delay, silenced));
                let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
                known.retain(|wire| !wire.task.is_finished());
                known.push(Wire { task: task.abort_handle(), silent });
            }
        });
        Self { address, open, passing, accepting }
    }

    /// From now on every open connection swallows bytes in both directions. Neither end sees that it is closed.
    pub fn silence(&self) {
        for wire in self.open.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            wire.silent.send_replace(true);
        }
    }

    /// Says whether connections that are opened from now on pass bytes (`true`), or swallow them from their first one.
    pub fn pass_new(&self, passing: bool) {
        self.passing.store(passing, Ordering::SeqCst);
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.iter().filter(|wire| !wire.task.is_finished()).count()
    }

    /// Takes the wire away: nobody listens any more, then every connection is cut.
    pub async fn close(mut self) {
        self.accepting.shutdown().await;
        self.cut();
    }

    /// Cuts every connection that is open now; new ones work.
    pub fn cut(&self) {
        for wire in self.open.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            wire.task.abort();
        }
    }
}

/// Passes bytes until either end closes. Once the wire is silent, both ends stay open until the client closes.
async fn pass(
    mut client: TcpStream,
    server: SocketAddr,
    delay: Duration,
    mut silenced: watch::Receiver<bool>,
) {
    // A server that is away looks like a closed door, as without the proxy.
    let Ok(mut server) = TcpStream::connect(server).await else { return };
    let _ = client.set_nodelay(true);
    let _ = server.set_nodelay(true);
    tokio::select! {
        biased;
        _ = silenced.wait_for(|silent| *silent) => {}
        () = exchange(&mut client, &mut server, delay) => return,
    }
    let _ = tokio::io::copy(&mut client, &mut tokio::io::sink()).await;
}

async fn exchange(client: &mut TcpStream, server: &mut TcpStream, delay: Duration) {
    if delay.is_zero() {
        let _ = tokio::io::copy_bidirectional(client, server).await;
        return;
    }
    let ((from_client, to_client), (from_server, to_server)) = (client.split(), server.split());
    tokio::join!(carry(from_client, to_server, delay), carry(from_server, to_client, delay));
}

/// Carries bytes one way, each for `delay`, until the sender ends or is cut; what was sent by then arrives.
async fn carry(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, delay: Duration) {
    let (put, mut take) = mpsc::channel::<(Instant, Vec<u8>)>(PIECES);
    let read = async move {
        let mut bytes = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = from.read(&mut bytes).await {
            if put.send((Instant::now() + delay, bytes[..count].to_vec())).await.is_err() {
                break;
            }
        }
    };
    let write = async move {
        while let Some((due, bytes)) = take.recv().await {
            tokio::time::sleep_until(due).await;
            if to.write_all(&bytes).await.is_err() {
                break;
            }
        }
        let _ = to.shutdown().await;
    };
    tokio::join!(read, write);
}
