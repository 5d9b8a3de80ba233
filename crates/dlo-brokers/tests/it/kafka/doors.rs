//! Who may enter, and what is said to whoever may not.

use std::time::Duration;

use dlo_brokers::kafka::{KafkaConfig, SaslConfig, SaslMechanism};
use dlo_brokers::secret::Secret;
use dlo_brokers::tls::TlsConfig;
use dlo_core::broker::{BrokerError, TopologySpec};
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

#[tokio::test(flavor = "multi_thread")]
async fn tls_is_mutual_and_whoever_is_unknown_on_either_side_is_refused() {
    let kafka = Kafka::with_tls().await;
    let door = kafka.tls();
    let known = TlsConfig {
        ca: Some(door.authority.clone()),
        cert: Some(door.certificate.clone()),
        key: Some(door.key.clone()),
    };
    let with = |tls: TlsConfig| KafkaConfig { tls: Some(tls), ..KafkaConfig::at(&door.address) };

    let broker = broker_of(with(known.clone())).await;
    assert!(broker.ping().await.unwrap().unwrap().contains("Kafka cluster"));
    let spec = TopologySpec::new("orders", "orders.dlq", 1);
    broker.topology().apply(&spec).await.unwrap();
    publish(&broker, vec![to("orders", Some(0), message("k", "under seal"))]).await;
    let mut reader = broker.reader("orders", 0, None).await.unwrap();
    let look = reader.read(1, Duration::from_secs(20)).await.unwrap();
    assert_eq!(&look.seen[0].message.payload.0[..], b"under seal");

    let without_authority = with(TlsConfig { ca: None, ..known.clone() });
    let refusal = broker_of(without_authority).await.ping().await.unwrap_err();
    assert!(matches!(&refusal, BrokerError::Refused(why) if why.contains("`tls.ca`")), "{refusal:?}");

    let without_certificate = with(TlsConfig { cert: None, key: None, ..known });
    let refusal = broker_of(without_certificate).await.ping().await.unwrap_err();
    assert!(matches!(&refusal, BrokerError::Refused(why) if why.contains("`tls.cert`")), "{refusal:?}");
}
