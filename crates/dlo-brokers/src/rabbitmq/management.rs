//! The management plugin, where it is configured: what AMQP cannot say of a queue.
//!
//! Read-only. Its numbers are as old as the server's statistics (5 s by default).

use std::time::Duration;

use dlo_core::broker::BrokerError;
use dlo_core::time::Timestamp;
use reqwest::StatusCode;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};
use url::Url;

use super::config::Address;
use crate::secret::Secret;
use crate::tls::TlsConfig;

const ANSWER: Duration = Duration::from_secs(10);

/// The HTTP API of one server, for one virtual host.
#[derive(Debug)]
pub(super) struct Management {
    client: reqwest::Client,
    base: Url,
    username: String,
    password: Secret,
    vhost: String,
}

/// A queue as the plugin sees it, as far as we ask.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Seen {
    pub(super) messages_unacknowledged: Option<u64>,
    /// The producer's clock, in seconds; of classic queues only.
    head_message_timestamp: Option<i64>,
    pub(super) arguments: Map<String, Json>,
    /// What policies add to the arguments, under the same names without `x-`.
    effective_policy_definition: Option<Json>,
    pub(super) durable: Option<bool>,
    #[serde(rename = "type")]
    kind: Option<String>,
}

impl Seen {
    pub(super) fn oldest(&self) -> Option<Timestamp> {
        let millis = self.head_message_timestamp?.checked_mul(1_000)?;
        Some(Timestamp::from_millis(millis))
    }

    /// The settings that policies make, by their names without `x-`.
    pub(super) fn policies(&self) -> impl Iterator<Item = (&String, &Json)> {
        self.effective_policy_definition.iter().filter_map(Json::as_object).flatten()
    }

    /// `classic`, `quorum` or `stream`.
    pub(super) fn kind(&self) -> &str {
        self.kind.as_deref().unwrap_or("classic")
    }
}

#[derive(Debug, Deserialize)]
struct Overview {
    product_name: Option<String>,
    rabbitmq_version: Option<String>,
}

impl Management {
    pub(super) fn new(url: &Secret, address: &Address) -> Result<Self, BrokerError> {
        let directions = || {
            BrokerError::Refused(
                "`management`: expected http://user:password@host:15672 (or https://)".to_owned(),
            )
        };
        let mut base = Url::parse(url.reveal()).map_err(|_| directions())?;
        if !matches!(base.scheme(), "http" | "https") {
            return Err(directions());
        }
        let user = &address.uri.authority.userinfo;
        let decoded = |text: &str| percent_decoded(text).ok_or_else(directions);
        let (username, password) = match base.username() {
            "" => (user.username.clone(), user.password.clone()),
            name => (decoded(name)?, decoded(base.password().unwrap_or_default())?),
        };
        // The base stands in errors; its secrets do not.
        base.set_username("").and_then(|()| base.set_password(None)).map_err(|()| directions())?;
        let tls = match &address.tls {
            Some(tls) => tls.as_ref().clone(),
            None => TlsConfig::default().client()?.as_ref().clone(),
        };
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .timeout(ANSWER)
            .build()
            .map_err(|cause| BrokerError::Refused(format!("`management`: {cause}")))?;
        Ok(Self { client, base, username, password: Secret::new(password), vhost: address.uri.vhost.clone() })
    }

    pub(super) async fn version(&self) -> Result<String, BrokerError> {
        let overview: Overview = self.get(&["overview"]).await?.ok_or_else(|| self.strange("no overview"))?;
        let product = overview.product_name.unwrap_or_else(|| "RabbitMQ".to_owned());
        Ok(format!("{product} {}", overview.rabbitmq_version.unwrap_or_default()).trim_end().to_owned())
    }

    pub(super) async fn queue(&self, queue: &str) -> Result<Seen, BrokerError> {
        self.get(&["queues", &self.vhost, queue]).await?.ok_or_else(|| BrokerError::Missing(queue.to_owned()))
    }

    /// Whether messages that enter `exchange` can reach `queue` by one binding.
    pub(super) async fn is_bound(&self, exchange: &str, queue: &str) -> Result<bool, BrokerError> {
        let bindings: Vec<Json> =
            self.get(&["bindings", &self.vhost, "e", exchange, "q", queue]).await?.unwrap_or_default();
        Ok(!bindings.is_empty())
    }

    /// `None`: there is no such thing.
    async fn get<T: DeserializeOwned>(&self, path: &[&str]) -> Result<Option<T>, BrokerError> {
        let mut url = self.base.clone();
        url.path_segments_mut()
            .map_err(|()| self.strange("not a base"))?
            .pop_if_empty()
            .push("api")
            .extend(path);
        let request = self.client.get(url).basic_auth(&self.username, Some(self.password.reveal()));
        let response = request.send().await.map_err(|cause| {
            BrokerError::Unavailable(format!("management at {}: {}", self.base, cause.without_url()))
        })?;
        match response.status() {
            StatusCode::NOT_FOUND => Ok(None),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(BrokerError::Refused(format!(
                "management at {}: the user `{}` may not look; give it the tag `monitoring`",
                self.base, self.username
            ))),
            status if status.is_success() => {
                let body =
                    response.json().await.map_err(|cause| self.strange(&cause.without_url().to_string()))?;
                Ok(Some(body))
            }
            status => Err(self.strange(status.as_str())),
        }
    }

    fn strange(&self, what: &str) -> BrokerError {
        BrokerError::Unavailable(format!("management at {} answered strangely: {what}", self.base))
    }
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        bytes.push(match byte {
            b'%' => u8::try_from(digit(rest.next())? * 16 + digit(rest.next())?).ok()?,
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rabbitmq::RabbitmqConfig;

    #[test]
    fn its_user_is_its_own_or_that_of_the_connection_and_nothing_is_shown() {
        let config: RabbitmqConfig = toml::from_str("url = \"amqp://me:hunter2@mq/%2f\"").unwrap();
        let address = config.address().unwrap();
        let own = Management::new(&Secret::new("http://ops:p%40ss@mq:15672"), &address).unwrap();
        assert_eq!((own.username.as_str(), own.password.reveal()), ("ops", "p@ss"));
        let same = Management::new(&Secret::new("http://mq:15672/"), &address).unwrap();
        assert_eq!((same.username.as_str(), same.password.reveal()), ("me", "hunter2"));
        let shown = format!("{own:?}{same:?}");
        assert!(
            !shown.contains("p@ss") && !shown.contains("p%40ss") && !shown.contains("hunter2"),
            "{shown}"
        );
        assert!(Management::new(&Secret::new("mq:15672"), &address).is_err());
    }
}
