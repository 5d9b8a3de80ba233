//! `${NAME}` and `${NAME:-default}` inside string values.
//!
//! Expansion happens after the file was parsed, so a variable's value can hold quotes, brackets or line breaks and
//! still be nothing but text: it cannot add a key or end a string. `$${` writes a plain `${`.

/// Where variables come from: the environment, or a table in tests.
pub(crate) type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Why a text cannot be expanded. The words are for the person who wrote it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadExpansion {
    #[error("the environment variable {0} is not set; set it, or write ${{{0}:-a default}}")]
    Missing(String),
    #[error("`${{` has no closing `}}`; write `$${{` for a plain `${{`")]
    Unclosed,
    #[error("`${{{0}}}` is no variable name; expected letters, digits and `_`, not beginning with a digit")]
    BadName(String),
}

/// The text with its variables filled in.
pub(crate) fn expand(text: &str, lookup: Lookup<'_>) -> Result<String, BadExpansion> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let before = &rest[..at];
        if let Some(escaped) = before.strip_suffix('$') {
            out.push_str(escaped);
            out.push_str("${");
            rest = &rest[at + 2..];
            continue;
        }
        out.push_str(before);
        let inside = &rest[at + 2..];
        let end = inside.find('}').ok_or(BadExpansion::Unclosed)?;
        out.push_str(&variable(&inside[..end], lookup)?);
        rest = &inside[end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

fn variable(inside: &str, lookup: Lookup<'_>) -> Result<String, BadExpansion> {
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    if !is_name(name) {
        return Err(BadExpansion::BadName(name.chars().take(64).collect()));
    }
    // As in a shell, `:-` also stands in for a variable that is set and empty.
    match (lookup(name), default) {
        (Some(value), None) => Ok(value),
        (Some(value), Some(_)) if !value.is_empty() => Ok(value),
        (_, Some(default)) => Ok(default.to_string()),
        (None, None) => Err(BadExpansion::Missing(name.to_string())),
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> Result<String, BadExpansion> {
        expand(text, &|name| match name {
            "PORT" => Some("8404".into()),
            "EMPTY" => Some(String::new()),
            "EVIL" => Some("\"\nlisten = \"0.0.0.0:1\" ${PORT}".into()),
            _ => None,
        })
    }

    #[test]
    fn variables_are_filled_in_and_defaults_stand_in() {
        assert_eq!(expanded("127.0.0.1:${PORT}").as_deref(), Ok("127.0.0.1:8404"));
        assert_eq!(expanded("${NONE:-8405}${PORT:-1}").as_deref(), Ok("84058404"));
        assert_eq!(expanded("[${EMPTY}${EMPTY:-x}]").as_deref(), Ok("[x]"));
        assert_eq!(expanded("costs $5 {} $PORT").as_deref(), Ok("costs $5 {} $PORT"));
    }

    #[test]
    fn a_doubled_dollar_writes_it_plainly() {
        assert_eq!(expanded("$${PORT} ${PORT}").as_deref(), Ok("${PORT} 8404"));
    }

    #[test]
    fn a_value_is_text_and_is_not_expanded_again() {
        assert_eq!(expanded("${EVIL}").as_deref(), Ok("\"\nlisten = \"0.0.0.0:1\" ${PORT}"));
    }

    #[test]
    fn what_cannot_be_expanded_says_why() {
        let words = |text: &str| expanded(text).unwrap_err().to_string();
        assert_eq!(
            words("${NONE}"),
            "the environment variable NONE is not set; set it, or write ${NONE:-a default}"
        );
        assert_eq!(words("${PORT"), "`${` has no closing `}`; write `$${` for a plain `${`");
        assert_eq!(
            words("${9 lives}"),
            "`${9 lives}` is no variable name; expected letters, digits and `_`, not beginning with a digit"
        );
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".{0,80}") {
            let _ = expanded(&text);
        }

        #[test]
        fn text_without_a_variable_stays_as_it_is(text in "[^$]{0,80}") {
            assert_eq!(expanded(&text), Ok(text));
        }
    }
}
