//! Whether the handler is there, asked before the first message is taken from the broker, and while nobody answers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use hyper::header::HOST;

use super::pool::{NoAnswer, Pool};
use super::target::{BadTarget, Target};

/// How long one question may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// How a handler is asked whether it is there.
#[derive(Debug)]
pub(super) enum Health {
    /// By a connection: it listens.
    Connect(Target),
    /// By `GET` on an address of its own: any 2xx.
    Get(Arc<Pool>),
}

impl Health {
    pub(super) fn new(handler: &Target, address: Option<&str>) -> Result<Self, BadTarget> {
        match address {
            Some(address) => Ok(Self::Get(Pool::new(Target::parse(address)?))),
            None => Ok(Self::Connect(handler.clone())),
        }
    }

    /// `Ok` when the handler is there; else what stands in the way.
    pub(super) async fn ask(&self) -> Result<(), String> {
        let pool = match self {
            Self::Connect(target) => return target.connect(PATIENCE).await.map(drop),
            Self::Get(pool) => pool,
        };
        let mut request = Request::new(Full::new(Bytes::new()));
        *request.uri_mut() = pool.target().path.clone();
        request.headers_mut().insert(HOST, pool.target().host_header.clone());
        match tokio::time::timeout(PATIENCE, pool.send(request, PATIENCE)).await {
            Ok(Ok(answer)) if answer.status.is_success() => Ok(()),
            Ok(Ok(answer)) => Err(format!("its health check answers {}", answer.status)),
            Ok(Err(NoAnswer::Absent(cause) | NoAnswer::Lost(cause))) => Err(cause),
            Err(_) => Err(format!("its health check does not answer within {PATIENCE:?}")),
        }
    }
}
