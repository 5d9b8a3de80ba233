//! The CLI's side of the HTTP API: one blocking connection, answers as the server gave them.
//!
//! Every answer that is not a success becomes a [`Failure`] with a stable exit code and words that say what to do;
//! `problem.rs` reads them. Nothing is retried here: who calls knows whether a second try is safe.

mod pages;
mod problem;

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use ureq::http::Response;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Body, RequestBuilder, SendBody};

use crate::args::ClientArgs;
use crate::config::Config;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::clean;

pub(crate) use pages::{Pages, age_of, text_of};
use problem::Problem;

/// Bytes of one JSON answer; a page of letters stays far below.
const LARGEST_ANSWER: u64 = 256 * 1024 * 1024;
const CONNECT: Duration = Duration::from_secs(5);
/// How long the server may think before it begins to answer: counting every letter anew takes its time.
const ANSWER: Duration = Duration::from_secs(600);
/// The same where the answer is at hand, and a slow one is bad news.
pub(crate) const SOON: Duration = Duration::from_secs(10);

/// A connection to one office.
#[derive(Debug)]
pub(crate) struct Client {
    agent: Agent,
    base: String,
    token: Option<String>,
    /// A claim that the audit log records.
    author: Option<String>,
}

/// What is asked, beside the path.
pub(crate) type Query<'a> = &'a [(&'a str, &'a str)];

impl Client {
    pub(crate) fn new(args: &ClientArgs) -> Outcome<Self> {
        Self::within(args, ANSWER)
    }

    /// The office that was named; else the one that this config describes, with its token. Answers are small, so it has to
    /// begin one soon.
    pub(crate) fn of(args: &ClientArgs, config: &Config) -> Outcome<Self> {
        let listen = config.server.listen;
        if args.is_named || listen.port() == 0 {
            return Self::within(args, SOON);
        }
        let host = match listen {
            SocketAddr::V4(at) if at.ip().is_unspecified() => Ipv4Addr::LOCALHOST.to_string(),
            SocketAddr::V6(at) if at.ip().is_unspecified() => "[::1]".to_string(),
            SocketAddr::V4(at) => at.ip().to_string(),
            SocketAddr::V6(at) => format!("[{}]", at.ip()),
        };
        let own = || config.server.token.as_ref().map(|token| token.reveal().to_string());
        let server = format!("http://{host}:{}", listen.port());
        Self::within(&ClientArgs { server, token: args.token.clone().or_else(own), ..args.clone() }, SOON)
    }

