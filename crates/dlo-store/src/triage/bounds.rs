//! What people write beside groups, within its bounds, for both stores.

use dlo_core::limits;

use super::NewLink;
use crate::StoreError;

pub(crate) fn bounded_note(text: &str) -> Result<&str, StoreError> {
    let text = text.trim();
    match text.chars().count() {
        0 => Err(StoreError::Unsupported("a note needs some text".into())),
        length if length > limits::NOTE => Err(StoreError::Unsupported(format!(
            "a note has at most {} characters, this one has {length}; a runbook may be longer",
            limits::NOTE
        ))),
        _ => Ok(text),
    }
}

/// Only what a browser may follow without running anything.
pub(crate) fn bounded_link(link: &NewLink) -> Result<NewLink, StoreError> {
    let (title, url) = (link.title.trim(), link.url.trim());
    let refused = |why: String| Err(StoreError::Unsupported(why));
    if title.is_empty() || title.chars().count() > limits::NAME {
        return refused(format!("a link needs a title of 1 to {} characters", limits::NAME));
    }
    let lower = url.to_ascii_lowercase();
    let host = lower.strip_prefix("https://").or_else(|| lower.strip_prefix("http://"));
    let plain = |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, '"' | '<' | '>' | '\\');
    if url.len() > limits::URL
        || !url.chars().all(plain)
        || host.is_none_or(|host| host.is_empty() || host.starts_with('/'))
    {
        return refused(format!(
            "a link's address begins with https:// or http:// and has at most {} bytes, without blanks or quotes",
            limits::URL
        ));
    }
    Ok(NewLink { title: title.to_string(), url: url.to_string() })
}

pub(crate) fn bounded_runbook(text: &str) -> Result<(), StoreError> {
    if text.len() > limits::RUNBOOK {
        return Err(StoreError::Unsupported(format!(
            "a runbook has at most {} bytes, this one has {}; link to the rest",
            limits::RUNBOOK,
            text.len()
        )));
    }
    Ok(())
}

pub(crate) fn too_many(what: &str, most: usize) -> StoreError {
    StoreError::Unsupported(format!("at most {most} {what} are kept"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_leads_to_a_web_page_and_nowhere_else() {
        let link = |url: &str| bounded_link(&NewLink { title: " Ticket ".into(), url: url.into() });
        assert_eq!(link(" https://tickets.example/7 ").unwrap().url, "https://tickets.example/7");
        assert_eq!(link("HTTP://x").unwrap().title, "Ticket");
        for bad in [
            "javascript:alert(1)",
            "ftp://x",
            "https://",
            "https:///x",
            "https://a b",
            "http://a\"b",
            "//x",
            "",
        ] {
            assert!(link(bad).is_err(), "{bad}");
        }
        assert!(link(&format!("https://{}", "x".repeat(limits::URL))).is_err());
    }

    #[test]
    fn a_note_has_text_and_an_end() {
        assert_eq!(bounded_note(" seen ").unwrap(), "seen");
        assert!(bounded_note(" \n").is_err());
        assert!(bounded_note(&"x".repeat(limits::NOTE + 1)).is_err());
    }
}
