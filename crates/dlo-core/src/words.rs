//! Text as search sees it: folded text with the parts that it is found by, and exact values.
//!
//! One definition for both stores and for scanning what is not indexed yet, so that all three agree. Text is folded: lower
//! case, and whatever stands between letters and digits is one space. A text is found when what was asked for stands
//! anywhere in it, also inside a longer word. An index need not know texts for that: it knows the [`grams`] of their words,
//! and [`wanted`] says which of them every match has. An exact value (a key, a header, a JSON field) becomes one
//! token that is a hash of its field and value. A hit is verified against the row, so an index may promise too much.

mod hashes;

use std::borrow::Cow;

use serde_json::Value;

pub use hashes::payload_hashes;

/// Characters of a gram.
pub const GRAM: usize = 5;
/// Characters of a word from which on an index can find it.
pub const SHORTEST: usize = 3;
/// Grams of one text that are looked up; the rest is left to verification.
const WANTED: usize = 32;
/// Bytes of a payload in which text is looked for.
pub const SCANNED: usize = 64 * 1024;
/// JSON fields indexed for one payload.
const FIELDS: usize = 2_000;

/// Text in lower case, with one space for whatever stands between its words. Character by character, so that a part of
/// a text is folded as it is inside the whole.
pub fn fold(text: &str) -> String {
    if text.is_ascii() {
        return fold_ascii(text);
    }
    let mut folded = String::with_capacity(text.len());
    let mut gap = false;
    for c in text.chars() {
        if !c.is_alphanumeric() {
            gap = true;
            continue;
        }
        if gap && !folded.is_empty() {
            folded.push(' ');
        }
        gap = false;
        if c.is_ascii() {
            folded.push(c.to_ascii_lowercase());
        } else {
            folded.extend(c.to_lowercase());
        }
    }
    folded
}

/// The same for plain text, which nearly all is: bytes are looked at instead of characters.
fn fold_ascii(text: &str) -> String {
    let mut folded = Vec::with_capacity(text.len());
    for word in text.as_bytes().split(|byte| !byte.is_ascii_alphanumeric()).filter(|word| !word.is_empty()) {
        if !folded.is_empty() {
            folded.push(b' ');
        }
        folded.extend_from_slice(word);
    }
    folded.make_ascii_lowercase();
    String::from_utf8(folded).unwrap_or_default()
}

/// Whether folded text stands in `text`. What has no word is found nowhere.
pub fn contains(text: &str, folded: &str) -> bool {
    !folded.is_empty() && may_contain(text, folded) && fold(text).contains(folded)
}

/// Whether the longest word asked for stands in `text` at all: turns most texts away for a tenth of what folding costs.
fn may_contain(text: &str, folded: &str) -> bool {
    let longest = folded.split(' ').max_by_key(|word| word.len()).unwrap_or_default();
    if text.is_ascii() && !longest.is_ascii() {
        return false;
    }
    let found = match longest.bytes().all(|byte| byte.is_ascii_digit()) {
        true => text.contains(longest),
        false => text.to_ascii_lowercase().contains(longest),
    };
    // Beyond ASCII, lower case is more than a bit of a byte; two capitals there even have theirs among plain letters.
    found || !(text.is_ascii() || longest.is_ascii() && !text.contains(['\u{130}', '\u{212a}']))
}

/// For every place of a word of folded text, the characters from there on: [`GRAM`] of them, or fewer at the word's end.
pub fn grams(folded: &str) -> impl Iterator<Item = &str> {
    folded.split(' ').flat_map(|word| {
        word.char_indices().map(|(at, _)| {
            let rest = &word[at..];
            rest.char_indices().nth(GRAM).map_or(rest, |(end, _)| &rest[..end])
        })
    })
}

/// What every text has among its grams in which this stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted<'t> {
    /// This gram.
    Gram(&'t str),
    /// A gram that begins so.
    Beginning(&'t str),
}

/// The grams that every text has in which this folded text stands. None: its words are too short for an index.
///
/// All words but the last end where they end in the text, so that the gram of their end is known to the last character: few
/// texts have `1234` there, where many have it inside a longer number.
pub fn wanted(folded: &str) -> Vec<Wanted<'_>> {
    let mut words = folded.split(' ').peekable();
    let words = std::iter::from_fn(|| words.next().map(|word| (word, words.peek().is_some())));
    let wanted = words.flat_map(|(word, ends)| {
        let length = word.chars().count();
        let whole = grams(word).take((length + 1).saturating_sub(GRAM)).map(Wanted::Gram);
        let end = match ends {
            true => grams(word).nth((length + 1).saturating_sub(GRAM)).map(Wanted::Gram),
            false => Some(Wanted::Beginning(word)).filter(|_| length < GRAM),
        };
        whole.chain(end.filter(|_| length >= SHORTEST))
    });
    wanted.take(WANTED).collect()
}

/// The token of an exact value: `x` and sixteen hex digits.
pub fn exact(field: &str, value: &[u8]) -> String {
    format!("x{:016x}", exact_hash(field, value))
}

/// The number in the token of an exact value.
pub fn exact_hash(field: &str, value: &[u8]) -> u64 {
    on(on(on(EMPTY, field.as_bytes()), &[0]), value)
}

/// The hash of nothing.
const EMPTY: u64 = 0xcbf2_9ce4_8422_2325;

