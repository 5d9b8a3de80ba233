//! What `[brokers.<name>]` in `dlo.toml` may say: one variant per broker, chosen by `kind`.
//!
//! Unknown keys are refused by the parser. The numbers have defaults that are safe; what they mean stands at the
//! broker's own module.

use serde::Deserialize;

use crate::memory::MemoryConfig;

/// How one broker is reached.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum BrokerConfig {
    Memory(MemoryConfig),
}

#[cfg(test)]
mod tests {
    use super::*;

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
