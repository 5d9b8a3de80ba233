//! Text as search sees it: words, and exact values.
//!
//! One definition for both stores and for scanning what is not indexed yet, so that all three agree. A word is a run
//! of letters and digits, lower case, cut to 40 characters. Text matches a phrase when the phrase's words
//! stand in it one after the other. An exact value (a key, a header, a JSON field) becomes one token that is a hash
//! of its field and value; a hit is verified against the row, so that a collision finds nothing.

use serde_json::Value;

/// Characters of a word; the rest is cut.
const WORD: usize = 40;
/// Bytes of a payload in which words are looked for.
pub const SCANNED: usize = 64 * 1024;
/// JSON fields indexed for one payload.
const FIELDS: usize = 2_000;

/// The words of a text, in order, repeated as they are.
pub fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(|word| {
        let cut = word.char_indices().nth(WORD).map_or(word, |(at, _)| &word[..at]);
        if cut.is_ascii() { cut.to_ascii_lowercase() } else { cut.to_lowercase() }
    })
}

/// Whether the words of `phrase` stand in `text` one after the other. A phrase without words is found nowhere.
pub fn contains(text: &str, phrase: &[String]) -> bool {
    let Some(first) = phrase.first() else { return false };
    let found: Vec<String> = words(text).collect();
    found.windows(phrase.len()).any(|window| window[0] == *first && window == phrase)
}

/// The token of an exact value: `x` and sixteen hex digits.
pub fn exact(field: &str, value: &[u8]) -> String {
    // FNV-1a: stable over versions and machines, which the index on disk needs; hits are verified, so it may collide.
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in field.bytes().chain([0]).chain(value.iter().copied()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    format!("x{hash:016x}")
}

/// The part of a payload in which words are looked for, as text.
pub fn scanned(payload: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(&payload[..payload.len().min(SCANNED)])
}

/// The field name under which a JSON path is indexed.
pub fn payload_field(path: &[impl AsRef<str>]) -> String {
    let mut name = String::from("p");
    for part in path {
        name.push('\u{1}');
        name.push_str(part.as_ref());
    }
    name
}

/// Walks the scalar fields of a JSON document: `visit(path, value as text)`. Array positions are not part of a path.
/// Stops after [`FIELDS`] fields; says whether it saw all.
pub fn json_fields(document: &Value, visit: &mut impl FnMut(&[&str], &str)) -> bool {
    let mut left = FIELDS;
    let mut path = Vec::new();
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
    match value {
        Value::Object(fields) => fields.iter().all(|(name, inner)| {
            path.push(name);
            let all = walk(inner, path, left, visit);
            path.pop();
            all
        }),
        Value::Array(items) => items.iter().all(|item| walk(item, path, left, visit)),
        Value::String(text) => seen(path, left, visit, text),
        Value::Number(number) => seen(path, left, visit, &number.to_string()),
        Value::Bool(true) => seen(path, left, visit, "true"),
        Value::Bool(false) => seen(path, left, visit, "false"),
        Value::Null => seen(path, left, visit, "null"),
    }
}

fn seen(path: &[&str], left: &mut usize, visit: &mut impl FnMut(&[&str], &str), text: &str) -> bool {
    *left -= 1;
    visit(path, text);
    true
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

    fn phrase(text: &str) -> Vec<String> {
        words(text).collect()
    }

    #[test]
    fn words_are_lower_case_runs_of_letters_and_digits() {
        assert_eq!(
            phrase("pin 560001: not in Tax-Table (Straße)"),
            ["pin", "560001", "not", "in", "tax", "table", "straße"]
        );
        assert_eq!(phrase("--- !!"), Vec::<String>::new());
        assert_eq!(phrase(&"é".repeat(50))[0].chars().count(), 40);
    }

    #[test]
    fn a_phrase_matches_whole_words_in_their_order() {
        let text = "pin 560001 not in tax table";
        assert!(contains(text, &phrase("NOT in tax")));
        assert!(!contains(text, &phrase("tax in")));
        assert!(!contains(text, &phrase("tab")));
        assert!(!contains(text, &[]));
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
