//! STOMP 1.2 frames: a command, headers with escapes, a body, a NUL.
//!
//! Outside bytes come in here, so everything has a bound and nothing is trusted: a frame that breaks a rule is an error
//! that ends the connection, never a panic. Of repeated headers the first one counts, as the standard says.

use bytes::{Buf as _, Bytes, BytesMut};

/// Longest head of a frame: its command and all its headers.
const HEAD: usize = 1024 * 1024;
const HEADERS: usize = 4_096;
/// Longest body. ActiveMQ's own limit for a frame is 100 MB.
const BODY: usize = 128 * 1024 * 1024;

/// One frame as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) command: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Bytes,
}

impl Frame {
    pub(super) fn new(command: &str) -> Self {
        Self { command: command.to_owned(), headers: Vec::new(), body: Bytes::new() }
    }

    #[must_use]
    pub(super) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// Appends the frame's bytes. The length of a body is a header like any other: who wants it said, adds it.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        // The frames of the greeting are as in STOMP 1.0, where nothing is escaped.
        let escapes = !matches!(&*self.command, "CONNECT" | "CONNECTED");
        out.extend_from_slice(self.command.as_bytes());
        out.push(b'\n');
        for (name, value) in &self.headers {
            write_text(out, name, escapes);
            out.push(b':');
            write_text(out, value, escapes);
            out.push(b'\n');
        }
        out.push(b'\n');
        out.extend_from_slice(&self.body);
        out.push(0);
    }
}

fn write_text(out: &mut Vec<u8>, text: &str, escapes: bool) {
    if !escapes {
        return out.extend_from_slice(text.as_bytes());
    }
    for byte in text.bytes() {
        match byte {
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b':' => out.extend_from_slice(b"\\c"),
            other => out.push(other),
        }
    }
}

/// Why bytes are no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Malformed {
    #[error("the head of a frame is longer than {HEAD} bytes or has more than {HEADERS} headers")]
    Head,
    #[error("a body is longer than {BODY} bytes")]
    Body,
    #[error("a header is not UTF-8, has no colon, or a wrong escape")]
    Header,
    #[error("the length of a body is no number, or no NUL follows it")]
    Length,
}

/// Takes the next frame off the front; `None` when there is not enough yet. Line ends between frames are heart-beats.
pub(super) fn parse(buffer: &mut BytesMut) -> Result<Option<Frame>, Malformed> {
    let beats = buffer.iter().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
    buffer.advance(beats);
    let Some(head) = head_length(buffer) else {
        return if buffer.len() > HEAD { Err(Malformed::Head) } else { Ok(None) };
    };
    if head > HEAD {
        return Err(Malformed::Head);
    }
    let (command, headers) = parse_head(&buffer[..head])?;
    let told = headers.iter().find(|(name, _)| name == "content-length").map(|(_, value)| value.trim());
    let length = match told {
        Some(told) => {
            let length: usize = told.parse().map_err(|_| Malformed::Length)?;
            if length > BODY {
                return Err(Malformed::Body);
            }
            if buffer.len() <= head + length {
                return Ok(None);
            }
            length
        }
        None => match buffer[head..].iter().position(|byte| *byte == 0) {
            Some(length) => length,
            None if buffer.len() - head > BODY => return Err(Malformed::Body),
            None => return Ok(None),
        },
    };
    if buffer[head + length] != 0 {
        return Err(Malformed::Length);
    }
    buffer.advance(head);
    let body = buffer.split_to(length).freeze();
    buffer.advance(1);
    Ok(Some(Frame { command, headers, body }))
}

/// Bytes up to and with the empty line that ends the head.
fn head_length(buffer: &[u8]) -> Option<usize> {
    let mut line = 0;
    for (at, byte) in buffer.iter().enumerate().take(HEAD + 2) {
        if *byte == b'\n' {
            let empty = at == line || (at == line + 1 && buffer[line] == b'\r');
            if empty {
                return Some(at + 1);
            }
            line = at + 1;
        }
    }
    None
}

type Head = (String, Vec<(String, String)>);

