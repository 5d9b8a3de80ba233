//! The client, made when it is first needed, and the queues by whatever name they were given.
//!
//! A queue may be named by its name, its URL or its ARN; the service knows them by URL. What it answered is remembered
//! until it says that the queue is gone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_config::{BehaviorVersion, Region};
use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::retry::RetryConfig;
use aws_sdk_sqs::config::timeout::TimeoutConfig;
use aws_sdk_sqs::config::{Credentials, SharedHttpClient};
use aws_smithy_http_client::tls::{Provider, TlsContext, TrustStore, rustls_provider::CryptoMode};
use dlo_core::broker::BrokerError;
use tokio::sync::OnceCell;

use super::config::SqsConfig;
use super::errors::meaning;

/// Beyond the wait at the server: a request that takes longer has lost its connection.
const SLACK: Duration = Duration::from_secs(10);
const CONNECT: Duration = Duration::from_secs(3);
/// Tries of one call by the SDK, for throttling and for connections that the server closed while they were idle.
const TRIES: u32 = 3;
/// Queues whose URL is remembered; beyond that all are asked for again.
const REMEMBERED: usize = 10_000;

/// One queue, as the service knows it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Queue {
    /// As it was given.
    pub(super) name: String,
    pub(super) url: String,
    pub(super) fifo: bool,
}

/// Whether a name, a URL or an ARN is that of a FIFO queue: the service demands the suffix.
pub(super) fn is_fifo(queue: &str) -> bool {
    queue.ends_with(".fifo")
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) config: SqsConfig,
    http: SharedHttpClient,
    client: OnceCell<Client>,
    queues: Mutex<HashMap<String, Arc<Queue>>>,
}

impl Connection {
    pub(super) fn new(config: &SqsConfig) -> Result<Self, BrokerError> {
        config.check()?;
        Ok(Self {
            config: config.clone(),
            http: http(config)?,
            client: OnceCell::new(),
            queues: Mutex::default(),
        })
    }

    /// The client. The default chain may ask the machine where it is, so it is made outside of `connect`.
    pub(super) async fn client(&self) -> Result<&Client, BrokerError> {
        self.client.get_or_try_init(|| self.make()).await
    }

    async fn make(&self) -> Result<Client, BrokerError> {
        let config = &self.config;
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(CONNECT)
            .operation_attempt_timeout(config.wait.0 + SLACK)
            .build();
        let retries = RetryConfig::standard()
            .with_max_attempts(TRIES)
            .with_initial_backoff(Duration::from_millis(100))
            .with_max_backoff(Duration::from_secs(1));
        let mut loader = aws_config::defaults(BehaviorVersion::v2026_01_12())
            .http_client(self.http.clone())
            .timeout_config(timeouts)
            .retry_config(retries);
        if let Some(region) = &config.region {
            loader = loader.region(Region::new(region.clone()));
        }
        if let Some(endpoint) = &config.endpoint {
            loader = loader.endpoint_url(endpoint);
        }
        if let Some(profile) = &config.profile {
            loader = loader.profile_name(profile);
        }
        if let (Some(id), Some(secret)) = (&config.access_key_id, &config.secret_access_key) {
            let token = config.session_token.as_ref().map(|token| token.reveal().to_owned());
            loader =
                loader.credentials_provider(Credentials::new(id, secret.reveal(), token, None, "dlo.toml"));
        }
        let loaded = loader.load().await;
        if loaded.region().is_none() {
            return Err(BrokerError::Refused(
                "no region: set `region`, or AWS_REGION, or a profile that has one".to_owned(),
            ));
        }
        Ok(Client::new(&loaded))
    }

    /// The queue of that name, URL or ARN.
    pub(super) async fn queue(&self, given: &str) -> Result<Arc<Queue>, BrokerError> {
        if let Some(known) = self.known().get(given) {
            return Ok(Arc::clone(known));
        }
        let url = match given.contains("://") {
            true => given.to_owned(),
            false => self.ask(given).await?,
        };
        let queue = Arc::new(Queue { name: given.to_owned(), fifo: is_fifo(&url), url });
        let mut known = self.known();
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(given.to_owned(), Arc::clone(&queue));
        Ok(queue)
    }

    async fn ask(&self, given: &str) -> Result<String, BrokerError> {
        let (name, owner) = match parse_arn(given) {
            Some(arn) => (arn.name, Some(arn.account.to_owned())),
            None => (given, None),
        };
        let call = self.client().await?.get_queue_url().queue_name(name);
        let answer = call.set_queue_owner_aws_account_id(owner).send().await;
        let answer = answer.map_err(|error| meaning(&error, given))?;
        answer.queue_url.ok_or_else(|| BrokerError::Missing(given.to_owned()))
    }

    /// The queue was said to be gone: ask again next time.
    pub(super) fn forget(&self, queue: &Queue) {
        self.known().remove(&queue.name);
    }

    /// What a failed call means, with what it says of the queue taken to heart.
    pub(super) fn failed<E>(&self, error: &aws_sdk_sqs::error::SdkError<E>, queue: &Queue) -> BrokerError
    where
        E: aws_sdk_sqs::error::ProvideErrorMetadata + std::error::Error + 'static,
    {
        let meaning = meaning(error, &queue.name);
        if matches!(meaning, BrokerError::Missing(_)) {
            self.forget(queue);
        }
        meaning
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Arc<Queue>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The parts of a queue's ARN that say where it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct QueueArn<'a> {
    pub(super) account: &'a str,
    pub(super) name: &'a str,
}

/// `arn:<partition>:sqs:<region>:<account>:<name>`
pub(super) fn parse_arn(text: &str) -> Option<QueueArn<'_>> {
    let parts: Vec<&str> = text.splitn(6, ':').collect();
    match parts[..] {
        ["arn", _, "sqs", _, account, name] if !name.is_empty() => Some(QueueArn { account, name }),
        _ => None,
    }
}

fn http(config: &SqsConfig) -> Result<SharedHttpClient, BrokerError> {
    let builder = aws_smithy_http_client::Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring));
    let Some(ca) = &config.tls.ca else { return Ok(builder.build_https()) };
    // Read and checked by the same eyes as everybody's; then handed over as the SDK wants it.
    config.tls.client()?;
    let refused =
        |cause: &dyn std::fmt::Display| BrokerError::Refused(format!("`tls.ca`: {}: {cause}", ca.display()));
    let pem = std::fs::read(ca).map_err(|cause| refused(&cause))?;
    let trusted = TrustStore::default().with_pem_certificate(pem);
    let context = TlsContext::builder().with_trust_store(trusted).build();
    Ok(builder.tls_context(context.map_err(|cause| refused(&cause))?).build_https())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arn_names_its_queue_and_account() {
        let arn = parse_arn("arn:aws:sqs:eu-central-1:123456789012:orders-dlq.fifo");
        assert_eq!(arn, Some(QueueArn { account: "123456789012", name: "orders-dlq.fifo" }));
        for other in ["orders", "arn:aws:sns:eu-central-1:1:orders", "arn:aws:sqs:x:1:", ""] {
            assert_eq!(parse_arn(other), None, "{other}");
        }
    }

    #[tokio::test]
    async fn a_url_needs_no_asking() {
        let connection = Connection::new(&SqsConfig::default()).unwrap();
        let url = "https://sqs.eu-central-1.amazonaws.com/123456789012/orders.fifo";
        let queue = connection.queue(url).await.unwrap();
        assert_eq!((queue.url.as_str(), queue.fifo), (url, true));
    }
}
