//! The shapes of things that vary from one failure to the next. Each function looks at the front of some bytes and
//! says how many of them are such a thing, or at a whole chunk and says whether it is one.
//!
//! Shapes are judged by bytes: what is not ASCII counts as a letter. Nothing here looks further than it must, and
//! nothing backtracks over more than one thing, so the scanner stays linear.

/// Words with digits in them that do not vary.
const CONSTANT: [&str; 40] = [
    "b2b", "base64", "bzip2", "cp1252", "ec2", "float32", "float64", "h2", "http2", "http3", "i32", "i64",
    "int16", "int32", "int64", "int8", "ipv4", "ipv6", "k8s", "latin1", "log4j", "md5", "oauth2", "p12",
    "s3", "sha1", "sha256", "sha384", "sha512", "tls12", "u32", "u64", "uint32", "uint64", "uint8", "utf16",
    "utf32", "utf8", "utf8mb4", "x509",
];

/// What may stand behind a number and stays.
const UNITS: [&str; 30] = [
    "am", "b", "d", "g", "gb", "gib", "h", "k", "kb", "kib", "m", "mb", "mib", "min", "mm", "ms", "nd", "ns",
    "pm", "px", "rd", "s", "sec", "st", "tb", "th", "tib", "us", "w", "x",
];

/// A letter or a digit; the bytes of other scripts count as letters.
pub(super) const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte >= 0x80
}

/// What ends a chunk: space, quotes, brackets, and the marks that stand between things.
pub(super) const fn is_delimiter(byte: u8) -> bool {
    byte.is_ascii_whitespace()
        || byte.is_ascii_control()
        || matches!(byte, b'"' | b'\'' | b'`' | b'(' | b')' | b'[' | b']' | b'{' | b'}' | b'<' | b'>')
        || matches!(byte, b',' | b';' | b'|' | b'=' | b'!' | b'?' | b'*')
}

/// Whether a piece of letters and digits is one of the words that stay.
pub(super) fn is_constant(piece: &[u8]) -> bool {
    is_among(&CONSTANT, piece)
}

/// Whether the letters behind a number are a unit.
pub(super) fn is_unit(letters: &[u8]) -> bool {
    is_among(&UNITS, letters)
}

fn is_among(sorted: &[&str], word: &[u8]) -> bool {
    let mut lower = [0_u8; 8];
    let Some(lower) = lower.get_mut(..word.len()) else { return false };
    lower.copy_from_slice(word);
    lower.make_ascii_lowercase();
    sorted.binary_search_by(|known| known.as_bytes().cmp(lower)).is_ok()
}

/// How many bytes at the front are digits.
pub(super) fn digits(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// Digits with dots or commas between them: `42`, `1,000.50`, `1.2.3`. At least one digit stands in front.
pub(super) fn number(bytes: &[u8]) -> usize {
    let mut len = digits(bytes);
    while matches!(bytes.get(len), Some(b'.' | b',')) {
        match digits(&bytes[len + 1..]) {
            0 => break,
            more => len += 1 + more,
        }
    }
    len
}

/// `550e8400-e29b-41d4-a716-446655440000`.
pub(super) fn uuid(bytes: &[u8]) -> Option<usize> {
    let front = bytes.get(..36)?;
    let fits = front.iter().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    });
    (fits && ends(bytes, 36)).then_some(36)
}

/// A date, a time of day, or both: `2026-11-01T12:30:00.5Z`, `2026-11-01 12:30:00,123`, `2026/11/01`, `12:30:00`.
pub(super) fn time(bytes: &[u8]) -> Option<usize> {
    let Some(day) = date(bytes) else { return clock(bytes) };
    if matches!(bytes.get(day), Some(b'T' | b't' | b' ' | b'_'))
        && let Some(time) = clock(&bytes[day + 1..])
    {
        return Some(day + 1 + time);
    }
    ends(bytes, day).then_some(day)
}

