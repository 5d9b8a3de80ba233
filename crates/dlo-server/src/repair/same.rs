//! Whether a result says the same as the payload it came from. Then the payload is left as it is, byte for byte.

use jaq_json::Val;

use super::json;

/// Whether `written`, the compact form of `value`, says the same as `original`, in every digit.
///
/// Most results differ, and most payloads are compact and without escapes: the bytes are compared up to the first
/// difference, and the payload is read a second time only where an escape stands in the way.
pub(super) fn is_same(original: &[u8], written: &[u8], value: &Val) -> bool {
    let (mut left, mut right) = (original, written);
    let mut in_text = false;
    loop {
        if !in_text {
            left = left.trim_ascii_start();
        }
        match (left, right) {
            ([], []) => return true,
            ([b'\\', ..], _) | (_, [b'\\', ..]) => {
                return json::read(original).is_ok_and(|read| json::identical(&read, value));
            }
            ([one, left_rest @ ..], [other, right_rest @ ..]) if one == other => {
                in_text ^= *one == b'"';
                (left, right) = (left_rest, right_rest);
            }
            _ => return false,
        }
    }
}

/// Whether two JSON texts differ by nothing but white space between their tokens, as they do when an editor lays one out.
pub(super) fn is_laid_out_anew(original: &[u8], edited: &[u8]) -> bool {
    tokens(original).eq(tokens(edited))
}

fn tokens(json: &[u8]) -> impl Iterator<Item = u8> {
    let (mut in_text, mut escaped) = (false, false);
    json.iter().copied().filter(move |byte| {
        let kept = in_text || !byte.is_ascii_whitespace();
        if in_text {
            in_text = escaped || *byte != b'"';
            escaped = !escaped && *byte == b'\\';
        } else {
            in_text = *byte == b'"';
        }
        kept
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(original: &str, result: &str) -> bool {
        let value = json::read(result.as_bytes()).unwrap();
        let written = json::write(&value, json::Layout::Compact, 1 << 20).unwrap();
        is_same(original.as_bytes(), &written, &value)
    }

    #[test]
    fn spaces_and_escapes_make_no_difference_and_digits_do() {
        assert!(same(" { \"a\" : [ 1 , 2 ] }\n", r#"{"a":[1,2]}"#));
        assert!(same(r#"{"u":"http:\/\/x","e":"\u00e9\u0001"}"#, r#"{"u":"http://x","e":"é\u0001"}"#));
        assert!(!same(r#"{"a":1.10}"#, r#"{"a":1.1}"#));
        assert!(!same(r#"{"a":"b c"}"#, r#"{"a":"bc"}"#));
        assert!(!same(r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#));
        assert!(!same(r#"{"a":"\/"}"#, r#"{"a":"\\/"}"#));
        assert!(!same("[1]", "[1,2]"));
        assert!(!same("[1,2]", "1"));
    }
}
