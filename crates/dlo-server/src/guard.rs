//! Who may speak: nobody beyond loopback without the token, and no web page at all.
//!
//! A browser on the same machine can be made to send requests by any page it shows. Three things stop that: the
//! `Host` must be one that no attacker can point elsewhere (an address, `localhost`, a configured name), which ends DNS
//! rebinding; an `Origin` must be our own; and `Sec-Fetch-Site`, where a browser sends it, must not be foreign. Following a
//! link to a page of ours is allowed; driving the API from one is not.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, Method, Request, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::api::error::{Answer, Problem};
use crate::config::ServerConfig;
use crate::office::Office;

/// Answers to probes carry nothing worth a token, and probes have none.
const OPEN_TO_ALL: &[&str] = &["/healthz", "/readyz"];

/// The name of the token that a request presented: the one thing about a person that is proven.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Proven(pub(crate) String);

pub(crate) async fn check(
    State(office): State<Arc<Office>>,
    mut request: Request<Body>,
    next: Next,
) -> Response {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip());
    let asked =
        Asked { peer, method: request.method(), path: request.uri().path(), headers: request.headers() };
    match allowed(&office.config, &asked) {
        Ok(None) => next.run(request).await,
        Ok(Some(proven)) => {
            request.extensions_mut().insert(proven);
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    }
}

/// What is looked at of a request.
#[derive(Debug)]
struct Asked<'a> {
    peer: Option<IpAddr>,
    method: &'a Method,
    path: &'a str,
    headers: &'a HeaderMap,
}

fn allowed(config: &ServerConfig, asked: &Asked<'_>) -> Answer<Option<Proven>> {
    let host = host(config, asked.headers)?;
    same_origin(host, asked)?;
    if OPEN_TO_ALL.contains(&asked.path) {
        return Ok(None);
    }
    authenticated(config, asked)
}

fn forbidden(code: &'static str, detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, code, detail)
}

/// The `Host` header, if it is one that cannot have been rebound.
fn host<'a>(config: &ServerConfig, headers: &'a HeaderMap) -> Answer<&'a str> {
    let missing = || Problem::bad_request("no_host", "the request must have one `Host` header");
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return Err(missing()) };
    let host = host.to_str().map_err(|_| missing())?;
    let name = name_of(host);
    let known = name.eq_ignore_ascii_case("localhost")
        || name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok()
        || config.hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(name));
    if known {
        return Ok(host);
    }
    let shown: String = name.chars().take(100).collect();
    Err(forbidden(
        "unknown_host",
        format!("the office is not known as `{shown}`; use its address, or add the name to `server.hosts`"),
    ))
}

/// An authority without its port.
fn name_of(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => authority,
    }
}

fn same_origin(host: &str, asked: &Asked<'_>) -> Answer<()> {
    // A browser sends one. Two are a try to show one to us and another to a proxy.
    if asked.headers.get_all(header::ORIGIN).iter().count() > 1 {
        return Err(forbidden("foreign_origin", "the request must have at most one `Origin` header"));
    }
    if let Some(origin) = asked.headers.get(header::ORIGIN) {
        let authority =
            origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, rest)| rest);
        if !authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host)) {
            return Err(forbidden("foreign_origin", "a page from another origin may not use the office"));
        }
    }
    let header = |name| asked.headers.get(name).and_then(|value| value.to_str().ok());
    match header("sec-fetch-site") {
        None | Some("same-origin" | "none") => Ok(()),
        Some(_) if is_link(asked, header("sec-fetch-mode")) => Ok(()),
        Some(_) => Err(forbidden("foreign_origin", "a page from another site may not use the office")),
    }
}

/// A person followed a link to one of our pages: nothing is changed by that, and the other page sees nothing.
fn is_link(asked: &Asked<'_>, mode: Option<&str>) -> bool {
    asked.method == Method::GET && mode == Some("navigate") && !asked.path.starts_with("/api/")
}

