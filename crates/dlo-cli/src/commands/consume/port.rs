//! The sidecar's own port: health, readiness, status and metrics. Nothing can be changed here, and no payload is shown.
//!
//! If a token is set, status and metrics need it as `Authorization: Bearer`. Probes have none, so health and readiness are open.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dlo_server::Token;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::standing::Board;

/// Answers to probes, which have no token.
const OPEN_TO_ALL: [&str; 2] = ["/healthz", "/readyz"];
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
pub(super) async fn serve(
    listener: TcpListener,
    board: Board,
    token: Option<Token>,
    closed: CancellationToken,
) {
    let token = token.map(Arc::new);
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Some(Ok(place)) = closed.run_until_cancelled(Arc::clone(&room).acquire_owned()).await else {
            return;
        };
        match closed.run_until_cancelled(listener.accept()).await {
            None => return,
            Some(Err(_)) => tokio::time::sleep(ACCEPT_PAUSE).await,
            Some(Ok((stream, _))) => {
                let (board, token, closed) = (board.clone(), token.clone(), closed.clone());
                tokio::spawn(async move {
                    closed.run_until_cancelled(connection(stream, board, token)).await;
                    drop(place);
                });
            }
        }
    }
}

async fn connection(stream: TcpStream, board: Board, token: Option<Arc<Token>>) {
    let answer = |request: Request<Incoming>| {
        let answer = answer(&board, token.as_deref(), &request);
        async move { Ok::<_, Infallible>(answer) }
    };
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    // How a scraper's connection ends is nobody's concern.
    let _ = server.serve_connection(TokioIo::new(stream), service_fn(answer)).await;
}

fn answer<B>(board: &Board, token: Option<&Token>, request: &Request<B>) -> Response<Full<Bytes>> {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return made(StatusCode::METHOD_NOT_ALLOWED, TEXT, "GET only\n".to_owned());
    }
    let path = request.uri().path();
    if !OPEN_TO_ALL.contains(&path) && !token.is_none_or(|token| is_presented(token, request.headers())) {
        let words = "send the token as `Authorization: Bearer …`\n".to_owned();
        let mut refusal = made(StatusCode::UNAUTHORIZED, TEXT, words);
        refusal.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"dlo\""));
        return refusal;
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

fn is_presented(token: &Token, headers: &HeaderMap) -> bool {
    let sent = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let bearer = sent
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    bearer.is_some_and(|(_, presented)| token.is(presented.trim()))
}

fn made(status: StatusCode, kind: HeaderValue, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
