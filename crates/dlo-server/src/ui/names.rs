//! What ids are called: a group by its title, a letter by its error and key, so that a person need not tell UUIDs apart.
//!
//! The store is asked once for each, so these are for the few of one page; what is hidden stays hidden.

use dlo_core::id::{GroupId, LetterId};
use dlo_store::StoreError;

use super::Failed;
use crate::office::Office;

/// Characters of an error message that are enough to know it again.
const MESSAGE: usize = 80;
/// Characters of a key.
const KEY: usize = 40;

/// The title of a group, masked. One that is not here any more goes by its id.
pub(crate) async fn group(office: &Office, id: GroupId) -> Result<String, Failed> {
    match office.shown().group(id).await {
        Ok(group) => Ok(group.title()),
        Err(StoreError::NoGroup(_)) => Ok(format!("group {id}")),
        Err(error) => Err(error.into()),
    }
}

/// The error and the key of a letter, masked. One that is not here any more goes by its id.
pub(crate) async fn letter(office: &Office, id: LetterId) -> Result<String, Failed> {
    let letter = match office.shown().letter(id).await {
        Ok(found) => found.letter,
        Err(StoreError::NoLetter(_)) => return Ok(format!("letter {id}")),
        Err(error) => return Err(error.into()),
    };
    let message: String = letter.error_message.chars().take(MESSAGE).collect();
    let class = letter.error_class.filter(|class| !class.is_empty());
    let error = match (class, message.is_empty()) {
        (Some(class), true) => class,
        (Some(class), false) => format!("{class}: {message}"),
        (None, true) => "no error text".to_string(),
        (None, false) => message,
    };
    let key = letter.key.as_deref().and_then(|key| std::str::from_utf8(key).ok());
    let key = key.map(|key| key.chars().take(KEY).collect::<String>());
    Ok(match key {
        Some(key) => format!("{error} (key {key})"),
        None => error,
    })
}

/// The end of an id: its beginning is a time, which letters of one moment have in common.
pub(crate) fn short(id: &str) -> String {
    let end = id.char_indices().rev().nth(7).map_or(0, |(at, _)| at);
    format!("…{}", &id[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_told_by_its_end() {
        assert_eq!(short("0190a1b2-0000-7000-8000-00000000002a"), "…0000002a");
        assert_eq!([short("äb"), short("")], ["…äb", "…"]);
    }
}