    /// `patience`: how long the office may take until it begins to answer.
    pub(crate) fn within(args: &ClientArgs, patience: Duration) -> Outcome<Self> {
        let base = args.server.trim_end_matches('/').to_string();
        let host = base.strip_prefix("http://").or_else(|| base.strip_prefix("https://")).unwrap_or_default();
        if host.is_empty() || host.contains(['/', '?', '#', '@', ' ']) {
            return Err(Failure::usage(format!(
                "--server (DLO_SERVER) expected an address such as http://127.0.0.1:8404, found `{}`",
                clean(&args.server)
            )));
        }
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .user_agent(concat!("dlo/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(CONNECT))
            .timeout_recv_response(Some(patience));
        // This machine is reached directly, whatever proxy the environment names.
        if ["127.", "localhost", "[::1]"].iter().any(|near| host.starts_with(near)) {
            config = config.proxy(None);
        }
        if base.starts_with("https://") {
            config = config.tls_config(trust_of_the_system());
        }
        let token = args.token.clone().filter(|token| !token.is_empty());
        let author =
            args.author.clone().or_else(|| std::env::var("USER").ok()).map(|name| clean(name.trim()));
        let author = author.filter(|name| !name.is_empty());
        Ok(Self { agent: config.build().into(), base, token, author })
    }

    pub(crate) fn address(&self) -> &str {
        &self.base
    }

    /// `GET`, answered with JSON.
    pub(crate) fn get(&self, path: &str, query: Query<'_>) -> Outcome<Value> {
        self.json(self.get_raw(path, query)?)
    }

    /// `GET`, answered with a stream of bytes.
    pub(crate) fn get_raw(&self, path: &str, query: Query<'_>) -> Outcome<Response<Body>> {
        let request = self.agent.get(self.url(path)).query_pairs(query.iter().copied());
        self.checked(self.named(request).call())
    }

    /// `POST` of JSON, answered with JSON.
    pub(crate) fn post(&self, path: &str, body: &Value) -> Outcome<Value> {
        let text = body.to_string();
        let answer =
            self.post_raw(path, &[], "application/json", &[], SendBody::from_reader(&mut text.as_bytes()))?;
        self.json(answer)
    }

    /// `POST` of nothing, answered with JSON.
    pub(crate) fn post_empty(&self, path: &str) -> Outcome<Value> {
        self.json(self.post_raw(path, &[], "application/json", &[], SendBody::none())?)
    }

    /// `POST` of anything, answered with anything. An answer that is no success is a failure.
    pub(crate) fn post_raw(
        &self,
        path: &str,
        query: Query<'_>,
        content_type: &str,
        headers: Query<'_>,
        body: SendBody<'_>,
    ) -> Outcome<Response<Body>> {
        let mut request = self
            .agent
            .post(self.url(path))
            .query_pairs(query.iter().copied())
            .header("content-type", content_type)
            .header("accept", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let sent = self.named(request).send(body);
        match sent {
            // A guard answers without reading the body, and the answer may be lost while we still write: ask again without one.
            Err(ureq::Error::Io(cause)) if is_cut(&cause) => {
                self.get_raw("/api/v1/stats", &[])?;
                Err(self.broken(&ureq::Error::Io(cause)))
            }
            sent => self.checked(sent),
        }
    }

    /// The request with who asks.
    fn named<B>(&self, mut request: RequestBuilder<B>) -> RequestBuilder<B> {
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if let Some(author) = &self.author {
            request = request.header_raw("dlo-author", author.as_bytes());
        }
        request
    }

    /// The body of an answer as JSON.
    pub(crate) fn json(&self, mut answer: Response<Body>) -> Outcome<Value> {
        let bytes = answer.body_mut().with_config().limit(LARGEST_ANSWER).read_to_vec();
        let bytes = bytes.map_err(|cause| self.broken(&cause))?;
        serde_json::from_slice(&bytes).map_err(|_| {
            Failure::failed(format!(
                "{} answered with something that is not JSON; is it an office?",
                self.base
            ))
        })
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    fn checked(&self, answer: Result<Response<Body>, ureq::Error>) -> Outcome<Response<Body>> {
        let answer = answer.map_err(|cause| self.broken(&cause))?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let status = answer.status().as_u16();
        let wait = answer.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
        let mut text = String::new();
        // A problem is small; whatever else stands here is not worth more.
        let mut body = answer.into_body().into_reader().take(64 * 1024);
        let _ = body.read_to_string(&mut text);
        Err(Problem::read(status, wait, &text).into_failure(self.token.is_some()))
    }

    /// What became of a connection that did not carry an answer.
    fn broken(&self, cause: &ureq::Error) -> Failure {
        let why = match cause {
            ureq::Error::Io(io) => io.to_string(),
            ureq::Error::HostNotFound => "there is no such host".to_string(),
            ureq::Error::ConnectionFailed => "the connection was refused".to_string(),
            other => other.to_string(),
        };
        Failure::new(
            Exit::Unreachable,
            format!(
                "the office at {} is out of reach: {why}\n  start it by `dlo serve`, or name another by --server or DLO_SERVER",
                self.base
            ),
        )
    }
}

fn is_cut(cause: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
    matches!(cause.kind(), BrokenPipe | ConnectionAborted | ConnectionReset)
}

/// The certificates that this machine trusts, a company's own among them. Read only when they are needed.
fn trust_of_the_system() -> TlsConfig {
    let found = rustls_native_certs::load_native_certs().certs;
    let roots = found.iter().map(|der| Certificate::from_der(der).to_owned());
    TlsConfig::builder()
        .root_certs(RootCerts::from(roots.collect::<Vec<_>>()))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(server: &str) -> Outcome<Client> {
        Client::new(&ClientArgs {
            server: server.into(),
            is_named: true,
            token: None,
            author: None,
            json: false,
        })
    }

    #[test]
    fn an_address_is_http_with_a_host_and_nothing_else() {
        assert_eq!(client("http://127.0.0.1:8404/").unwrap().address(), "http://127.0.0.1:8404");
        for bad in ["127.0.0.1:8404", "ftp://x", "http://", "http://user@host", "http://host/path"] {
            assert_eq!(client(bad).unwrap_err().exit, Exit::Usage, "{bad}");
        }
    }
}