fn parse_head(head: &[u8]) -> Result<Head, Malformed> {
    let text = std::str::from_utf8(head).map_err(|_| Malformed::Header)?;
    let mut lines = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
    let command = lines.next().unwrap_or_default().to_owned();
    let escapes = !matches!(&*command, "CONNECT" | "CONNECTED");
    let mut headers = Vec::new();
    for line in lines.filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').ok_or(Malformed::Header)?;
        if headers.len() == HEADERS {
            return Err(Malformed::Head);
        }
        headers.push(match escapes {
            true => (unescape(name)?, unescape(value)?),
            false => (name.to_owned(), value.to_owned()),
        });
    }
    Ok((command, headers))
}

fn unescape(text: &str) -> Result<String, Malformed> {
    if !text.contains('\\') {
        return Ok(text.to_owned());
    }
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        plain.push(match (letter, letter == '\\') {
            (_, true) => match letters.next() {
                Some('n') => '\n',
                Some('r') => '\r',
                Some('c') => ':',
                Some('\\') => '\\',
                Some(_) | None => return Err(Malformed::Header),
            },
            (letter, false) => letter,
        });
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes_of(frame: &Frame) -> BytesMut {
        let mut out = Vec::new();
        frame.write(&mut out);
        BytesMut::from(&out[..])
    }

    #[test]
    fn a_frame_without_a_length_ends_at_its_nul_and_the_next_one_follows() {
        let mut buffer =
            BytesMut::from(&b"\n\r\nMESSAGE\r\na:1\r\n\r\ntext\0\nRECEIPT\nreceipt-id:7\n\n\0"[..]);
        let first = parse(&mut buffer).unwrap().unwrap();
        assert_eq!((&*first.command, first.header("a"), &*first.body), ("MESSAGE", Some("1"), &b"text"[..]));
        let second = parse(&mut buffer).unwrap().unwrap();
        assert_eq!(second.header("receipt-id"), Some("7"));
        assert_eq!(parse(&mut buffer), Ok(None));
    }

    #[test]
    fn of_repeated_headers_the_first_one_counts() {
        let mut buffer = BytesMut::from(&b"MESSAGE\na:1\na:2\n\n\0"[..]);
        assert_eq!(parse(&mut buffer).unwrap().unwrap().header("a"), Some("1"));
    }

    #[test]
    fn what_breaks_a_rule_is_an_error_that_says_which() {
        let read = |bytes: &[u8]| parse(&mut BytesMut::from(bytes));
        assert_eq!(read(b"MESSAGE\nno colon\n\n\0"), Err(Malformed::Header));
        assert_eq!(read(b"MESSAGE\na:\\t\n\n\0"), Err(Malformed::Header));
        assert_eq!(read(b"MESSAGE\na:\xff\n\n\0"), Err(Malformed::Header));
        assert_eq!(read(b"MESSAGE\ncontent-length:x\n\n\0"), Err(Malformed::Length));
        assert_eq!(read(b"MESSAGE\ncontent-length:1\n\nab\0"), Err(Malformed::Length));
        assert_eq!(read(b"MESSAGE\ncontent-length:999999999999\n\n"), Err(Malformed::Body));
        assert_eq!(read(&vec![b'x'; HEAD + 2]), Err(Malformed::Head));
        let many = format!("MESSAGE\n{}\n\0", "a:1\n".repeat(HEADERS + 1));
        assert_eq!(read(many.as_bytes()), Err(Malformed::Head));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again_wherever_the_wire_cuts_it(
            headers in proptest::collection::vec(("[a-z:\\\\\n\r ]{1,8}", "\\PC*|[:\\\\\n\r]*"), 0..6),
            body in proptest::collection::vec(any::<u8>(), 0..64),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut frame = Frame::new("MESSAGE").with("content-length", body.len().to_string());
            frame.headers.extend(headers);
            frame.body = Bytes::from(body);
            let mut whole = bytes_of(&frame);
            let rest = whole.split_off(cut.index(whole.len()));
            prop_assert_eq!(parse(&mut whole), Ok(None));
            whole.extend_from_slice(&rest);
            prop_assert_eq!(parse(&mut whole), Ok(Some(frame)));
            prop_assert!(whole.is_empty());
        }

        #[test]
        fn no_bytes_bring_the_parser_down(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
            let mut buffer = BytesMut::from(&bytes[..]);
            while let Ok(Some(_)) = parse(&mut buffer) {}
        }
    }
}
