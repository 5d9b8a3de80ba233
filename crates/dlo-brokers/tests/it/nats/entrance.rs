//! Being let in: passwords, NKeys and TLS, each against a real server that asks for it.

use std::path::Path;
use std::process::Command;

use dlo_brokers::nats::NatsConfig;
use dlo_brokers::secret::Secret;
use dlo_brokers::tls::TlsConfig;
use dlo_core::broker::{Broker, BrokerError};
use dlo_testkit::harness::nats::{Nats, Release};

use super::{broker, declare, fresh_name, publish, receive, settings, text};

async fn works(broker: &dyn Broker) {
    let queue = fresh_name();
    declare(broker, &queue).await;
    publish(broker, &queue, vec![text("m")]).await;
    let mut source = broker.source(&queue, "g").await.unwrap();
    assert_eq!(receive(&mut source, 1).await.len(), 1);
}

/// Runs openssl in a directory and returns what it wrote.
fn openssl(directory: &Path, arguments: &str) -> Vec<u8> {
    let output = Command::new("openssl").args(arguments.split(' ')).current_dir(directory).output().unwrap();
    assert!(output.status.success(), "openssl: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[tokio::test]
async fn a_password_lets_in_and_a_wrong_one_is_refused_with_directions() {
    let server = Nats::own(Release::Newest, "authorization { user: office, password: s3cret }").await;
    let with = |password: &str| NatsConfig {
        user: Some("office".to_owned()),
        password: Some(Secret::new(password)),
        ..settings(server.url())
    };
    works(&*broker(with("s3cret")).await).await;
    let refused = broker(with("wrong")).await.ping().await.unwrap_err();
    assert!(matches!(&refused, BrokerError::Refused(why) if why.contains("password")), "{refused}");
}

#[tokio::test]
async fn an_nkey_lets_in_and_nobody_else_is() {
    let directory = tempfile::tempdir().unwrap();
    let private = openssl(directory.path(), "genpkey -algorithm ed25519 -outform DER");
    std::fs::write(directory.path().join("key.der"), &private).unwrap();
    let public = openssl(directory.path(), "pkey -inform DER -in key.der -pubout -outform DER");
    let (public, seed) = nkey(&public[public.len() - 32..], &private[private.len() - 32..]);
    let users = format!("authorization {{ users: [ {{ nkey: {public} }} ] }}");
    let server = Nats::own(Release::Newest, &users).await;
    let file = directory.path().join("office.nk");
    std::fs::write(&file, format!("{seed}\n")).unwrap();
    works(&*broker(NatsConfig { nkey_file: Some(file), ..settings(server.url()) }).await).await;
    let refused = broker(settings(server.url())).await.ping().await.unwrap_err();
    assert!(matches!(refused, BrokerError::Refused(_)), "{refused}");
}

/// The two texts of a user's key: a prefix, the bytes, a checksum, in base 32.
fn nkey(public: &[u8], private: &[u8]) -> (String, String) {
    const USER: u8 = 20 << 3;
    const SEED: u8 = 18 << 3;
    let encode = |mut bytes: Vec<u8>| {
        let mut crc = 0_u16;
        for byte in &bytes {
            crc ^= u16::from(*byte) << 8;
            for _ in 0..8 {
                crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            }
        }
        bytes.extend(crc.to_le_bytes());
        let bit = |at: usize| bytes.get(at / 8).map_or(0, |byte| (byte >> (7 - at % 8)) & 1);
        (0..(bytes.len() * 8).div_ceil(5))
            .map(|letter| (0..5).fold(0, |value, at| value << 1 | bit(letter * 5 + at)))
            .map(|value| char::from(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"[usize::from(value)]))
            .collect::<String>()
    };
    let with = |prefix: &[u8], key: &[u8]| encode([prefix, key].concat());
    (with(&[USER], public), with(&[SEED | (USER >> 5), (USER & 31) << 3], private))
}

#[tokio::test]
async fn a_server_with_a_certificate_of_ones_own_is_trusted_by_its_authority_and_not_without() {
    let directory = tempfile::tempdir().unwrap();
    let there = directory.path();
    std::fs::write(there.join("san"), "subjectAltName=IP:127.0.0.1\n").unwrap();
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(there, &format!("req -x509 {key} -keyout ca.key -out ca.pem -days 2 -subj /CN=test-authority"));
    openssl(there, &format!("req {key} -keyout server.key -out server.csr -subj /CN=127.0.0.1"));
    openssl(
        there,
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile san -out server.pem",
    );
    let file = |name: &str| there.join(name).display().to_string();
    let tls = format!("tls {{ cert_file: {:?}, key_file: {:?} }}", file("server.pem"), file("server.key"));
    let server = Nats::own(Release::Newest, &tls).await;
    let with = |ca: Option<&str>| NatsConfig {
        tls: Some(TlsConfig { ca: ca.map(|ca| there.join(ca)), ..TlsConfig::default() }),
        ..settings(server.url())
    };
    works(&*broker(with(Some("ca.pem"))).await).await;
    let strange = broker(with(None)).await.ping().await.unwrap_err();
    assert!(matches!(&strange, BrokerError::Unavailable(why) if why.contains("certificate")), "{strange}");
}