fn date(bytes: &[u8]) -> Option<usize> {
    let front = bytes.get(..10)?;
    let mark = front[4];
    let fits = matches!(mark, b'-' | b'/')
        && front[7] == mark
        && [0, 1, 2, 3, 5, 6, 8, 9].iter().all(|at| front[*at].is_ascii_digit());
    fits.then_some(10)
}

/// `12:30:00` with a fraction and an offset, if there are any.
fn clock(bytes: &[u8]) -> Option<usize> {
    let front = bytes.get(..8)?;
    let fits = [2, 5].iter().all(|at| front[*at] == b':')
        && [0, 1, 3, 4, 6, 7].iter().all(|at| front[*at].is_ascii_digit());
    if !fits {
        return None;
    }
    let mut len = 8;
    if matches!(bytes.get(len), Some(b'.' | b',')) {
        let fraction = digits(&bytes[len + 1..]);
        len += if fraction > 0 { 1 + fraction } else { 0 };
    }
    len += match bytes.get(len) {
        Some(b'Z' | b'z') => 1,
        Some(b'+' | b'-') => offset(&bytes[len + 1..]).map_or(0, |offset| 1 + offset),
        _ => 0,
    };
    ends(bytes, len).then_some(len)
}

/// `02:00` or `0200`, behind its sign.
fn offset(bytes: &[u8]) -> Option<usize> {
    match (digits(bytes), bytes.get(2)) {
        (4, _) => Some(4),
        (2, Some(b':')) if digits(&bytes[3..]) == 2 => Some(5),
        _ => None,
    }
}

/// `10.0.0.17`, `2001:db8::8a2e:370:7334`.
pub(super) fn ip(bytes: &[u8]) -> Option<usize> {
    let v4 = number(bytes);
    let octets = bytes[..v4].split(|byte| *byte == b'.');
    if octets.clone().count() == 4 && octets.into_iter().all(|octet| (1..=3).contains(&digits(octet))) {
        return ends(bytes, v4).then_some(v4);
    }
    let len = bytes.iter().take_while(|byte| byte.is_ascii_hexdigit() || **byte == b':').take(40).count();
    let front = bytes[..len].trim_suffix_colon();
    let colons = front.iter().filter(|byte| **byte == b':').count();
    let fits = front.iter().any(u8::is_ascii_digit)
        && (colons == 7 || (2..7).contains(&colons) && front.windows(2).any(|pair| pair == b"::"));
    (fits && ends(bytes, front.len())).then_some(front.len())
}

trait TrimColon {
    fn trim_suffix_colon(&self) -> &Self;
}

impl TrimColon for [u8] {
    /// Without the colon that may follow an address, unless it belongs to `::`.
    fn trim_suffix_colon(&self) -> &Self {
        match self {
            [.., b':', b':'] => self,
            [front @ .., b':'] => front,
            _ => self,
        }
    }
}

/// `someone@example.org`.
pub(super) fn is_email(chunk: &[u8]) -> bool {
    let Some(at) = memchr::memchr(b'@', chunk) else { return false };
    let (local, domain) = (&chunk[..at], &chunk[at + 1..]);
    let Some(dot) = memchr::memrchr(b'.', domain) else { return false };
    let local_fits = |byte: &u8| is_word(*byte) || matches!(byte, b'.' | b'_' | b'%' | b'+' | b'-');
    let domain_fits = |byte: &u8| is_word(*byte) || matches!(byte, b'.' | b'-');
    !local.is_empty()
        && local.iter().all(local_fits)
        && dot > 0
        && domain.iter().all(domain_fits)
        && domain.len() > dot + 2
        && domain[dot + 1..].iter().all(u8::is_ascii_alphabetic)
}

