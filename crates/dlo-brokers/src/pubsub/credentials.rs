//! Who we are to the service: a token for each request, kept fresh by Google's own library.
//!
//! A file of credentials says by its `type` what it is. Without one the default chain is asked: the file that
//! `GOOGLE_APPLICATION_CREDENTIALS` names, what `gcloud auth application-default login` wrote, the machine's metadata
//! service. An emulator is asked without a token.

use std::path::Path;

use dlo_core::broker::BrokerError;
use google_cloud_auth::credentials::{
    AccessTokenCredentials, Builder, external_account, impersonated, service_account, user_account,
};
use serde_json::Value;
use tokio::sync::OnceCell;

use super::config::PubsubConfig;

const SCOPE: &str = "https://www.googleapis.com/auth/pubsub";

#[derive(Debug)]
pub(super) enum Identity {
    /// Nobody: an emulator.
    None,
    /// Made when it is first needed, since the chain may ask the machine where it is.
    Chain(OnceCell<AccessTokenCredentials>),
    File(AccessTokenCredentials),
}

impl Identity {
    pub(super) fn new(config: &PubsubConfig, emulator: bool) -> Result<Self, BrokerError> {
        // Google's library signs by the provider of the process; who has set another one keeps it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        match (&config.credentials, emulator) {
            (_, true) => Ok(Self::None),
            (Some(file), false) => from_file(file).map(Self::File),
            (None, false) => Ok(Self::Chain(OnceCell::new())),
        }
    }

    pub(super) async fn token(&self) -> Result<Option<String>, BrokerError> {
        let credentials = match self {
            Self::None => return Ok(None),
            Self::File(credentials) => credentials,
            Self::Chain(made) => made.get_or_try_init(async || chain()).await?,
        };
        match credentials.access_token().await {
            Ok(access) => Ok(Some(access.token)),
            Err(error) if error.is_transient() => {
                Err(BrokerError::Unavailable(format!("no token for Pub/Sub: {error}")))
            }
            Err(error) => Err(BrokerError::Refused(format!("no token for Pub/Sub: {error}"))),
        }
    }
}

fn chain() -> Result<AccessTokenCredentials, BrokerError> {
    Builder::default().with_scopes([SCOPE]).build_access_token_credentials().map_err(|cause| {
        BrokerError::Refused(format!(
            "no credentials for Pub/Sub: {cause}; set `credentials` to a file, or run `gcloud auth application-default \
             login`"
        ))
    })
}

fn from_file(file: &Path) -> Result<AccessTokenCredentials, BrokerError> {
    let refuse = |why: &dyn std::fmt::Display| {
        BrokerError::Refused(format!("`credentials`: {}: {why}", file.display()))
    };
    let text = std::fs::read_to_string(file).map_err(|cause| refuse(&cause))?;
    // What the parser says may quote the file, which is a secret.
    let json: Value = serde_json::from_str(&text).map_err(|_| refuse(&"it is not JSON"))?;
    let kind = json.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    let built = match kind.as_str() {
        "service_account" => service_account::Builder::new(json)
            .with_access_specifier(service_account::AccessSpecifier::from_scopes([SCOPE]))
            .build_access_token_credentials(),
        "authorized_user" => {
            user_account::Builder::new(json).with_scopes([SCOPE]).build_access_token_credentials()
        }
        "external_account" => {
            external_account::Builder::new(json).with_scopes([SCOPE]).build_access_token_credentials()
        }
        "impersonated_service_account" => {
            impersonated::Builder::new(json).with_scopes([SCOPE]).build_access_token_credentials()
        }
        other => {
            return Err(refuse(&format!(
                "expected `type` service_account, authorized_user, external_account or impersonated_service_account, \
                 found `{other}`"
            )));
        }
    };
    built.map_err(|cause| refuse(&cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_that_cannot_be_used_is_refused_by_name_and_not_quoted() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key.json");
        assert!(from_file(&file).unwrap_err().to_string().contains("key.json"));
        for (text, said) in [("s3cret", "not JSON"), (r#"{"type":"s3"}"#, "service_account")] {
            std::fs::write(&file, text).unwrap();
            let refusal = from_file(&file).unwrap_err().to_string();
            assert!(refusal.contains(said) && !refusal.contains("s3cret"), "{refusal}");
        }
    }
}
