//! The cargo features of this binary: what is in, what is left out, and what to say when a config needs more.
//!
//! This is the only file of the crate with `cfg(feature)`. A new feature is one line in [`ALL`] and one in `Cargo.toml`.

use std::sync::LazyLock;

/// Every feature that a build may have, and whether this one has it.
const ALL: [(&str, bool); 11] = [
    ("kafka", cfg!(feature = "kafka")),
    ("rabbitmq", cfg!(feature = "rabbitmq")),
    ("sqs", cfg!(feature = "sqs")),
    ("nats", cfg!(feature = "nats")),
    ("redis", cfg!(feature = "redis")),
    ("amqp1", cfg!(feature = "amqp1")),
    ("stomp", cfg!(feature = "stomp")),
    ("pubsub", cfg!(feature = "pubsub")),
    ("sql", cfg!(feature = "sql")),
    (POSTGRES, cfg!(feature = "postgres")),
    ("jemalloc", cfg!(feature = "jemalloc")),
];

/// Letters in PostgreSQL.
pub(crate) const POSTGRES: &str = "postgres";

/// Letters are many small texts that one thread makes and another frees, which glibc's allocator is slow at.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// What to say when something needs the feature `name` and this binary lacks it. `None`: the binary has it, or no
/// feature is needed.
pub(crate) fn lacking(name: &str) -> Option<String> {
    ALL.contains(&(name, false)).then(|| refusal(name))
}

fn refusal(name: &str) -> String {
    format!("this dlo was built without `{name}`; build it with --features {name}")
}

/// The text of `dlo --version`: the version, and which features are in.
pub(crate) fn long_version() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| version_of(&ALL));
    &TEXT
}

fn version_of(features: &[(&str, bool)]) -> String {
    let names = |built: bool| {
        let names: Vec<&str> =
            features.iter().filter(|(_, has)| *has == built).map(|(name, _)| *name).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(" ") }
    };
    format!("{}\nfeatures: {}\nleft out: {}", env!("CARGO_PKG_VERSION"), names(true), names(false))
}

#[cfg(test)]
mod tests {
    use dlo_core::origin::BrokerKind;

    use super::*;

    #[test]
    fn every_feature_of_the_manifest_is_listed_and_on_by_default() {
        let manifest: toml::Table = include_str!("../Cargo.toml").parse().unwrap();
        let features = manifest["features"].as_table().unwrap();
        let mut listed: Vec<&str> = ALL.iter().map(|(name, _)| *name).collect();
        let default: Vec<&str> =
            features["default"].as_array().unwrap().iter().filter_map(toml::Value::as_str).collect();
        assert_eq!(listed, default);
        listed.sort_unstable();
        let mut known: Vec<&str> =
            features.keys().map(String::as_str).filter(|name| *name != "default").collect();
        known.sort_unstable();
        assert_eq!(listed, known);
    }

    #[test]
    fn every_broker_with_a_server_is_a_feature() {
        let kinds =
            BrokerKind::ALL.iter().filter(|kind| !matches!(kind, BrokerKind::Memory | BrokerKind::Http));
        for kind in kinds {
            assert!(ALL.iter().any(|(name, _)| *name == kind.as_str()), "{kind}");
        }
    }

    #[test]
    fn a_version_says_what_is_in_and_what_is_left_out() {
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(
            version_of(&[("kafka", true), ("sqs", false), ("postgres", true)]),
            format!("{version}\nfeatures: kafka postgres\nleft out: sqs")
        );
        assert_eq!(version_of(&[("kafka", true)]), format!("{version}\nfeatures: kafka\nleft out: none"));
    }

    #[test]
    fn what_is_lacking_names_the_feature_to_build() {
        assert_eq!(refusal("kafka"), "this dlo was built without `kafka`; build it with --features kafka");
        assert_eq!(lacking("memory"), None);
        for (name, has) in ALL {
            assert_eq!(lacking(name).is_none(), has, "{name}");
        }
    }
}