/// `/var/lib/x`, `./x`, `~/x`, `C:\x`, `\\host\x`, `src/a/b`, `src/main.rs:4:5`; but not `read/write` or `text/html`.
pub(super) fn is_path(chunk: &[u8]) -> bool {
    let named =
        |byte: Option<&u8>| byte.is_some_and(|byte| is_word(*byte) || matches!(byte, b'.' | b'_' | b'-'));
    match chunk {
        [b'/', rest @ ..] | [b'~' | b'.', b'/', rest @ ..] | [b'.', b'.', b'/', rest @ ..] => {
            named(rest.first())
        }
        [drive, b':', b'\\' | b'/', rest @ ..] => drive.is_ascii_alphabetic() && named(rest.first()),
        [b'\\', b'\\', rest @ ..] => named(rest.first()) && rest.contains(&b'\\'),
        [first, ..] if is_word(*first) => is_relative_path(chunk),
        _ => false,
    }
}

fn is_relative_path(chunk: &[u8]) -> bool {
    let slashes = memchr::memchr_iter(b'/', chunk).count();
    let has_letter = || chunk.iter().any(|byte| !byte.is_ascii_digit() && is_word(*byte));
    match slashes {
        0 => false,
        1 => {
            let name = chunk.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            let suffix = name.iter().position(|byte| *byte == b'.').map(|dot| &name[dot + 1..]);
            suffix.is_some_and(|suffix| suffix.first().is_some_and(u8::is_ascii_alphabetic))
        }
        _ => has_letter(),
    }
}

/// Whether a thing of `len` bytes at the front is whole: no letter or digit goes on behind it.
fn ends(bytes: &[u8], len: usize) -> bool {
    bytes.get(len).is_none_or(|byte| !is_word(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_that_stay_are_sorted_for_the_search() {
        assert!(CONSTANT.is_sorted() && UNITS.is_sorted());
        assert!(is_constant(b"UTF8") && !is_constant(b"utf9") && !is_constant(b"worker12"));
    }

    #[test]
    fn times_are_measured_to_their_end() {
        for whole in
            ["2026-11-01", "2026-11-01T12:30:00.5+02:00", "2026-11-01 12:30:00,123", "12:30:00", "2026/11/01"]
        {
            assert_eq!(time(whole.as_bytes()), Some(whole.len()), "{whole}");
            assert_eq!(time(format!("{whole} x").as_bytes()), Some(whole.len()), "{whole}");
        }
        assert_eq!(time(b"12:30:00+0200"), Some(13));
        assert_eq!((time(b"12:30:00. x"), time(b"12:30:00+02:x")), (Some(8), Some(8)));
        for other in ["2026-11-0", "2026-11-01x", "12:30", "12:30:00am", "2026-11/01"] {
            assert_eq!(time(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn addresses_are_measured_to_their_end() {
        assert_eq!(ip(b"10.0.0.17:5432"), Some(9));
        assert_eq!(ip(b"2001:db8::8a2e:370:7334: refused"), Some(23));
        assert_eq!((ip(b"fe80:: x"), ip(b"1:2:3:4:5:6:7:8")), (Some(6), Some(15)));
        for other in ["1:2:3:4", "1.2.3", "1.2.3.4.5", "face::bead", "1000.2.3.4", "10:20"] {
            assert_eq!(ip(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn paths_and_addresses_of_people_are_told_from_words() {
        for path in [
            "src/1.rs",
            "a/.x",
            "/var/lib/x",
            "./a",
            "C:\\Users\\x",
            "\\\\host\\share",
            "src/main.rs:4:5",
            "a/b/c",
        ] {
            assert!(is_path(path.as_bytes()), "{path}");
        }
        for other in [
            "-a/b/c",
            "1:/x",
            "C:\\",
            "\\\\host",
            "/",
            "//",
            "read/write",
            "text/html",
            "N/A",
            "1/2/3",
            "a\\b",
        ] {
            assert!(!is_path(other.as_bytes()), "{other}");
        }
        assert!(is_email(b"ann.lee+x@mail.example.org"));
        for other in ["ann@.org", "a@b.c", "@example.org", "ann@host", "Order@1b2c3d4", "a@b.c1"] {
            assert!(!is_email(other.as_bytes()), "{other}");
        }
    }
}
