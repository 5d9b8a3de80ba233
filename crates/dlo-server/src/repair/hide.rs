//! What jq says of a failure, without the values it failed on: those are payload, and the sentence is stored and shown.

use std::fmt::Write as _;

use dlo_core::limits;
use hifijson::SliceLexer;
use hifijson::token::Lex as _;

/// Characters of jq's own sentence that are looked at: it may hold a whole payload.
const READ: usize = 16 * 1024;
/// Bytes of what is said.
const SAID: usize = 512;

/// The sentence with the kind of each value in its place. What stands in the expression itself is no secret.
pub(super) fn error(error: &jaq_json::Error, expression: &str) -> String {
    let mut text = Bounded(String::new());
    let cut = write!(text, "{error}").is_err();
    let own = text.0.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(&text.0);
    let mut said =
        if !cut && expression.contains(own) { own.to_string() } else { without_values(own, expression) };
    limits::cut(&mut said, SAID);
    said
}

struct Bounded(String);

impl std::fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.push_str(text);
        if limits::cut(&mut self.0, READ) { Err(std::fmt::Error) } else { Ok(()) }
    }
}

fn without_values(text: &str, expression: &str) -> String {
    // jq's own sentences begin with these; anything else was said by the expression, with values put in.
    const OWN: [&str; 5] = ["cannot ", "invalid path expression", "index ", "split input", "expected "];
    if !OWN.iter().any(|own| text.starts_with(own)) {
        return "the expression refused it (`error`), with a text that holds values of the payload"
            .to_string();
    }
    let mut said = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let starts = said.is_empty() || said.ends_with(' ');
        let value = starts.then(|| value_in_front(rest)).flatten();
        match value {
            Some((kind, length)) => {
                let value = &rest[..length];
                said.push_str(if kind == "a text" && expression.contains(value.trim_matches('"')) {
                    value
                } else {
                    kind
                });
                rest = &rest[length..];
            }
            // The start of a value whose end was cut off, or that is no JSON: nothing behind it can be told apart.
            None if starts && matches!(first, '{' | '[' | '"' | '-' | '0'..='9') => {
                said.push('…');
                break;
            }
            None => {
                said.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    said
}

/// A JSON value at the beginning of the text: what it is, and how long.
fn value_in_front(text: &str) -> Option<(&'static str, usize)> {
    let kind = match text.as_bytes().first()? {
        b'{' => "an object",
        b'[' => "an array",
        b'"' => "a text",
        b'-' | b'0'..=b'9' => "a number",
        _ if text.starts_with("null ") || text == "null" => return Some(("null", 4)),
        _ if text.starts_with("true ") || text == "true" => return Some(("a boolean", 4)),
        _ if text.starts_with("false ") || text == "false" => return Some(("a boolean", 5)),
        _ => return None,
    };
    let mut lexer = SliceLexer::new(text.as_bytes());
    let next = lexer.ws_peek()?;
    hifijson::ignore::parse(next, &mut lexer).ok()?;
    Some((kind, text.len() - lexer.as_slice().len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_named_by_their_kind_and_what_the_expression_says_itself_stays() {
        let said = |text| without_values(text, r#".["amount"]"#);
        assert_eq!(said(r#"cannot index "4111 1111" with "amount""#), r#"cannot index a text with "amount""#);
        assert_eq!(said(r#"cannot use {"card":"4111"} as number"#), "cannot use an object as number");
        assert_eq!(said("cannot calculate 41 + null"), "cannot calculate a number + null");
        assert_eq!(said(r#"cannot index {"card":"41"#), "cannot index …");
        assert!(!said("card 4111").contains("4111"));
    }
}
