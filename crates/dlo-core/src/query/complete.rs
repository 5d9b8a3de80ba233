//! What may be typed next: the term under the cursor, and the fields and values that fit what stands of it.
//!
//! In two steps, so that this stays arithmetic: [`Spot::at`] reads the text and says which names are wanted, whoever keeps
//! the groups looks them up, [`Spot::offer`] puts them in order. The text need not be a query yet: quotes may be
//! open and values missing. Nothing is offered that only stands in letters.

use std::ops::Range;
use std::time::Duration;

use super::fields::{FIELDS, Field, Named, Values};
use super::show;
use crate::time::Timestamp;

/// Values offered at once.
pub const OFFERED: usize = 20;
/// Characters of a word from which on values are offered before a field was named.
const GUESS: usize = 2;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The place under the cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spot {
    /// The bytes that an offer takes the place of.
    pub replace: Range<usize>,
    /// The bytes of the term that is being typed; a mistake in it may still become right.
    pub term: Range<usize>,
    pub wanted: Wanted,
}

/// What fits there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// A field, or what a field may hold.
    Field {
        typed: String,
    },
    Value {
        field: &'static Field,
        typed: String,
    },
    /// Words of the writer's own.
    Nothing,
}

/// A name that groups carry, with the open letters behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    pub named: Named,
    pub name: String,
    pub open: u64,
}

/// What may be put there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Offer {
    pub fields: Vec<&'static Field>,
    pub values: Vec<ValueOffer>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueOffer {
    pub field: &'static str,
    pub value: String,
    /// The text to put in the place of what was typed.
    pub insert: String,
    /// Open letters behind it, where they are counted.
    pub open: Option<u64>,
}

/// How well `typed` fits a name, the smaller the better: its beginning, or a part of it. Without regard to case.
pub fn fits(name: &str, typed: &str) -> Option<u8> {
    let (name, typed) = (name.to_lowercase(), typed.to_lowercase());
    if name.starts_with(&typed) { Some(0) } else { name.contains(&typed).then_some(1) }
}

impl Field {
    /// The text that names it.
    pub fn insert(&self) -> String {
        let behind = if self.takes_name() { '.' } else { ':' };
        format!("{}{behind}", self.name)
    }
}

impl Spot {
    /// The spot at byte `at`, which may stand anywhere: behind the end is the end, inside a character is before it.
    pub fn at(text: &str, at: usize) -> Self {
        let at = text.floor_char_boundary(at.min(text.len()));
        let raw = term_at(text, at);
        let term = raw.start..raw.end;
        let body = raw.start + usize::from(text[term.clone()].starts_with('-'));
        let nothing = Self { replace: at..at, term: term.clone(), wanted: Wanted::Nothing };
        if at < body || text[body..].starts_with('"') {
            return nothing;
        }
        match raw.colon.filter(|colon| *colon < at) {
            None => {
                let typed = text[body..at].to_string();
                // Behind the dot of `payload.` and `header.` stand names of the writer's own.
                if typed.contains(['.', '"']) && Field::named(first_part(&typed)).is_some() {
                    return nothing;
                }
                let end = raw.colon.map_or(raw.end, |colon| colon + 1);
                Self { replace: body..end, term, wanted: Wanted::Field { typed } }
            }
            Some(colon) => {
                let Some(field) = Field::named(first_part(&text[body..colon])) else { return nothing };
                let typed = unquoted(&text[colon + 1..at]).to_string();
                Self { replace: colon + 1..raw.end, term, wanted: Wanted::Value { field, typed } }
            }
        }
    }

    /// The names to look up, and the text that they must contain.
    pub fn names(&self) -> (Vec<Named>, &str) {
        match &self.wanted {
            Wanted::Field { typed } if typed.chars().count() >= GUESS => (Named::ALL.to_vec(), typed),
            Wanted::Value { field, typed } => match field.values {
                Values::Named(named) => (vec![named], typed),
                Values::Words(_) | Values::Usual(_) | Values::Moment | Values::Own => (Vec::new(), typed),
            },
            Wanted::Field { .. } | Wanted::Nothing => (Vec::new(), ""),
        }
    }

