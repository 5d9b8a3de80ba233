//! `dlo replay items`: the letters of a replay, one a line, with where each stands.

use dlo_core::id::ReplayId;
use dlo_core::replay::ItemState;
use serde_json::{Value, json};

use super::super::now;
use super::{path, show};
use crate::client::{Client, Pages, age_of, text_of};
use crate::exit::Outcome;
use crate::output::{Align, Out, Table, Tone, clean, cut, say};

pub(super) fn run(client: &Client, out: Out, id: ReplayId, state: Option<ItemState>, limit: u64) -> Outcome {
    let replay = client.get(&path(id, ""), &[])?;
    let items = of(client, &replay, state.map(ItemState::as_str), limit)?;
    if out.json {
        return out.value(&json!({ "items": items }));
    }
    if items.is_empty() {
        say("no letter of this replay stands there");
        return Ok(());
    }
    let mut table = Table::new(&[
        ("LETTER", Align::Left),
        ("STATE", Align::Left),
        ("SENT", Align::Right),
        ("", Align::Left),
    ]);
    let now = now();
    for item in &items {
        table.row([
            text_of(item, "letter"),
            text_of(item, "state"),
            age_of(item, "sent_at", now),
            cut(&clean(&text_of(item, "note")), 80),
        ]);
        table.tone(0, Tone::Quiet);
    }
    out.table(&table)?;
    if items.len() as u64 >= limit {
        say(format!("… the first {limit}; --limit shows more"));
    }
    Ok(())
}

/// Up to so many letters of a replay or of its parts, in their order; only those in `state`, if given.
pub(super) fn of(client: &Client, replay: &Value, state: Option<&str>, limit: u64) -> Outcome<Vec<Value>> {
    let query: Vec<(&str, &str)> = state.map(|state| ("state", state)).into_iter().collect();
    let mut items = Vec::new();
    for id in show::with_letters(replay) {
        let left = limit.saturating_sub(items.len() as u64);
        if left == 0 {
            break;
        }
        let path = format!("/api/v1/replays/{id}/items");
        let page = Pages { path: &path, list: "items", query: &query, cursor: None }.up_to(client, left)?;
        items.extend(page.items);
    }
    Ok(items)
}
