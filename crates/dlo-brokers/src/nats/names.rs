//! Names: a queue is a subject, possibly with wildcards; streams and consumers want names without dots.
//!
//! A name that is made of another is the same every time, and two different ones never make the same: whatever had to
//! be replaced is told apart by a piece of a hash.

use dlo_core::broker::BrokerError;
use sha2::{Digest, Sha256};

/// The names that the server takes go a little further; ours stay readable in its tools.
const LONGEST: usize = 200;

/// Refuses a queue that is no subject.
pub(super) fn check_subject(queue: &str) -> Result<(), BrokerError> {
    let tokens: Vec<&str> = queue.split('.').collect();
    let last = tokens.len() - 1;
    let good = |(at, token): (usize, &&str)| {
        !token.is_empty()
            && !token.contains(|c: char| c.is_whitespace() || c.is_control())
            && (*token != ">" || at == last)
    };
    if queue.len() <= 1_024 && tokens.iter().enumerate().all(good) {
        return Ok(());
    }
    Err(BrokerError::Refused(format!(
        "`{queue}` is no NATS subject: expected words joined by dots, such as `orders.created`; \
         `*` stands for one word and `>` for all that follow"
    )))
}

/// Whether a queue stands for several subjects.
pub(super) fn has_wildcard(subject: &str) -> bool {
    subject.split('.').any(|token| token == "*" || token == ">")
}

/// Whether everything that `inner` stands for is also in `outer`.
pub(super) fn covers(outer: &str, inner: &str) -> bool {
    let (mut outer, mut inner) = (outer.split('.'), inner.split('.'));
    loop {
        match (outer.next(), inner.next()) {
            (Some(">"), Some(_)) | (None, None) => return true,
            (Some("*"), Some(token)) if token != ">" => {}
            (Some(one), Some(other)) if one == other => {}
            (_, _) => return false,
        }
    }
}

/// A name for a stream, made of its subject.
pub(super) fn stream_name(queue: &str) -> String {
    safe(queue)
}

/// The durable consumer of a group on a queue. Streams hold many subjects, so both are in it.
pub(super) fn consumer_name(group: &str, queue: &str) -> String {
    format!("{}--{}", safe(group), safe(queue))
}

/// The group as the name of a consumer that others made, where it can be one.
pub(super) fn foreign_name(group: &str) -> Option<&str> {
    (safe(group) == group).then_some(group)
}

fn safe(text: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !text.is_empty() && text.len() <= LONGEST / 2 && text.chars().all(fits) {
        return text.to_owned();
    }
    let mut name: String =
        text.chars().map(|c| if fits(c) { c } else { '_' }).take(LONGEST / 2 - 9).collect();
    name.push('-');
    for byte in &Sha256::digest(text.as_bytes())[..4] {
        name.push_str(&format!("{byte:02x}"));
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_that_differ_make_names_that_differ() {
        assert_eq!(stream_name("orders"), "orders");
        assert!(stream_name("orders.new").starts_with("orders_new-"));
        assert_ne!(stream_name("orders.new"), stream_name("orders new"));
        assert_ne!(consumer_name("a", "b.c"), consumer_name("a.b", "c"));
        assert!(consumer_name(&"g".repeat(500), &"q".repeat(500)).len() <= LONGEST + 2);
    }

    #[test]
    fn wildcards_cover_what_they_stand_for() {
        for (outer, inner, expected) in [
            ("orders.>", "orders.new", true),
            ("orders.>", "orders.new.eu", true),
            ("orders.>", "orders", false),
            ("orders.*", "orders.new", true),
            ("orders.*", "orders.>", false),
            ("*.new", "orders.new", true),
            ("orders.new", "orders.*", false),
            ("orders", "orders", true),
            (">", "$JS.EVENT.>", true),
        ] {
            assert_eq!(covers(outer, inner), expected, "{outer} {inner}");
        }
    }

    #[test]
    fn what_is_no_subject_is_refused() {
        for queue in ["", ".", "a..b", "a b", ">.a", "a.\n"] {
            assert!(check_subject(queue).is_err(), "{queue:?}");
        }
        for queue in ["a", "a.b", "a.*.c", "a.>", "$JS.EVENT.ADVISORY.CONSUMER.>"] {
            assert!(check_subject(queue).is_ok(), "{queue:?}");
        }
    }
}
