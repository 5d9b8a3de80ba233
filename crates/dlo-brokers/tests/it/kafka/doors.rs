//! Who may enter, and what is said to whoever may not.

use dlo_brokers::kafka::{KafkaConfig, SaslConfig, SaslMechanism};
use dlo_brokers::secret::Secret;
use dlo_core::broker::BrokerError;
use dlo_testkit::conformance::Lab as _;
use dlo_testkit::harness::kafka::{Kafka, PASSWORD, USER};

use super::{broker_of, lab, message, publish, to};

fn sasl(mechanism: SaslMechanism, password: &str) -> Option<SaslConfig> {
    Some(SaslConfig { mechanism, username: USER.to_owned(), password: Secret::new(password) })
}

#[tokio::test(flavor = "multi_thread")]
async fn users_enter_by_plain_and_by_scram() {
    let lab = lab().await;
    let queue = lab.fresh_queue().await;
    for mechanism in [SaslMechanism::Plain, SaslMechanism::ScramSha256, SaslMechanism::ScramSha512] {
        let kafka = Kafka::shared().await;
        let config = KafkaConfig { sasl: sasl(mechanism, PASSWORD), ..KafkaConfig::at(&kafka.sasl) };
        let broker = broker_of(config).await;
        let name = broker.ping().await.unwrap().unwrap();
        assert!(name.contains("Kafka cluster"), "{name}");
        publish(&broker, vec![to(&queue, None, message("k", "through the door"))]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_is_refused_as_such() {
    let kafka = Kafka::shared().await;
    let config =
        KafkaConfig { sasl: sasl(SaslMechanism::ScramSha512, "wrong"), ..KafkaConfig::at(&kafka.sasl) };
    let refusal = broker_of(config).await.ping().await.unwrap_err();
    assert!(matches!(&refusal, BrokerError::Refused(why) if why.contains("credentials")), "{refusal}");
    assert!(!refusal.to_string().contains("wrong"), "{refusal}");
}
