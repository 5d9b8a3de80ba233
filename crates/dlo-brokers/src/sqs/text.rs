//! Which text SQS takes: characters, names of attributes, ids of groups, numbers.

/// XML's characters: what SQS takes in bodies and string attributes, which may not be empty either.
pub(super) fn is_legal(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|character| {
            matches!(character, '\t' | '\n' | '\r' | ' '..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..)
        })
}

/// The text of bytes that SQS takes as text.
pub(super) fn legal(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().filter(|text| is_legal(text))
}

pub(super) fn is_attribute_name(name: &str) -> bool {
    let reserved = ["aws.", "amazon."]
        .iter()
        .any(|prefix| name.get(..prefix.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(prefix)));
    (1..=256).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
        && !name.starts_with('.')
        && !name.ends_with('.')
        && !name.contains("..")
        && !reserved
}

/// Whether `text` may be the id of a message group, or a deduplication id.
pub(super) fn is_group(text: &str) -> bool {
    (1..=128).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Whether `value` may stand under the data type `kind`.
pub(super) fn fits(kind: &str, value: &[u8]) -> bool {
    if kind.is_empty() || kind.len() > 256 || value.is_empty() {
        return false;
    }
    match kind.split('.').next() {
        Some("String") => legal(value).is_some(),
        Some("Number") => {
            let digits = value.iter().filter(|byte| byte.is_ascii_digit()).count();
            let number = legal(value).and_then(|text| text.parse::<f64>().ok());
            (1..=38).contains(&digits) && number.is_some_and(f64::is_finite)
        }
        Some("Binary") => true,
        Some(_) | None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_xml_forbids_are_not_legal() {
        assert!(is_legal("Zürich\t東京\r\n\u{10FFFF}\u{7f}"));
        for text in ["", "a\u{0}", "\u{b}", "\u{FFFE}", "\u{FFFF}"] {
            assert!(!is_legal(text), "{text:?}");
        }
    }

    #[test]
    fn names_keep_to_the_rules() {
        for good in ["tenant", "a.b-c_D9", "aws", "amazonian"] {
            assert!(is_attribute_name(good), "{good}");
        }
        for bad in ["", ".a", "a.", "a..b", "AWS.x", "Amazon.y", "a b", "ü", "a:b"] {
            assert!(!is_attribute_name(bad), "{bad}");
        }
    }

    #[test]
    fn a_value_fits_its_type_or_not() {
        assert!(fits("Number", b"-1.5e3") && fits("Number.int", b"7") && fits("String.custom", b"x"));
        assert!(!fits("Number", b"inf") && !fits("Number", b"seven") && !fits("String", b"\xff"));
        assert!(fits("Binary", b"\xff") && !fits("Binary", b"") && !fits("Map", b"x"));
    }
}
