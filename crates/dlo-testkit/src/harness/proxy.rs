//! A wire that can be cut: a TCP proxy in front of a server.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

/// Passes bytes between clients and one server until it is told otherwise.
#[derive(Debug)]
pub struct Proxy {
    pub address: SocketAddr,
    open: Arc<Mutex<Vec<AbortHandle>>>,
    accepting: JoinSet<()>,
}

impl Proxy {
    /// Listens on a free port of its own, in front of `server`.
    pub async fn before(server: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("binding a free port");
        Self::on(listener, server)
    }

    /// Listens on `port`, for servers that must be told the address of their wire before they start.
    pub async fn on_port(port: u16, server: SocketAddr) -> Self {
        Self::on(TcpListener::bind(("127.0.0.1", port)).await.expect("binding the proxy's port"), server)
    }

    fn on(listener: TcpListener, server: SocketAddr) -> Self {
        let address = listener.local_addr().expect("the address of a bound port");
        let open: Arc<Mutex<Vec<AbortHandle>>> = Arc::default();
        let mut accepting = JoinSet::new();
        let known = Arc::clone(&open);
        accepting.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let wire = tokio::spawn(pass(client, server));
                let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
                known.retain(|wire| !wire.is_finished());
                known.push(wire.abort_handle());
            }
        });
        Self { address, open, accepting }
    }

    /// Takes the wire away: nobody listens any more, then every connection is cut.
    pub async fn close(mut self) {
        self.accepting.shutdown().await;
        self.cut();
    }

    /// Cuts every connection that is open now; new ones work.
    pub fn cut(&self) {
        for wire in self.open.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            wire.abort();
        }
    }
}

async fn pass(mut client: TcpStream, server: SocketAddr) {
    // A server that is away looks like a closed door, as without the proxy.
    if let Ok(mut server) = TcpStream::connect(server).await {
        let _ = client.set_nodelay(true);
        let _ = server.set_nodelay(true);
        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
    }
}
