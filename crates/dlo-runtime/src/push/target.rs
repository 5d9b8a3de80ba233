//! Where a handler is: an `http` or `https` address, taken apart once, and the way to open a connection to it.

use std::sync::Arc;
use std::time::Duration;

use hyper::Uri;
use hyper::header::HeaderValue;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;

/// A connection to a handler, with TLS or without.
pub(super) type Wire = Either<TcpStream, TlsStream<TcpStream>>;

/// An address that cannot be a handler's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected an address such as http://127.0.0.1:9000/price: {0}")]
pub struct BadTarget(String);

impl BadTarget {
    /// What is wrong with it, without the example.
    pub(super) fn why(&self) -> &str {
        &self.0
    }
}

/// An address, ready to be connected to.
#[derive(Clone)]
pub(super) struct Target {
    host: String,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    /// The path with its query, as the request names it.
    pub(super) path: Uri,
    pub(super) host_header: HeaderValue,
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Target").field("host", &self.host).field("port", &self.port).finish()
    }
}

impl Target {
    pub(super) fn parse(text: &str) -> Result<Self, BadTarget> {
        let bad = |what: &str| BadTarget(what.to_owned());
        let uri: Uri = text.parse().map_err(|_| bad("it is not a URL"))?;
        let authority = uri.authority().ok_or_else(|| bad("the host is missing"))?;
        if authority.as_str().contains('@') {
            return Err(bad("a name and password in it are not sent anywhere; leave them out"));
        }
        let secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            Some(_) | None => return Err(bad("it begins with http:// or https://")),
        };
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err(bad("the host is missing"));
        }
        let tls = if secure { Some(tls(&host)?) } else { None };
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        Ok(Self {
            port: authority.port_u16().unwrap_or(if secure { 443 } else { 80 }),
            tls,
            path: path.parse().map_err(|_| bad("its path is not understood"))?,
            host_header: HeaderValue::from_str(authority.as_str())
                .map_err(|_| bad("its host is not understood"))?,
            host,
        })
    }

    /// Opens a connection. Whatever goes wrong here, the handler has not seen anything.
    pub(super) async fn connect(&self, within: Duration) -> Result<Wire, String> {
        match tokio::time::timeout(within, self.open()).await {
            Ok(Ok(wire)) => Ok(wire),
            Ok(Err(cause)) => Err(format!("{}:{}: {cause}", self.host, self.port)),
            Err(_) => Err(format!("{}:{}: no connection within {within:?}", self.host, self.port)),
        }
    }

    async fn open(&self) -> std::io::Result<Wire> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        // Requests are written whole: waiting to fill a packet only delays them.
        stream.set_nodelay(true)?;
        match &self.tls {
            None => Ok(Either::Left(stream)),
            Some((connector, name)) => Ok(Either::Right(connector.connect(name.clone(), stream).await?)),
        }
    }
}

/// Trusts what the system trusts; `SSL_CERT_FILE` names another set.
fn tls(host: &str) -> Result<(TlsConnector, ServerName<'static>), BadTarget> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| BadTarget("its host is neither a name nor an address".to_owned()))?;
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|cause| BadTarget(format!("TLS cannot be set up: {cause}")))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok((TlsConnector::from(Arc::new(config)), name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_apart_once() {
        let target = Target::parse("http://127.0.0.1:9000/price?v=2").unwrap();
        assert_eq!((target.host.as_str(), target.port, target.tls.is_some()), ("127.0.0.1", 9000, false));
        assert_eq!(target.path, "/price?v=2");
        let six = Target::parse("https://[::1]").unwrap();
        assert_eq!((six.host.as_str(), six.port, six.tls.is_some()), ("::1", 443, true));
        assert_eq!((six.path.path(), six.host_header.to_str().unwrap()), ("/", "[::1]"));
    }

    #[test]
    fn what_is_no_handler_is_refused_with_an_example() {
        for text in [
            "",
            "price",
            "/price",
            "ftp://x/",
            "127.0.0.1:9000",
            "http://a:b@host/",
            "http://",
            "http://a b/",
        ] {
            let refusal = Target::parse(text).unwrap_err().to_string();
            assert!(refusal.contains("http://127.0.0.1:9000/price"), "{text}: {refusal}");
            assert!(!refusal.contains("a:b"), "{refusal}");
        }
    }
}
