//! The guards, from outside. The table of all cases is in `guard.rs`.

use dlo_server::{ServeError, Server, ServerConfig, Token};
use dlo_store::StoreLimits;
use dlo_store::sqlite::SqliteStore;

use crate::office::{Office, clock};

const TOKEN: &str = "0123456789abcdef0123";

#[tokio::test]
async fn no_web_page_can_drive_the_office() {
    let office = Office::open().await;
    let body = br#"{"source":"a","payload":1}"#;
    let json = ("content-type", "application/json");
    let evil =
        office.send("POST", "/api/v1/letters", &[json, ("origin", "https://evil.example")], body).await;
    assert_eq!(evil.problem(), (403, "foreign_origin".to_string()));
    let rebound = office.send("POST", "/api/v1/letters", &[json, ("host", "evil.example")], body).await;
    assert_eq!(rebound.problem(), (403, "unknown_host".to_string()));
    let embedded = office.send("GET", "/api/v1/letters", &[("sec-fetch-site", "cross-site")], b"").await;
    assert_eq!(embedded.problem(), (403, "foreign_origin".to_string()));
    assert_eq!(office.get("/api/v1/stats").await.json()["letters"]["total"], 0);
}

#[tokio::test]
async fn a_token_once_set_is_demanded() {
    let config = ServerConfig { token: Some(Token::new(TOKEN).unwrap()), ..ServerConfig::default() };
    let office = Office::open_with(config).await;
    let without = office.get("/api/v1/stats").await;
    assert_eq!(without.problem(), (401, "token_needed".to_string()));
    assert!(without.headers["www-authenticate"].starts_with("Bearer"));
    let page = office.get("/").await;
    assert_eq!((page.status, page.headers["www-authenticate"].starts_with("Basic")), (401, true));
    let bearer = format!("Bearer {TOKEN}");
    assert_eq!(office.send("GET", "/api/v1/stats", &[("authorization", &bearer)], b"").await.status, 200);
    let wrong = office.send("GET", "/api/v1/stats", &[("authorization", "Bearer nonsense")], b"").await;
    assert_eq!(wrong.problem(), (401, "wrong_token".to_string()));
    assert_eq!(office.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn listening_beyond_loopback_without_a_token_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(data.path(), StoreLimits::default()).unwrap();
    let listener = tokio::net::TcpListener::bind("0.0.0.0:0").await.unwrap();
    let server = Server::new(ServerConfig::default(), store, clock());
    let refused = server.run(listener, std::future::pending()).await;
    assert!(matches!(refused, Err(ServeError::TokenNeeded(_))), "{refused:?}");
}

#[tokio::test]
async fn every_answer_carries_the_security_headers() {
    let office = Office::open().await;
    for path in ["/", "/healthz", "/nowhere", "/api/v1/stats"] {
        let reply = office.get(path).await;
        assert_eq!(reply.headers["x-content-type-options"], "nosniff", "{path}");
        assert!(reply.headers["content-security-policy"].starts_with("default-src 'none'"), "{path}");
        assert_eq!(reply.headers["referrer-policy"], "no-referrer", "{path}");
    }
}
