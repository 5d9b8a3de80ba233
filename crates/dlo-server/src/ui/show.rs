//! Values as people read them: how long ago, how large, bytes as text or hex.

use std::fmt::Write;

use dlo_core::time::Timestamp;
use dlo_core::trend::Window;

use super::indent;

/// `4 min ago`, `3 h ago`, `12 d ago`.
pub(crate) fn ago(time: Timestamp, now: Timestamp) -> String {
    let seconds = now.since(time).as_secs();
    match seconds {
        0..=4 => "just now".to_string(),
        5..=119 => format!("{seconds} s ago"),
        120..=7_199 => format!("{} min ago", seconds / 60),
        7_200..=172_799 => format!("{} h ago", seconds / 3_600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

/// `in 4 min`, `in 3 h`, `in 12 d`.
pub(crate) fn ahead(time: Timestamp, now: Timestamp) -> String {
    let told = ago(now, time);
    told.strip_suffix(" ago").map_or_else(|| "now".to_string(), |span| format!("in {span}"))
}

/// `4 min`, `3 h`, `12 d`: how old something is.
pub(crate) fn age(time: Timestamp, now: Timestamp) -> String {
    let told = ago(time, now);
    told.strip_suffix(" ago").map_or_else(|| "moments".to_string(), str::to_string)
}

/// `16 Nov 10:00`, for an axis.
pub(crate) fn clock(time: Timestamp) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let text = time.to_string();
    // `2026-11-16T10:00:00Z`
    let (month, day, hour) = (text.get(5..7), text.get(8..10), text.get(11..16));
    let month =
        month.and_then(|month| month.parse::<usize>().ok()).and_then(|at| MONTHS.get(at.wrapping_sub(1)));
    match (month, day, hour) {
        (Some(month), Some(day), Some(hour)) => format!("{day} {month} {hour}"),
        _ => text,
    }
}

/// When each column of a trend begins.
pub(crate) fn columns(window: Window) -> Vec<String> {
    (0..window.buckets).map(|at| clock(window.resolution.begins(window.from + at as i64))).collect()
}

/// A time, relative for reading and exact for pointing at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct When {
    pub(crate) exact: String,
    pub(crate) ago: String,
}

impl When {
    pub(crate) fn new(time: Timestamp, now: Timestamp) -> Self {
        Self { exact: time.to_string(), ago: ago(time, now) }
    }
}

/// `12 kB`.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..=9_999 => format!("{bytes} B"),
        10_000..=9_999_999 => format!("{} kB", bytes / 1_000),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}

/// Bytes for reading: indented JSON, text, or hex.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) how: &'static str,
    pub(crate) text: String,
    /// Not everything is shown.
    pub(crate) cut: bool,
}

impl Shown {
    pub(crate) fn of(bytes: &[u8], most: usize) -> Self {
        if bytes.len() <= most
            && let Ok(json) = serde_json::from_slice::<&serde_json::value::RawValue>(bytes)
            && let text = indent::json(json.get())
            && text.len() <= most * 2
        {
            return Self { how: "JSON, indented for reading", text, cut: false };
        }
        let cut = bytes.len() > most;
        let part = &bytes[..bytes.len().min(most)];
        match text(part, cut) {
            Some(text) => Self { how: "text", text, cut },
            None => {
                // A line of hex is more than four times as long as its bytes.
                let part = &part[..part.len().min(most / 4)];
                Self { how: "bytes, as hex", text: hex(part, 0), cut: part.len() < bytes.len() }
            }
        }
    }
}

impl Shown {
    /// Bytes on one line: text as it is, anything else as hex digits.
    pub(crate) fn of_line(bytes: &[u8], most: usize) -> String {
        let cut = bytes.len() > most;
        let part = &bytes[..bytes.len().min(most)];
        let mut line =
            text(part, cut).unwrap_or_else(|| part.iter().map(|byte| format!("{byte:02x}")).collect());
        if cut {
            line.push('…');
        }
        line
    }
}

/// UTF-8 without control characters; a character that the cut went through is left out.
fn text(bytes: &[u8], cut: bool) -> Option<String> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if cut && error.error_len().is_none() => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    let strange = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    (!text.chars().any(strange)).then(|| text.to_string())
}

/// Lines of sixteen bytes, numbered from `first`.
pub(crate) fn hex(bytes: &[u8], first: usize) -> String {
    let mut out = String::with_capacity(bytes.len() * 5);
    for (at, line) in bytes.chunks(16).enumerate() {
        // Writing to a `String` does not fail.
        let _ = write!(out, "{:08x} ", first + at * 16);
        for byte in line {
            let _ = write!(out, " {byte:02x}");
        }
        out.extend(std::iter::repeat_n(' ', (16 - line.len()) * 3 + 2));
        out.extend(line.iter().map(|&byte| if byte.is_ascii_graphic() { char::from(byte) } else { '.' }));
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_told_as_people_tell_them() {
        let now = Timestamp::from_millis(1_800_000_000_000);
        let before = |seconds| ago(now.minus(Duration::from_secs(seconds)), now);
        assert_eq!([before(0), before(90), before(300)], ["just now", "90 s ago", "5 min ago"]);
        assert_eq!([before(10_000), before(300_000)], ["2 h ago", "3 d ago"]);
        assert_eq!(ago(now.plus(Duration::from_secs(60)), now), "just now");
    }

    #[test]
    fn bytes_are_shown_as_what_they_are() {
        assert_eq!(Shown::of(b"{\"a\":1}", 100).text, "{\n  \"a\": 1\n}");
        assert_eq!(Shown::of("grüße".as_bytes(), 100).how, "text");
        let hex = Shown::of(&[0, 255, b'A'], 100);
        assert!(hex.text.starts_with("00000000  00 ff 41 ") && hex.text.ends_with("..A\n"), "{}", hex.text);
    }

    #[test]
    fn what_is_long_is_cut_and_says_so() {
        let shown = Shown::of("é".repeat(100).as_bytes(), 51);
        assert!(shown.cut);
        assert_eq!(shown.text.chars().count(), 25);
        assert!(Shown::of(&[0; 1_000], 100).cut);
    }

    #[test]
    fn deeply_nested_json_is_shown_as_text() {
        let deep = "[".repeat(10_000) + &"]".repeat(10_000);
        assert_eq!(Shown::of(deep.as_bytes(), SHOWN_IN_TEST).how, "text");
    }

    const SHOWN_IN_TEST: usize = 64 * 1024;
}
