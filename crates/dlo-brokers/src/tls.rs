//! TLS for the adapters whose clients leave it to us, or take a ready configuration: one reading of the settings.
//!
//! The provider is ring. Roots are those of the system, and the configured authority beside them. A client
//! certificate makes it mutual.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dlo_core::broker::BrokerError;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde::Deserialize;

/// `tls = { ca = "ca.pem", cert = "client.pem", key = "client.key" }`, each of them optional.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TlsConfig {
    /// Authorities to trust beside the system's, PEM.
    pub ca: Option<PathBuf>,
    /// The client's certificate chain and key, PEM, for brokers that ask who is there.
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

impl TlsConfig {
    /// What rustls needs. Files that cannot be read are refused by name.
    pub(crate) fn client(&self) -> Result<Arc<ClientConfig>, BrokerError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|cause| BrokerError::Refused(format!("TLS cannot be set up: {cause}")))?
            .with_root_certificates(self.roots()?);
        let config = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => builder
                .with_client_auth_cert(certificates(cert)?, private_key(key)?)
                .map_err(|cause| refused("tls.cert", cert, &cause))?,
            (None, None) => builder.with_no_client_auth(),
            (Some(_), None) => {
                return Err(BrokerError::Refused("`tls.cert` needs its `tls.key`".to_owned()));
            }
            (None, Some(_)) => {
                return Err(BrokerError::Refused("`tls.key` needs its `tls.cert`".to_owned()));
            }
        };
        Ok(Arc::new(config))
    }

    fn roots(&self) -> Result<RootCertStore, BrokerError> {
        let mut roots = RootCertStore::empty();
        // A certificate of the system that is not understood is left out, as browsers do.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if let Some(ca) = &self.ca {
            for authority in certificates(ca)? {
                roots.add(authority).map_err(|cause| refused("tls.ca", ca, &cause))?;
            }
        }
        Ok(roots)
    }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, BrokerError> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(certificates) if certificates.is_empty() => {
            Err(refused("tls", file, &"there is no certificate in it"))
        }
        Ok(certificates) => Ok(certificates),
        Err(cause) => Err(refused("tls", file, &cause)),
    }
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, BrokerError> {
    PrivateKeyDer::from_pem_file(file).map_err(|cause| refused("tls.key", file, &cause))
}

fn refused(setting: &str, file: &Path, cause: &dyn std::fmt::Display) -> BrokerError {
    BrokerError::Refused(format!("`{setting}`: {}: {cause}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let config = TlsConfig { ca: Some("no-such-ca.pem".into()), ..TlsConfig::default() };
        let refusal = config.client().unwrap_err().to_string();
        assert!(refusal.contains("no-such-ca.pem") && refusal.contains("tls"), "{refusal}");
    }

    #[test]
    fn a_certificate_without_its_key_is_refused() {
        let config = TlsConfig { cert: Some("client.pem".into()), ..TlsConfig::default() };
        assert!(config.client().unwrap_err().to_string().contains("tls.key"));
    }
}
