//! A question before an automatic replay: is the consumer, or what it needs, well again?

use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, header};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// How long an answer may take, from the first packet on.
const PATIENCE: Duration = Duration::from_secs(5);

/// `Err`: why not, for a person.
pub(super) async fn is_well(url: &str) -> Result<(), String> {
    match tokio::time::timeout(PATIENCE, ask(url)).await {
        Ok(answer) => answer,
        Err(_) => Err(format!("{url} did not answer within {} s", PATIENCE.as_secs())),
    }
}

async fn ask(url: &str) -> Result<(), String> {
    let say = |problem: &dyn std::fmt::Display| format!("{url}: {problem}");
    let rest = url.strip_prefix("http://").ok_or_else(|| say(&"only http:// is asked"))?;
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let address = if authority.contains(':') { authority.to_string() } else { format!("{authority}:80") };
    let stream = TcpStream::connect(&address).await.map_err(|error| say(&error))?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| say(&error))?;
    let driving = tokio::spawn(connection);
    let request = Request::get(if path.is_empty() { "/" } else { path })
        .header(header::HOST, authority)
        .body(Body::empty())
        .map_err(|error| say(&error))?;
    let answer = sender.send_request(request).await.map_err(|error| say(&error));
    driving.abort();
    match answer?.status() {
        status if status.is_success() => Ok(()),
        status => Err(format!("{url} answered {status}")),
    }
}
