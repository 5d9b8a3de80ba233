//! JSON indented for reading, and nothing else done to it.
//!
//! Going through a parsed value would sort fields, fold repeated ones and round long numbers: a person would look at
//! something that was never sent. So only white space between tokens changes here. The text is known to be valid JSON.

/// Levels that are indented; deeper ones stand at the same column.
const DEEPEST: usize = 40;

/// The same JSON, one field or element a line.
pub(crate) fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    let mut level = 0_usize;
    let mut inside = false;
    let mut escaped = false;
    let mut tokens = text.chars().peekable();
    while let Some(token) = tokens.next() {
        if inside {
            out.push(token);
            inside = escaped || token != '"';
            escaped = !escaped && token == '\\';
            continue;
        }
        match token {
            ' ' | '\t' | '\n' | '\r' => {}
            '{' | '[' => {
                out.push(token);
                while tokens.next_if(|next| next.is_ascii_whitespace()).is_some() {}
                if let Some(close) = tokens.next_if(|next| matches!(next, '}' | ']')) {
                    out.push(close);
                } else {
                    level += 1;
                    new_line(&mut out, level);
                }
            }
            '}' | ']' => {
                level = level.saturating_sub(1);
                new_line(&mut out, level);
                out.push(token);
            }
            ',' => {
                out.push(token);
                new_line(&mut out, level);
            }
            ':' => out.push_str(": "),
            _ => {
                inside = token == '"';
                out.push(token);
            }
        }
    }
    out
}

fn new_line(out: &mut String, level: usize) {
    out.push('\n');
    for _ in 0..level.min(DEEPEST) {
        out.push_str("  ");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};
    use serde_json::Value;

    use super::json;

    #[test]
    fn fields_keep_their_order_and_numbers_their_digits() {
        let sent = r#"{"z":12345678901234567890123,"a":[1,{"b":"x, \"y\": {"}],"e":{},"z":1.10,"f":[ ]}"#;
        let shown = "{\n  \"z\": 12345678901234567890123,\n  \"a\": [\n    1,\n    {\n      \"b\": \"x, \\\"y\\\": {\"\n    }\n  ],\n  \"e\": {},\n  \"z\": 1.10,\n  \"f\": []\n}";
        assert_eq!(json(sent), shown);
    }

    proptest! {
        #[test]
        fn what_is_shown_means_what_was_sent(text in any::<String>(), number in any::<i64>(), depth in 0_usize..60) {
            let mut value = serde_json::json!({ "text": text, "number": number, "none": null, "empty": [] });
            for _ in 0..depth {
                value = serde_json::json!({ "inner": [value] });
            }
            let shown = json(&value.to_string());
            assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), value);
        }
    }
}