    /// What fits, the best first. `known` are the names that were looked up.
    pub fn offer(&self, known: Vec<Known>, now: Timestamp) -> Offer {
        match &self.wanted {
            Wanted::Nothing => Offer::default(),
            Wanted::Field { typed } => {
                let typed = typed.to_lowercase();
                let mut fields: Vec<(u8, &'static Field)> =
                    FIELDS.iter().filter_map(|field| Some((field.fits(&typed)?, field))).collect();
                fields.sort_by_key(|(rank, _)| *rank);
                let qualified = |mut value: ValueOffer| {
                    value.insert = format!("{}:{}", value.field, value.insert);
                    value
                };
                let mut values = Vec::new();
                if typed.chars().count() >= GUESS {
                    values.extend(FIELDS.iter().flat_map(closed));
                    values.extend(known.into_iter().map(named));
                }
                let values = best(values, &typed).into_iter().map(qualified).collect();
                Offer { fields: fields.into_iter().map(|(_, field)| field).collect(), values }
            }
            Wanted::Value { field, typed } => {
                let mut values = match field.values {
                    Values::Words(_) | Values::Own => closed(field),
                    Values::Usual(usual) => usual.iter().map(|value| plain(field.name, value)).collect(),
                    Values::Moment => days(field.name, now),
                    Values::Named(_) => known.into_iter().map(named).collect(),
                };
                if field.values == Values::Named(Named::Owner) {
                    values.push(plain(field.name, "none"));
                }
                Offer { fields: Vec::new(), values: best(values, typed) }
            }
        }
    }
}

/// The term around a byte: where it begins and ends, and its first colon outside quotes.
struct RawTerm {
    start: usize,
    end: usize,
    colon: Option<usize>,
}

fn term_at(text: &str, at: usize) -> RawTerm {
    let mut term = RawTerm { start: 0, end: text.len(), colon: None };
    let (mut quoted, mut guarded) = (false, false);
    for (index, c) in text.char_indices() {
        match c {
            _ if guarded => guarded = false,
            '\\' if quoted => guarded = true,
            '"' => quoted = !quoted,
            ':' if !quoted && term.colon.is_none() => term.colon = Some(index),
            c if c.is_whitespace() && !quoted => {
                if at <= index {
                    term.end = index;
                    return term;
                }
                term = RawTerm { start: index + c.len_utf8(), end: text.len(), colon: None };
            }
            _ => {}
        }
    }
    term
}

/// What stands before the first dot.
fn first_part(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

fn unquoted(typed: &str) -> &str {
    let Some(inner) = typed.strip_prefix('"') else { return typed };
    inner.strip_suffix('"').unwrap_or(inner)
}

/// The words of a closed vocabulary.
fn closed(field: &Field) -> Vec<ValueOffer> {
    match field.values {
        Values::Words(words) => words.iter().map(|word| plain(field.name, word)).collect(),
        Values::Named(_) | Values::Usual(_) | Values::Moment | Values::Own => Vec::new(),
    }
}

fn plain(field: &'static str, value: &str) -> ValueOffer {
    ValueOffer { field, value: value.to_string(), insert: value.to_string(), open: None }
}

fn named(known: Known) -> ValueOffer {
    // A team of that name is meant, not its absence.
    let insert = match known.named {
        Named::Owner if known.name == "none" => "\"none\"".to_string(),
        _ => show::value(&known.name),
    };
    ValueOffer { field: known.named.field(), value: known.name, insert, open: Some(known.open) }
}

/// Today and the days before it, as they are asked for.
fn days(field: &'static str, now: Timestamp) -> Vec<ValueOffer> {
    let day = |back: u32| now.minus(DAY * back).to_string().chars().take(10).collect::<String>();
    let (today, yesterday, week) = (day(0), day(1), day(7));
    [format!(">={today}"), today, yesterday, format!(">={week}"), format!("<{week}")]
        .iter()
        .map(|value| plain(field, value))
        .collect()
}

/// Those that fit what was typed: the nearest first, of these the ones with the most open letters.
fn best(values: Vec<ValueOffer>, typed: &str) -> Vec<ValueOffer> {
    let mut fitting: Vec<(u8, ValueOffer)> =
        values.into_iter().filter_map(|value| Some((fits(&value.value, typed)?, value))).collect();
    // Stable: what is equal stays in the order in which its vocabulary lists it.
    fitting.sort_by_key(|(rank, value)| (*rank, std::cmp::Reverse(value.open)));
    fitting.truncate(OFFERED);
    fitting.into_iter().map(|(_, value)| value).collect()
}
