//! Every bound of a letter, on one page. What is longer is cut where that keeps the story readable
//! (error text, stack, history), and refused with directions where cutting would change meaning (names, ids).

/// Characters of a source, queue, consumer, owner, event type or error class name.
pub const NAME: usize = 256;
/// Bytes of a message id, correlation id, trace id, replay id or consumer id.
pub const ID: usize = 512;
/// Bytes of a message key.
pub const KEY: usize = 4 * 1024;
/// Bytes of an error message; the rest is cut.
pub const ERROR_MESSAGE: usize = 4 * 1024;
/// Bytes of a stack trace; the rest is cut.
pub const ERROR_STACK: usize = 32 * 1024;
/// Attempts remembered: the first and the latest are kept, the middle is left out and counted.
pub const HISTORY: usize = 20;
/// Bytes of one attempt's error message in the history.
pub const HISTORY_MESSAGE: usize = 256;
/// Headers of one message.
pub const HEADERS: usize = 256;
/// Bytes of all header names and values of one message.
pub const HEADERS_SIZE: usize = 256 * 1024;
/// Bytes of one payload.
pub const PAYLOAD: usize = 16 * 1024 * 1024;
/// Bytes of a message template.
pub const TEMPLATE: usize = 512;
/// Characters of a reason, a reference or a note that a person writes.
pub const NOTE: usize = 2_000;
/// Notes of one group, and links of one group; what is more is refused.
pub const NOTES: usize = 1_000;
pub const LINKS: usize = 50;
/// Bytes of a link's address.
pub const URL: usize = 2_048;
/// Bytes of a group's runbook.
pub const RUNBOOK: usize = 64 * 1024;
/// Groups merged into one.
pub const MEMBERS: usize = 500;
/// Conditions that split letters off one group, and characters of one of them: each letter of the group is held against all
/// of them when it is stored.
pub const SPLITS: usize = 16;
pub const SPLIT_CONDITION: usize = 512;
/// Marks of deployments that are kept: the newest.
pub const DEPLOYS: usize = 10_000;
/// Saved views of one person, and shared ones.
pub const VIEWS: usize = 200;
/// Letters of a sample.
pub const SAMPLE: usize = 200;
/// Characters of a query.
pub const QUERY: usize = 4_096;
/// Terms of a query.
pub const QUERY_TERMS: usize = 64;
/// How far ahead of the office's clock a reported time may lie.
pub const FUTURE_SECONDS: u64 = 24 * 60 * 60;

/// Cuts text to at most `max` bytes on a character boundary; says whether anything was cut.
pub fn cut(text: &mut String, max: usize) -> bool {
    if text.len() <= max {
        return false;
    }
    let end = (0..=max).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    text.truncate(end);
    true
}

#[cfg(test)]
mod tests {
    #[test]
    fn cutting_never_splits_a_character() {
        let mut text = "aé😀".to_string();
        assert!(super::cut(&mut text, 4));
        assert_eq!(text, "aé");
        assert!(!super::cut(&mut text, 4));
    }
}
