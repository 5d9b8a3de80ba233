//! Numbers as conventions write them. The convention says which notation is meant; bytes alone never do: `1234` is
//! four digits in one and an int32 in another.

/// Decimal text, also as a JSON number or with a fraction of zeros.
pub(super) fn decimal(bytes: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(bytes).ok()?.trim();
    let text = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    if text.is_empty() || text.len() > 24 {
        return None;
    }
    let whole = match text.split_once('.') {
        Some((whole, fraction)) if fraction.bytes().all(|digit| digit == b'0') => whole,
        _ => text,
    };
    whole.parse().ok()
}

/// Four or eight bytes, big-endian; where the length is another one, decimal text.
pub(super) fn big_endian(bytes: &[u8]) -> Option<i64> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(i64::from(i32::from_be_bytes(four)));
    }
    if let Ok(eight) = <[u8; 8]>::try_from(bytes) {
        return Some(i64::from_be_bytes(eight));
    }
    decimal(bytes)
}

/// A Java `BigInteger`: two's complement, big-endian, as few bytes as it takes, at most eight here.
pub(super) fn big_integer(bytes: &[u8]) -> Option<i64> {
    let first = *bytes.first()?;
    if bytes.len() > 8 {
        return None;
    }
    let mut wide = if first & 0x80 == 0 { [0; 8] } else { [0xff; 8] };
    wide[8 - bytes.len()..].copy_from_slice(bytes);
    Some(i64::from_be_bytes(wide))
}

/// An index of a partition: not negative, and no larger than brokers count.
pub(super) fn partition(number: i64) -> Option<i32> {
    i32::try_from(number).ok().filter(|number| *number >= 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_byte_level_examples_are_read_as_they_were_meant() {
        assert_eq!(big_endian(&[0, 0, 0, 3]), Some(3));
        assert_eq!(big_endian(&[0, 0, 0, 0, 0, 0, 0, 0x2a]), Some(42));
        assert_eq!(big_endian(&[0, 0, 1, 0x8b, 0xcf, 0xe5, 0x68, 0]), Some(1_700_000_000_000));
        assert_eq!(big_integer(&[1, 0x8b, 0xcf, 0xe5, 0x68, 0]), Some(1_700_000_000_000));
        assert_eq!(big_integer(&[0xff]), Some(-1));
        assert_eq!(big_integer(&[0; 9]), None);
        assert_eq!(decimal(b"42"), Some(42));
    }

    #[test]
    fn digits_are_a_number_only_where_text_is_meant() {
        assert_eq!(decimal(b"1234"), Some(1234));
        assert_eq!(big_endian(b"1234"), Some(0x3132_3334));
        assert_eq!(big_endian(b"12"), Some(12));
    }

    #[test]
    fn what_is_no_number_is_none() {
        for text in ["", " ", "x", "1.5", "9223372036854775808", "NaN", "1e3"] {
            assert_eq!(decimal(text.as_bytes()), None, "{text}");
        }
        assert_eq!(decimal(b"3.0"), Some(3));
        assert_eq!(decimal(b"\"7\""), Some(7));
    }
}
