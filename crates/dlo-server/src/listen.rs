//! The connection loop: accept within a cap, drop clients that are slow to speak, stop with grace.
//!
//! HTTP/1.1 only. The office is reached directly on loopback or through a proxy, and both speak it; one protocol less
//! is one kind of flood less. What a request may do is not decided here.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use crate::config::HttpLimits;
use crate::patient::Patient;

/// Bytes of a request's head. More is answered 431.
const HEAD: usize = 64 * 1024;
/// Headers of a request. More is answered 431.
const HEADERS: usize = 100;
/// How long accepting pauses when the system has no file handles left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until `stop`, then finishes what is in flight within the grace period.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    limits: &HttpLimits,
    stop: CancellationToken,
) {
    let room = Arc::new(Semaphore::new(limits.connections));
    let tasks = TaskTracker::new();
    // Connections end by `stop`; what is left when the grace period is over ends by `cut`.
    let cut = CancellationToken::new();
    while let Some((stream, peer, permit)) = accept(&listener, &room, &stop).await {
        let connection = connection(stream, peer, router.clone(), limits.clone(), stop.clone());
        let cut = cut.clone();
        tasks.spawn(async move {
            cut.run_until_cancelled(connection).await;
            drop(permit);
        });
    }
    drop(listener);
    tasks.close();
    if tokio::time::timeout(limits.grace, tasks.wait()).await.is_err() {
        tracing::warn!(
            connections = tasks.len(),
            "connections were cut: they did not finish within the grace period"
        );
        cut.cancel();
        tasks.wait().await;
    }
}

/// The next connection and its place under the cap; `None` when it is time to stop.
async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
    stop: &CancellationToken,
) -> Option<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    loop {
        let place = stop.run_until_cancelled(room.clone().acquire_owned()).await?.ok()?;
        match stop.run_until_cancelled(listener.accept()).await? {
            Ok((stream, peer)) => return Some((stream, peer, place)),
            Err(error) => {
                // A client that went away before it was accepted is nothing; no file handles left passes.
                tracing::debug!(%error, "a connection was not accepted");
                stop.run_until_cancelled(tokio::time::sleep(ACCEPT_PAUSE)).await?;
            }
        }
    }
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    limits: HttpLimits,
    stop: CancellationToken,
) {
    // Answers are small and whole: waiting to fill a packet only delays them.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection keeps its delay");
    }
    let service = router.map_request(move |request: hyper::Request<hyper::body::Incoming>| {
        let mut request = request.map(axum::body::Body::new);
        request.extensions_mut().insert(ConnectInfo(peer));
        request
    });
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head_timeout)
            .max_headers(HEADERS)
            .max_buf_size(HEAD)
            .half_close(false)
            .serve_connection(
                TokioIo::new(Patient::new(stream, limits.write_timeout)),
                TowerToHyperService::new(service)
            )
    );
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}