/// Who it is, where the token has a name.
fn authenticated(config: &ServerConfig, asked: &Asked<'_>) -> Answer<Option<Proven>> {
    if config.token.is_none() && config.tokens.is_empty() {
        // Also behind a listener on loopback: a forwarded port must not open what the configuration closed.
        if asked.peer.is_some_and(|peer| peer.to_canonical().is_loopback()) {
            return Ok(None);
        }
        return Err(forbidden(
            "loopback_only",
            "without a token the office answers only on loopback; set `server.token`",
        ));
    }
    let presented =
        asked.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(presented);
    let Some(presented) = presented else {
        return Err(unauthorized("token_needed", "send the token as `Authorization: Bearer …`", asked.path));
    };
    if config.token.as_ref().is_some_and(|token| token.is(&presented)) {
        return Ok(None);
    }
    // Every one is compared, so that the time says nothing of which came near.
    let named = config.tokens.iter().fold(None, |found, (name, token)| {
        let is = token.is(&presented);
        if is { Some(name) } else { found }
    });
    match named {
        Some(name) => Ok(Some(Proven(name.clone()))),
        None => Err(unauthorized("wrong_token", "the token is not the office's", asked.path)),
    }
}

/// A program sends the token as `Bearer`; a browser can only send it as a password, with any name.
fn presented(authorization: &str) -> Option<String> {
    let (scheme, value) = authorization.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(value.trim().to_string());
    }
    if scheme.eq_ignore_ascii_case("basic") {
        let decoded = String::from_utf8(STANDARD.decode(value.trim()).ok()?).ok()?;
        return decoded.split_once(':').map(|(_, password)| password.to_string());
    }
    None
}