/// A hash, continued. FNV-1a: stable over versions and machines, which the index on disk needs; hits are verified, so it
/// may collide.
fn on(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// The part of a payload in which words are looked for, as text.
pub fn scanned(payload: &[u8]) -> Cow<'_, str> {
    let bytes = &payload[..payload.len().min(SCANNED)];
    // Nearly every payload is text, and to see that it is costs a tenth of mending what is not.
    std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

/// How the field names of JSON paths begin, and what stands before each step.
const ROOT: &str = "p";
const STEP: char = '\u{1}';

/// The field name under which a JSON path is indexed.
pub fn payload_field(path: &[impl AsRef<str>]) -> String {
    let mut name = String::from(ROOT);
    for part in path {
        name.push(STEP);
        name.push_str(part.as_ref());
    }
    name
}

/// Walks the scalar fields of a JSON document: `visit(path, value as text)`. Array positions are not part of a path.
/// Stops after [`FIELDS`] fields; says whether it saw all.
pub fn json_fields(document: &Value, visit: &mut impl FnMut(&[&str], &str)) -> bool {
    let mut left = FIELDS;
    let mut path: Vec<&str> = Vec::new();
    walk(document, &mut path, &mut left, visit)
}

fn walk<'a>(
    value: &'a Value,
    path: &mut Vec<&'a str>,
    left: &mut usize,
    visit: &mut impl FnMut(&[&str], &str),
) -> bool {
    if *left == 0 {
        return false;
    }
    let mut seen = |text: &str| {
        *left -= 1;
        visit(path, text);
        true
    };
    match value {
        Value::String(text) => seen(text),
        Value::Number(number) => seen(&number.to_string()),
        Value::Bool(true) => seen("true"),
        Value::Bool(false) => seen("false"),
        Value::Null => seen("null"),
        Value::Object(fields) => fields.iter().all(|(name, inner)| {
            path.push(name);
            let all = walk(inner, path, left, visit);
            path.pop();
            all
        }),
        Value::Array(items) => items.iter().all(|item| walk(item, path, left, visit)),
    }
}

/// Whether a JSON payload has `value` at `path`, among the fields that are indexed.
pub fn payload_has(payload: &[u8], path: &[String], value: &str) -> bool {
    let Ok(document) = serde_json::from_slice::<Value>(payload) else { return false };
    let mut found = false;
    json_fields(&document, &mut |at, text| {
        found |= text == value && at.len() == path.len() && at.iter().zip(path).all(|(a, b)| a == b);
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folded_text_is_lower_case_words_with_one_space_between() {
        assert_eq!(fold("pin 560001: not in Tax-Table (Straße)"), "pin 560001 not in tax table straße");
        assert_eq!(fold("--- !!"), "");
        // A sigma at the end of a word is that in the middle of a longer one.
        assert!(contains("ΟΔΟΣΑ", &fold("οδοΣ")));
    }

    #[test]
    fn text_is_found_anywhere_also_inside_a_word() {
        let text = "order ORD-88812: pin 560001 not in TaxTable";
        for part in ["ord-888", "ORD 88812", "560", "axtab", "not in tax", "6000", "e"] {
            assert!(contains(text, &fold(part)), "{part}");
        }
        for part in ["tax in", "tax table", "889", ""] {
            assert!(!contains(text, &fold(part)), "{part}");
        }
    }

    #[test]
    fn capitals_beyond_ascii_are_found_by_their_plain_letters() {
        assert!(contains("300 \u{212a}elvin, Zürich", &fold("kelvin")));
        assert!(contains("\u{130}ZMIR", &fold("zmir")));
        assert!(contains("STRASSE ÜBER ALLES", &fold("über")));
        assert!(!contains("plain", &fold("über")));
        assert!(!contains("Zürich", &fold("zurich")));
    }

    #[test]
    fn whatever_contains_a_text_has_the_grams_that_are_wanted() {
        assert_eq!(
            grams("taxed pin").collect::<Vec<_>>(),
            ["taxed", "axed", "xed", "ed", "d", "pin", "in", "n"]
        );
        let taxes = [Wanted::Gram("taxes"), Wanted::Gram("axes"), Wanted::Beginning("5600")];
        assert_eq!(wanted("in taxes of 5600"), taxes);
        assert_eq!(wanted("5600 of"), [Wanted::Gram("5600")]);
        assert_eq!(wanted("straße"), [Wanted::Gram("straß"), Wanted::Gram("traße")]);
        assert_eq!(wanted("a bc"), []);
    }

    #[test]
    fn a_json_field_is_found_by_its_path_through_arrays() {
        let payload = br#"{"customer":{"id":"CUST-441"},"lines":[{"sku":7},{"sku":8}],"paid":true}"#;
        let at = |path: &str| path.split('.').map(String::from).collect::<Vec<_>>();
        assert!(payload_has(payload, &at("customer.id"), "CUST-441"));
        assert!(payload_has(payload, &at("lines.sku"), "8"));
        assert!(payload_has(payload, &at("paid"), "true"));
        assert!(!payload_has(payload, &at("customer"), "CUST-441"));
        assert!(!payload_has(b"not json", &at("customer.id"), "CUST-441"));
    }

    #[test]
    fn the_token_of_an_exact_value_never_changes() {
        assert_eq!(exact("key", b"C-441"), "x551024525ddad553");
    }
}
