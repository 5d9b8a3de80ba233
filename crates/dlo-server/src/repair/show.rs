//! A message before and after its repair, as people compare them: key and headers by line, JSON with one member a line,
//! other text as it is, bytes as hex. What was no JSON, such as a body that was cut off, is compared as it stands even if
//! it is JSON now: laid out, nothing of it would look the same.

use std::fmt::Write as _;

use dlo_core::message::{Headers, Message};

use super::{diff, json};

/// Bytes of a payload as it is laid out; a longer one is compared as it is, on its lines.
const LAID_OUT: usize = 4 * 1024 * 1024;
/// Bytes that are shown as hex.
const HEX: usize = 4 * 1024;

/// What differs, as a unified diff; empty where nothing does.
pub(crate) fn difference(before: &Message, after: &Message) -> String {
    let head = diff::unified(&envelope(before), &envelope(after));
    let (old, new) = (&before.payload.0, &after.payload.0);
    let body = match (json::pretty(old, LAID_OUT), json::pretty(new, LAID_OUT)) {
        (Some(old), Some(new)) => diff::unified(&old, &new),
        _ => diff::unified(&payload(old), &payload(new)),
    };
    match (head.is_empty(), body.is_empty()) {
        (true, _) => body,
        (false, true) => format!("key and headers\n{head}"),
        (false, false) => format!("key and headers\n{head}payload\n{body}"),
    }
}

fn envelope(message: &Message) -> String {
    let mut lines = String::new();
    if let Some(key) = &message.key {
        // Writing to memory does not fail.
        let _ = writeln!(lines, "key: {}", text(&key.0));
    }
    header_lines(&message.headers, &mut lines);
    lines
}

fn header_lines(headers: &Headers, lines: &mut String) {
    for header in headers.iter() {
        let value = header.value.as_ref().map_or_else(|| "(absent)".to_string(), |value| text(value));
        // Writing to memory does not fail.
        let _ = writeln!(lines, "{}: {value}", header.name);
    }
}

/// On one line.
fn text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.escape_debug().to_string(),
        Err(_) => format!("hex {}", hex(bytes)),
    }
}

fn payload(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_string(),
        Err(_) => bytes[..bytes.len().min(HEX)].chunks(32).map(|line| hex(line) + "\n").collect(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut shown, byte| {
        // Writing to memory does not fail.
        let _ = write!(shown, "{byte:02x}");
        shown
    })
}

#[cfg(test)]
mod tests {
    use dlo_core::message::Payload;

    use super::*;

    fn message(payload: &[u8]) -> Message {
        Message { payload: Payload::from(payload.to_vec()), ..Message::default() }
    }

    #[test]
    fn json_is_compared_member_by_member_with_every_digit() {
        let before = message(br#"{"id":12345678901234567890123,"amount":19.90}"#);
        let after = message(br#"{"id":12345678901234567890123,"amount":1990}"#);
        let shown = difference(&before, &after);
        let expected = "@@ -1,4 +1,4 @@\n {\n   \"id\": 12345678901234567890123,\n-  \"amount\": 19.90\n+  \"amount\": 1990\n }\n";
        assert_eq!(shown, expected);
        assert_eq!(difference(&before, &before), "");
    }

    #[test]
    fn a_body_that_was_cut_off_is_compared_as_it_stands() {
        let shown = difference(&message(br#"{"id":1,"pin":"5"#), &message(br#"{"id":1,"pin":"560034"}"#));
        assert_eq!(shown, "@@ -1,1 +1,1 @@\n-{\"id\":1,\"pin\":\"5\n+{\"id\":1,\"pin\":\"560034\"}\n");
    }

    #[test]
    fn bytes_are_hex_and_headers_have_lines() {
        let shown = difference(&message(b"\xff\x00"), &message(b"\xff\x01"));
        assert!(shown.contains("-ff00\n") && shown.contains("+ff01\n"), "{shown}");
        let mut after = message(b"{}");
        after.key = Some(Payload::from("k"));
        after.headers.push_text("x-tenant", "eu");
        let shown = difference(&message(b"{}"), &after);
        assert!(shown.starts_with("key and headers\n") && shown.contains("+x-tenant: eu\n"), "{shown}");
    }
}
