//! Text as PostgreSQL can keep it.
//!
//! Its `text` knows every character but NUL, and letters from the wire have those too. So NUL is written as two
//! characters, an escape (U+0010) and `0`; the escape itself is doubled. Nearly all text passes through untouched. Equal
//! text stays equal, so that it can be compared in the database.

use std::borrow::Cow;

const ESCAPE: char = '\u{10}';

pub(super) fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', ESCAPE]) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\0' => escaped.extend([ESCAPE, '0']),
            ESCAPE => escaped.extend([ESCAPE, ESCAPE]),
            other => escaped.push(other),
        }
    }
    Cow::Owned(escaped)
}

pub(super) fn escape_option(text: &Option<String>) -> Option<Cow<'_, str>> {
    text.as_deref().map(escape)
}

pub(super) fn unescape(text: String) -> String {
    if !text.contains(ESCAPE) {
        return text;
    }
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            ESCAPE => plain.push(match chars.next() {
                Some('0') | None => '\0',
                Some(other) => other,
            }),
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::*;

    #[test]
    fn plain_text_is_not_copied() {
        assert!(matches!(escape("pin 560001 not in tax table"), Cow::Borrowed(_)));
    }

    proptest! {
        #[test]
        fn any_text_comes_back_and_holds_no_nul_meanwhile(text in "[\\x00\\x100a-c]{0,12}", wild in any::<String>()) {
            for text in [text, wild] {
                let escaped = escape(&text).into_owned();
                prop_assert!(!escaped.contains('\0'));
                prop_assert_eq!(unescape(escaped), text);
            }
        }
    }
}
