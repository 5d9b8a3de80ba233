//! The door that speaks TLS, and the certificates of both sides: made for one server, in its directory, by openssl.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A door that asks everybody for a certificate.
#[derive(Debug, Clone)]
pub struct Tls {
    pub address: String,
    /// The authority of both sides, PEM; no system knows it.
    pub authority: PathBuf,
    /// A certificate that it signed for a client, and its key.
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// Makes the certificates and adds the door to the server's settings.
pub(super) fn open(settings: &mut String, directory: &Path, port: u16) -> Tls {
    certificates(directory);
    let address = format!("127.0.0.1:{port}");
    *settings = settings.replace("listeners=CLIENT://", &format!("listeners=TLS://{address},CLIENT://"));
    let path = |file: &str| directory.join(file);
    let _ = write!(
        settings,
        "listener.name.tls.ssl.keystore.type=PEM\n\
         listener.name.tls.ssl.keystore.location={}\n\
         listener.name.tls.ssl.truststore.type=PEM\n\
         listener.name.tls.ssl.truststore.location={}\n\
         listener.name.tls.ssl.client.auth=required\n",
        path("server.both").display(),
        path("ca.pem").display()
    );
    Tls { address, authority: path("ca.pem"), certificate: path("client.pem"), key: path("client.key") }
}

/// An authority, and what it signed for the server and for a client.
fn certificates(directory: &Path) {
    let path = |file: &str| directory.join(file);
    let openssl = |arguments: &str| {
        let output = Command::new("openssl").args(arguments.split(' ')).current_dir(directory).output();
        let output = output.expect("running openssl (Debian: apt-get install openssl)");
        assert!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    };
    std::fs::write(path("names"), "subjectAltName=DNS:localhost,IP:127.0.0.1\n").expect("a file of names");
    openssl(
        "req -x509 -newkey rsa:2048 -nodes -days 2 -keyout ca.key -out ca.pem -subj /CN=dlo-test-authority",
    );
    for (who, name) in [("server", "localhost"), ("client", "dlo-test")] {
        openssl(&format!("req -newkey rsa:2048 -nodes -keyout {who}.key -out {who}.csr -subj /CN={name}"));
        openssl(&format!(
            "x509 -req -in {who}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out {who}.pem"
        ));
    }
    // Kafka takes key and certificate from one file.
    let both =
        ["server.key", "server.pem"].map(|file| std::fs::read(path(file)).expect("what openssl wrote"));
    std::fs::write(path("server.both"), both.concat()).expect("a file with key and certificate");
}
