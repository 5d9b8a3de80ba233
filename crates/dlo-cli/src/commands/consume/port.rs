//! The sidecar's own port: health, readiness, status and metrics. It only tells; nothing can be changed here, and no
//! payload is shown.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::standing::Board;

/// Connections at once: a scraper, a probe and a few people.
const CONNECTIONS: usize = 64;
/// How long a client may take to speak.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long accepting pauses when the system has no file handles left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const PROMETHEUS: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// Answers until `closed`.
pub(super) async fn serve(listener: TcpListener, board: Board, closed: CancellationToken) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Some(Ok(place)) = closed.run_until_cancelled(Arc::clone(&room).acquire_owned()).await else {
            return;
        };
        match closed.run_until_cancelled(listener.accept()).await {
            None => return,
            Some(Err(_)) => tokio::time::sleep(ACCEPT_PAUSE).await,
            Some(Ok((stream, _))) => {
                let (board, closed) = (board.clone(), closed.clone());
                tokio::spawn(async move {
                    closed.run_until_cancelled(connection(stream, board)).await;
                    drop(place);
                });
            }
        }
    }
}

async fn connection(stream: TcpStream, board: Board) {
    let answer = |request: Request<Incoming>| {
        let answer = answer(&board, request.method(), request.uri().path());
        async move { Ok::<_, Infallible>(answer) }
    };
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    // How a scraper's connection ends is nobody's concern.
    let _ = server.serve_connection(TokioIo::new(stream), service_fn(answer)).await;
}

fn answer(board: &Board, method: &Method, path: &str) -> Response<Full<Bytes>> {
    if method != Method::GET && method != Method::HEAD {
        return made(StatusCode::METHOD_NOT_ALLOWED, TEXT, "GET only\n".to_owned());
    }
    match path {
        "/healthz" => made(StatusCode::OK, TEXT, "ok\n".to_owned()),
        "/readyz" => match board.not_ready() {
            missing if missing.is_empty() => made(StatusCode::OK, TEXT, "ready\n".to_owned()),
            missing => {
                let words = format!("not ready: {}; see /status\n", missing.join(", "));
                made(StatusCode::SERVICE_UNAVAILABLE, TEXT, words)
            }
        },
        "/status" => made(StatusCode::OK, JSON, format!("{:#}\n", board.status())),
        "/metrics" => made(StatusCode::OK, PROMETHEUS, board.metrics.render()),
        _ => {
            let words = "there is /healthz, /readyz, /status and /metrics\n".to_owned();
            made(StatusCode::NOT_FOUND, TEXT, words)
        }
    }
}

fn made(status: StatusCode, kind: HeaderValue, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
