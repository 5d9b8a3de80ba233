//! What `[brokers.<name>]` in `dlo.toml` may say: one variant per broker, chosen by `kind`.
//!
//! Unknown keys are refused by the parser. The numbers have defaults that are safe; what they mean stands at the
//! broker's own module.

use serde::Deserialize;

/// How one broker is reached.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum BrokerConfig {
    #[cfg(feature = "amqp1")]
    Amqp1(crate::amqp1::Amqp1Config),
    #[cfg(feature = "kafka")]
    Kafka(Box<crate::kafka::KafkaConfig>),
    Memory(crate::memory::MemoryConfig),
    #[cfg(feature = "nats")]
    Nats(Box<crate::nats::NatsConfig>),
    #[cfg(feature = "pubsub")]
    Pubsub(crate::pubsub::PubsubConfig),
    #[cfg(feature = "rabbitmq")]
    Rabbitmq(crate::rabbitmq::RabbitmqConfig),
    #[cfg(feature = "redis")]
    Redis(crate::redis::RedisConfig),
    #[cfg(feature = "sql")]
    Sql(crate::sql::SqlConfig),
    #[cfg(feature = "sqs")]
    Sqs(Box<crate::sqs::SqsConfig>),
    #[cfg(feature = "stomp")]
    Stomp(crate::stomp::StompConfig),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryConfig;

    fn read(text: &str) -> Result<BrokerConfig, String> {
        toml::from_str(text).map_err(|refusal| refusal.message().to_owned())
    }

    #[test]
    fn the_kind_alone_is_a_whole_memory_broker() {
        assert_eq!(read("kind = \"memory\""), Ok(BrokerConfig::Memory(MemoryConfig::default())));
    }

    #[test]
    fn an_unknown_key_is_refused_by_name() {
        let refusal = read("kind = \"memory\"\npartitons = 3").unwrap_err();
        assert!(refusal.contains("partitons") && refusal.contains("partitions"), "{refusal}");
    }

    #[test]
    fn an_unknown_kind_is_refused_with_the_known_ones() {
        let refusal = read("kind = \"carrier-pigeon\"").unwrap_err();
        assert!(refusal.contains("carrier-pigeon") && refusal.contains("memory"), "{refusal}");
    }
}
