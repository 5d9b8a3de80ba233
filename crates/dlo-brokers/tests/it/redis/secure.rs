//! ACL users and TLS, against a server that demands them.

use std::path::Path;
use std::process::Command;

use dlo_brokers::redis::RedisConfig;
use dlo_brokers::secret::Secret;
use dlo_brokers::tls::TlsConfig;
use dlo_core::broker::{BrokerError, Settlement, TopologySpec};
use dlo_testkit::harness::redis::Redis;

use super::replays::send;
use super::{Raw, body, broker, one, publish, settle, to};

/// The rights that docs/reference/brokers/redis.md asks for, and no other.
const RIGHTS: &str = "resetchannels ~orders* +@connection +get +set +exists +type +time +info +xadd +xack +xdel +xclaim +xpending \
    +xrange +xread +xreadgroup +xinfo +xgroup +zadd +zcard +zrange +zrangebyscore +zrem +zscore +eval +evalsha";

#[tokio::test]
async fn a_user_with_the_documented_rights_can_do_everything_and_nothing_else() {
    let server = Redis::with(&["--requirepass", "admin"]).await;
    let admin = server.url.replace("redis://", "redis://:admin@");
    let mut raw = Raw::to(&admin).await;
    let rights: Vec<&str> = RIGHTS.split_whitespace().collect();
    let () = raw.ask(&[&["ACL", "SETUSER", "office", "on", ">hunter2"][..], &rights].concat()).await;
    let user = Some("office".to_owned());
    let password = Some(Secret::new("hunter2"));
    let broker = broker(RedisConfig { user, password, ..RedisConfig::default() }, &server.url).await;
    assert!(broker.ping().await.unwrap().is_some());
    broker.topology().apply(&TopologySpec::new("orders", "orders:dlq", 5)).await.unwrap();
    let replays = broker.fenced_publisher("r").await.unwrap();
    replays.publish(vec![to("orders", send("r/1", "a"))]).await.remove(0).unwrap();
    let mut source = broker.source("orders", "g").await.unwrap();
    let refused = one(&mut source).await;
    settle(&*source, refused, Settlement::Refuse).await;
    let mut drain = broker.drain("orders:dlq").await.unwrap();
    let letter = one(&mut drain).await;
    assert_eq!(body(&letter.message), "a");
    settle(&*drain, letter, Settlement::Done).await;
    broker.inspector().inspect("orders", Some("g")).await.unwrap();
    source.close().await.unwrap();
    drain.close().await.unwrap();
    // Keys that the user has no right to.
    let elsewhere = broker.inspector().inspect("payments", None).await;
    assert!(matches!(&elsewhere, Err(BrokerError::Refused(why)) if why.contains("NOPERM")), "{elsewhere:?}");
}

#[tokio::test]
async fn a_wrong_password_is_refused_and_not_tried_for_ever() {
    let server = Redis::with(&["--requirepass", "admin"]).await;
    for url in [server.url.clone(), server.url.replace("redis://", "redis://:wrong@")] {
        let broker = broker(RedisConfig::default(), &url).await;
        let refused = broker.ping().await;
        assert!(
            matches!(&refused, Err(BrokerError::Refused(why)) if why.contains("password")),
            "{refused:?}"
        );
    }
}

fn openssl(folder: &Path, arguments: &[&str]) {
    let made = Command::new("openssl").args(arguments).current_dir(folder).output().unwrap();
    assert!(made.status.success(), "openssl {arguments:?}: {}", String::from_utf8_lossy(&made.stderr));
}

/// An authority, and a certificate by it for this machine.
fn certificates(folder: &Path) {
    let new = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
    let authority = ["-x509", "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=dlo test authority"];
    openssl(folder, &[&new[..], &authority].concat());
    openssl(
        folder,
        &[&new[..], &["-keyout", "key.pem", "-out", "request.pem", "-subj", "/CN=localhost"]].concat(),
    );
    std::fs::write(folder.join("names"), "subjectAltName=DNS:localhost,IP:127.0.0.1").unwrap();
    let sign = ["x509", "-req", "-in", "request.pem", "-CA", "ca.pem", "-CAkey", "ca.key", "-days", "2"];
    openssl(folder, &[&sign[..], &["-set_serial", "1", "-extfile", "names", "-out", "cert.pem"]].concat());
}

#[tokio::test]
async fn tls_with_a_client_certificate_works_and_without_one_does_not() {
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let file = |name: &str| folder.path().join(name);
    let (ca, cert, key) = (file("ca.pem"), file("cert.pem"), file("key.pem"));
    let text = |path: &Path| path.display().to_string();
    let port = dlo_testkit::harness::free_port().to_string();
    let settings = ["--tls-port", &port, "--tls-ca-cert-file", &text(&ca), "--tls-cert-file", &text(&cert)];
    let _server = Redis::with(&[&settings[..], &["--tls-key-file", &text(&key)]].concat()).await;
    let url = format!("rediss://localhost:{port}");
    let tls = TlsConfig { ca: Some(ca), cert: Some(cert), key: Some(key) };

    let known = broker(RedisConfig { tls: tls.clone(), ..RedisConfig::default() }, &url).await;
    assert!(known.ping().await.unwrap().is_some());
    let spec = TopologySpec::new("orders", "orders:dlq", 5);
    known.topology().apply(&spec).await.unwrap();
    publish(&known, "orders", &["a"]).await;
    let mut source = known.source("orders", "g").await.unwrap();
    assert_eq!(body(&one(&mut source).await.message), "a");

    let nobody = TlsConfig { cert: None, key: None, ..tls.clone() };
    let nobody = broker(RedisConfig { tls: nobody, ..RedisConfig::default() }, &url).await;
    assert!(nobody.ping().await.is_err(), "the server asks who is there");
    let stranger = broker(RedisConfig::default(), &url).await;
    assert!(matches!(stranger.ping().await, Err(BrokerError::Unavailable(_))), "its authority is not known");
}
