//! What a queue may be called, and the resource that is meant.
//!
//! A queue is a topic of the configured project, or one of another project by its path `projects/<p>/topics/<t>`. A group
//! reads it through the subscription `<topic>.<group>` of the configured project. A subscription that others made is
//! named by its path, `projects/<p>/subscriptions/<s>`: it can be read, and not published to.

use dlo_core::broker::BrokerError;

const LONGEST: usize = 255;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Queue {
    Topic(String),
    Subscription(String),
}

impl Queue {
    /// Names that the service cannot have are refused here: nothing else may become a part of an address.
    pub(super) fn read(project: &str, name: &str) -> Result<Self, BrokerError> {
        let parts: Vec<&str> = name.split('/').collect();
        match *parts.as_slice() {
            [topic] if is_name(topic) => Ok(Self::Topic(format!("projects/{project}/topics/{topic}"))),
            ["projects", other, kind, last] if is_project(other) && is_name(last) => match kind {
                "topics" => Ok(Self::Topic(name.to_owned())),
                "subscriptions" => Ok(Self::Subscription(name.to_owned())),
                _ => Err(unnameable(name)),
            },
            _ => Err(unnameable(name)),
        }
    }

    /// The topic's path, for who wants to publish or to plan.
    pub(super) fn topic(project: &str, name: &str) -> Result<String, BrokerError> {
        match Self::read(project, name)? {
            Self::Topic(path) => Ok(path),
            Self::Subscription(path) => Err(BrokerError::Refused(format!(
                "`{path}` is a subscription; messages are published to topics: name the topic"
            ))),
        }
    }
}

/// The path of the subscription through which a group reads a topic.
pub(super) fn subscription(project: &str, topic: &str, group: &str) -> Result<String, BrokerError> {
    let name = format!("{}.{group}", short(topic));
    match is_name(&name) {
        true => Ok(format!("projects/{project}/subscriptions/{name}")),
        false => Err(unnameable(&name)),
    }
}

/// The name without its path.
pub(super) fn short(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn is_name(name: &str) -> bool {
    (3..=LONGEST).contains(&name.len())
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.~+".contains(&byte))
}

fn is_project(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.:".contains(&byte))
}

fn unnameable(name: &str) -> BrokerError {
    BrokerError::Refused(format!(
        "`{name}` cannot be the name of a topic or subscription: expected 3 to {LONGEST} letters, digits and `-_.~+`, a \
         letter first, or a path `projects/<project>/topics/<name>` or `projects/<project>/subscriptions/<name>`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_a_topic_or_a_subscription_by_its_path() {
        let read = |name| Queue::read("acme", name).ok();
        assert_eq!(read("orders"), Some(Queue::Topic("projects/acme/topics/orders".to_owned())));
        for path in ["projects/other/topics/orders", "projects/other/subscriptions/billing"] {
            assert!(
                matches!(read(path), Some(Queue::Topic(found) | Queue::Subscription(found)) if found == path)
            );
        }
        assert_eq!(
            subscription("acme", "projects/other/topics/orders", "billing").ok().as_deref(),
            Some("projects/acme/subscriptions/orders.billing")
        );
    }

    #[test]
    fn nothing_but_a_name_becomes_part_of_an_address() {
        for bad in [
            "",
            "ab",
            "9ab",
            "a b c",
            "abc?x=1",
            "../abc",
            "projects/p/snapshots/abc",
            "projects/p/topics/a%2f",
        ] {
            assert!(Queue::read("acme", bad).is_err(), "{bad}");
        }
        assert!(subscription("acme", "projects/acme/topics/orders", "a/b").is_err());
    }
}
