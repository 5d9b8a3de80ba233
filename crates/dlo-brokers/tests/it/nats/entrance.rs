//! Being let in: passwords, NKeys, credentials files and TLS, each against a real server that asks for it.

use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
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
    let user = Key::new(directory.path(), Role::User);
    let users = format!("authorization {{ users: [ {{ nkey: {} }} ] }}", user.public);
    let server = Nats::own(Release::Newest, &users).await;
    let file = directory.path().join("office.nk");
    std::fs::write(&file, format!("{}\n", user.seed)).unwrap();
    works(&*broker(NatsConfig { nkey_file: Some(file), ..settings(server.url()) }).await).await;
    let refused = broker(settings(server.url())).await.ping().await.unwrap_err();
    assert!(matches!(refused, BrokerError::Refused(_)), "{refused}");
}

#[tokio::test]
async fn a_credentials_file_lets_in_where_an_operator_vouches_for_accounts_and_these_for_users() {
    let directory = tempfile::tempdir().unwrap();
    let there = directory.path();
    let operator = Key::new(there, Role::Operator);
    let [system, shop] = [(); 2].map(|()| Key::new(there, Role::Account));
    let [user, stranger] = [(); 2].map(|()| Key::new(there, Role::User));
    let limits = r#""limits":{"subs":-1,"data":-1,"payload":-1,"imports":-1,"exports":-1,"wildcards":true,"conn":-1,"leaf":-1,"mem_storage":-1,"disk_storage":-1,"streams":-1,"consumer":-1}"#;
    let nobody = r#""limits":{"subs":-1,"data":-1,"payload":-1,"imports":-1,"exports":-1,"wildcards":true,"conn":-1,"leaf":-1}"#;
    let config = format!(
        "operator: {}\nsystem_account: {system}\nresolver: MEMORY\nresolver_preload: {{ {system}: {}, {shop}: {} }}",
        operator.vouches_for(&operator, r#""type":"operator","version":2"#),
        operator.vouches_for(&system, &format!(r#"{nobody},"type":"account","version":2"#)),
        operator.vouches_for(&shop, &format!(r#"{limits},"type":"account","version":2"#)),
        system = system.public,
        shop = shop.public,
    );
    let server = Nats::own(Release::Newest, &config).await;
    let with = |issuer: &Key| {
        let jwt = issuer.vouches_for(
            &user,
            r#""pub":{},"sub":{},"subs":-1,"data":-1,"payload":-1,"type":"user","version":2"#,
        );
        let file = there.join(format!("{}.creds", issuer.public));
        std::fs::write(&file, credentials(&jwt, &user.seed)).unwrap();
        NatsConfig { credentials: Some(file), ..settings(server.url()) }
    };
    works(&*broker(with(&shop)).await).await;
    for refused in [with(&stranger), settings(server.url())] {
        let refused = broker(refused).await.ping().await.unwrap_err();
        assert!(matches!(refused, BrokerError::Refused(_)), "{refused}");
    }
}

/// A credentials file as NATS's own tools write it.
fn credentials(jwt: &str, seed: &str) -> String {
    format!(
        "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    )
}

/// Whose key it is; the number stands before the bytes.
#[derive(Clone, Copy)]
enum Role {
    Operator = 14 << 3,
    Account = 0,
    User = 20 << 3,
}

/// A pair of keys as NATS writes them, with the file that openssl signs by.
struct Key {
    public: String,
    seed: String,
    file: PathBuf,
}

impl Key {
    fn new(directory: &Path, role: Role) -> Self {
        const SEED: u8 = 18 << 3;
        let private = openssl(directory, "genpkey -algorithm ed25519 -outform DER");
        let file = directory.join(format!("{}.der", fresh_name()));
        std::fs::write(&file, &private).unwrap();
        let public =
            openssl(directory, &format!("pkey -inform DER -in {} -pubout -outform DER", file.display()));
        let role = role as u8;
        let with = |prefix: &[u8], der: &[u8]| encoded([prefix, &der[der.len() - 32..]].concat());
        Self {
            public: with(&[role], &public),
            seed: with(&[SEED | (role >> 5), (role & 31) << 3], &private),
            file,
        }
    }

    /// A token that says who somebody is, signed by this key.
    fn vouches_for(&self, whom: &Self, what: &str) -> String {
        let part = |json: &str| BASE64_URL_SAFE_NO_PAD.encode(json);
        let claims = format!(
            r#"{{"jti":"{}","iat":1,"iss":"{}","sub":"{}","name":"test","nats":{{{what}}}}}"#,
            fresh_name(),
            self.public,
            whom.public
        );
        let token = format!("{}.{}", part(r#"{"typ":"JWT","alg":"ed25519-nkey"}"#), part(&claims));
        let directory = self.file.parent().unwrap();
        std::fs::write(directory.join("token"), &token).unwrap();
        let sign = format!("pkeyutl -sign -rawin -keyform DER -inkey {} -in token", self.file.display());
        format!("{token}.{}", BASE64_URL_SAFE_NO_PAD.encode(openssl(directory, &sign)))
    }
}

/// Bytes with their checksum behind them, in base 32.
fn encoded(mut bytes: Vec<u8>) -> String {
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
        .collect()
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
