//! The letters of a replay one by one, by where they stand.

use dlo_core::id::LetterId;
use dlo_core::replay::{Item, ItemState, Replay, send_id};
use dlo_core::time::Timestamp;
use dlo_store::{Cursor, Page};
use serde::Deserialize;

use crate::api::error::{Answer, Problem};
use crate::office::Office;
use crate::ui::show::When;
use crate::ui::{names, words};

/// Lines at once.
const LINES: usize = 50;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ItemParams {
    /// Only those in this state.
    items: Option<String>,
    cursor: Option<String>,
}

pub(super) struct ItemLine {
    pub(super) number: u64,
    pub(super) letter: LetterId,
    /// The end of its id.
    pub(super) short: String,
    pub(super) state: &'static str,
    pub(super) phrase: String,
    pub(super) sent_at: Option<Timestamp>,
    /// It was not sent yet, and will be.
    pub(super) is_to_come: bool,
    pub(super) at: Option<When>,
    pub(super) place: String,
    pub(super) note: String,
    pub(super) send_id: String,
}

#[derive(Default)]
pub(super) struct Items {
    /// Code and words of the state that was asked for.
    pub(super) state: Option<(&'static str, String)>,
    pub(super) lines: Vec<ItemLine>,
    pub(super) next: Option<String>,
}

impl Items {
    /// A plan with parts has no items of its own; theirs stand on their pages.
    pub(super) async fn read(
        office: &Office,
        replay: &Replay,
        has_parts: bool,
        params: ItemParams,
        now: Timestamp,
    ) -> Answer<Self> {
        let wanted = params.items.as_deref().filter(|state| !state.is_empty());
        let state = wanted
            .map(str::parse::<ItemState>)
            .transpose()
            .map_err(|unknown| Problem::bad_request("bad_parameter", unknown.to_string()).field("items"))?;
        let state_words = state.map(|state| (state.as_str(), words::phrase(state.as_str())));
        if has_parts {
            return Ok(Self { state: state_words, ..Self::default() });
        }
        let cursor = params.cursor.filter(|cursor| !cursor.is_empty()).map(Cursor);
        let found = office.shown().items(replay.id, state, &Page { limit: LINES, cursor }).await?;
        let lines = found.items.iter().map(|item| ItemLine::new(replay, item, now)).collect();
        Ok(Self { state: state_words, lines, next: found.next.map(|cursor| cursor.0) })
    }
}

impl ItemLine {
    fn new(replay: &Replay, item: &Item, now: Timestamp) -> Self {
        let place = match (item.partition, item.offset) {
            (Some(partition), Some(offset)) => format!("partition {partition}, offset {offset}"),
            (None, Some(offset)) => format!("offset {offset}"),
            (_, None) => String::new(),
        };
        Self {
            number: item.number + 1,
            letter: item.letter,
            short: names::short(&item.letter.to_string()),
            state: item.state.as_str(),
            phrase: words::phrase(item.state.as_str()),
            sent_at: item.sent_at,
            is_to_come: matches!(item.state, ItemState::Frozen | ItemState::Claimed | ItemState::Intended),
            at: item.sent_at.or(item.at).map(|at| When::new(at, now)),
            place,
            note: item.note.clone().unwrap_or_default(),
            send_id: send_id(replay.id, item.number),
        }
    }
}