fn unauthorized(code: &'static str, detail: &str, path: &str) -> Problem {
    // A page that asks for `Basic` makes the browser ask the person; a program is told what it can send.
    let challenge = if path.starts_with("/api/") {
        "Bearer realm=\"dlo\""
    } else {
        "Basic realm=\"dlo\", charset=\"UTF-8\""
    };
    Problem::new(StatusCode::UNAUTHORIZED, code, detail).challenge(challenge)
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;
    use crate::config::Token;

    const TOKEN: &str = "0123456789abcdef0123";

    fn ask(config: &ServerConfig, peer: &str, method: Method, path: &str, headers: &[(&str, &str)]) -> u16 {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap());
        }
        let asked = Asked { peer: peer.parse().ok(), method: &method, path, headers: &map };
        allowed(config, &asked).map_or_else(|problem| problem.status().as_u16(), |_| 200)
    }

    fn get(headers: &[(&str, &str)]) -> u16 {
        ask(&ServerConfig::default(), "127.0.0.1", Method::GET, "/api/v1/stats", headers)
    }

    #[test]
    fn a_host_must_be_an_address_or_a_known_name() {
        for host in ["127.0.0.1:8404", "localhost:8404", "LOCALHOST", "[::1]:8404", "[::1]", "10.0.0.7"] {
            assert_eq!(get(&[("host", host)]), 200, "{host}");
        }
        for host in ["evil.example", "localhost.evil.example:8404", "127.0.0.1.nip.io", ""] {
            assert_eq!(get(&[("host", host)]), 403, "{host}");
        }
        assert_eq!(get(&[]), 400);
        assert_eq!(get(&[("host", "localhost"), ("host", "evil.example")]), 400);
        let named = ServerConfig { hosts: vec!["dlo.internal".into()], ..ServerConfig::default() };
        assert_eq!(ask(&named, "::1", Method::GET, "/", &[("host", "dlo.internal:443")]), 200);
    }

    #[test]
    fn no_page_from_elsewhere_can_drive_the_api() {
        let host = ("host", "127.0.0.1:8404");
        assert_eq!(get(&[host, ("origin", "http://127.0.0.1:8404")]), 200);
        assert_eq!(get(&[host, ("origin", "http://127.0.0.1:9999")]), 403);
        assert_eq!(get(&[host, ("origin", "https://evil.example")]), 403);
        assert_eq!(get(&[host, ("origin", "null")]), 403);
        let own = ("origin", "http://127.0.0.1:8404");
        assert_eq!(get(&[host, own, ("origin", "https://evil.example")]), 403);
        assert_eq!(get(&[host, own, own]), 403);
        assert_eq!(get(&[host, ("sec-fetch-site", "same-origin")]), 200);
        assert_eq!(get(&[host, ("sec-fetch-site", "none")]), 200);
        for site in ["cross-site", "same-site"] {
            assert_eq!(get(&[host, ("sec-fetch-site", site)]), 403, "{site}");
            assert_eq!(get(&[host, ("sec-fetch-site", site), ("sec-fetch-mode", "navigate")]), 403, "{site}");
        }
    }

    #[test]
    fn a_link_to_a_page_may_be_followed_from_anywhere() {
        let headers =
            [("host", "localhost"), ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
        let config = ServerConfig::default();
        assert_eq!(ask(&config, "127.0.0.1", Method::GET, "/letters", &headers), 200);
        assert_eq!(ask(&config, "127.0.0.1", Method::POST, "/letters", &headers), 403);
    }

    #[test]
    fn without_a_token_only_loopback_is_answered() {
        let config = ServerConfig::default();
        let host = [("host", "10.0.0.7")];
        assert_eq!(ask(&config, "::ffff:127.0.0.1", Method::GET, "/metrics", &host), 200);
        assert_eq!(ask(&config, "10.0.0.9", Method::GET, "/metrics", &host), 403);
        assert_eq!(ask(&config, "10.0.0.9", Method::GET, "/healthz", &host), 200);
        assert_eq!(ask(&config, "unknown", Method::GET, "/metrics", &host), 403);
    }

    #[test]
    fn with_a_token_everybody_must_present_it() {
        let config = ServerConfig { token: Some(Token::new(TOKEN).unwrap()), ..ServerConfig::default() };
        let with = |value: &str| {
            ask(
                &config,
                "127.0.0.1",
                Method::GET,
                "/api/v1/stats",
                &[("host", "localhost"), ("authorization", value)],
            )
        };
        assert_eq!(with(&format!("Bearer {TOKEN}")), 200);
        assert_eq!(with(&format!("bearer {TOKEN}")), 200);
        assert_eq!(with(&format!("Basic {}", STANDARD.encode(format!("me:{TOKEN}")))), 200);
        assert_eq!(with("Bearer wrong"), 401);
        assert_eq!(with(TOKEN), 401);
        assert_eq!(ask(&config, "127.0.0.1", Method::GET, "/", &[("host", "localhost")]), 401);
        assert_eq!(ask(&config, "127.0.0.1", Method::GET, "/readyz", &[("host", "localhost")]), 200);
    }

    #[test]
    fn a_token_with_a_name_says_who_it_is_and_the_common_one_does_not() {
        let tokens = vec![("alice".to_string(), Token::new("alice-0123456789abcdef").unwrap())];
        let common = Some(Token::new(TOKEN).unwrap());
        let config = ServerConfig { token: common, tokens, ..ServerConfig::default() };
        let who = |token: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("host", HeaderValue::from_static("localhost"));
            headers.insert("authorization", HeaderValue::from_str(&format!("Bearer {token}")).unwrap());
            let peer = "127.0.0.1".parse().ok();
            allowed(&config, &Asked { peer, method: &Method::GET, path: "/", headers: &headers })
        };
        assert_eq!(who("alice-0123456789abcdef").unwrap(), Some(Proven("alice".into())));
        assert_eq!(who(TOKEN).unwrap(), None);
        assert_eq!(who("alice-0123456789abcdeX").unwrap_err().status(), 401);
    }
}
