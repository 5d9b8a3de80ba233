//! What is shown of a repair of a message with masked values.
//!
//! A program can compute with a masked value, so no rule about its result keeps that value hidden. Therefore nothing that is
//! shown comes from the real message: the program runs over copies with other values in the place of the masked ones. What
//! is equal in the results of all copies does not depend on them and is shown. What differs is hidden. The real message takes
//! no part, so not even *that* something is hidden tells a bit of it.
//!
//! A program that decides by a masked value may do otherwise with the real one than is shown here. What remains to be learned
//! is the kind of a masked value and, of an object that is hidden whole, whether it has a field of a guessed name.

use std::sync::Arc;

use dlo_core::message::{Header, Headers, Message, Payload};
use dlo_core::redact::{COPIES, MASK, Redactor, without_stand_ins};
use jaq_json::{Map, Val};

use super::json::{self, Layout};
use super::{Facts, Mended, RepairDesk, RepairError, Repaired, Subject};

/// Said in the place of a reason that depends on masked values.
const HIDDEN_REASON: &str = "it fails, and the reason depends on masked values";
const HIDDEN_OUTCOME: &str = "whether it can be repaired depends on masked values";
const NOT_READ: &str = "parts of the payload are masked, and it is no JSON or too large to be masked field by field; \
                        an expression is not run over it";

/// What people are shown of one repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outlook {
    Failed(String),
    Same,
    /// The message after the repair, with everything hidden that depends on a masked value.
    Changed {
        after: Message,
        schema: bool,
    },
}

/// A message with masked parts, and the rules that mask them.
#[derive(Debug)]
pub(crate) struct Masking<'a> {
    pub(crate) subject: Subject<'a>,
    pub(crate) rules: Arc<Redactor>,
}

impl RepairDesk {
    /// The result of an expression for each message, as far as it may be shown.
    pub(crate) async fn outlook(
        &self,
        expression: &str,
        messages: &[Masking<'_>],
    ) -> Result<Vec<Outlook>, RepairError> {
        let mut results: Vec<Results> = vec![Vec::new(); messages.len()];
        for copy in 0..COPIES {
            let copies: Vec<_> = messages.iter().map(|one| StandIn::new(one, copy)).collect();
            let subjects: Vec<Subject<'_>> = copies.iter().flatten().map(StandIn::subject).collect();
            let mut answers = self.apply_to_copies(expression, &subjects).await?.into_iter();
            for (stand_in, results) in copies.iter().zip(&mut results) {
                let (Some(stand_in), Some(answer)) =
                    (stand_in, stand_in.as_ref().and_then(|_| answers.next()))
                else {
                    continue;
                };
                results.push(answer.map(|Mended { repaired, schema }| {
                    let changed = matches!(repaired, Repaired::Changed(_));
                    (repaired.or(&stand_in.message), changed, schema)
                }));
            }
        }
        let rules: Vec<Arc<Redactor>> = messages.iter().map(|one| Arc::clone(&one.rules)).collect();
        // Messages may be large: comparing them has a thread of its own.
        let compare =
            move || results.iter().zip(&rules).map(|(results, rules)| compared(results, rules)).collect();
        let failed = |_| RepairError::Worker(std::io::Error::other("results could not be compared"));
        tokio::task::spawn_blocking(compare).await.map_err(failed)
    }
}

/// The result of each copy: the message, whether it changed, and whether it had to fit a schema.
type Results = Vec<Result<(Message, bool, bool), String>>;

/// One copy of a message with what is known of its letter.
struct StandIn {
    message: Message,
    known: [Option<String>; 5],
}

impl StandIn {
    fn new(masking: &Masking<'_>, copy: u8) -> Option<Self> {
        let Facts { id, source, event_type, error_class, consumer } = masking.subject.facts;
        let known = |text: Option<&str>| text.map(|text| masking.rules.text_stand_in(text, copy));
        Some(Self {
            message: masking.rules.stand_in(masking.subject.message, copy)?,
            known: [
                Some(id.to_owned()),
                Some(source.to_owned()),
                known(event_type),
                known(error_class),
                known(consumer),
            ],
        })
    }

    fn subject(&self) -> Subject<'_> {
        let [id, source, event_type, error_class, consumer] = self.known.each_ref().map(Option::as_deref);
        let facts = Facts {
            id: id.unwrap_or_default(),
            source: source.unwrap_or_default(),
            event_type,
            error_class,
            consumer,
        };
        Subject { message: &self.message, facts }
    }
}

/// What the results of all copies have in common. The last copy renames the fields of hidden objects, so that its failure
/// alone does not fail the repair.
fn compared(results: &Results, rules: &Redactor) -> Outlook {
    let [kept @ .., last] = &results[..] else { return Outlook::Failed(NOT_READ.to_owned()) };
    let reasons: Vec<String> =
        results.iter().filter_map(|one| one.as_ref().err()).map(|why| without_places(why)).collect();
    let failed = kept.iter().filter(|one| one.is_err()).count();
    if failed > 0 {
        let equal = reasons.len() == results.len() && reasons.iter().all(|one| *one == reasons[0]);
        return Outlook::Failed(match (failed == kept.len(), equal) {
            (true, true) => reasons[0].clone(),
            (true, false) => HIDDEN_REASON.to_owned(),
            (false, _) => HIDDEN_OUTCOME.to_owned(),
        });
    }
    let all: Vec<&(Message, bool, bool)> = results.iter().filter_map(|one| one.as_ref().ok()).collect();
    if all.iter().all(|(_, changed, _)| !changed) {
        return Outlook::Same;
    }
    let schema = all.iter().all(|(_, _, schema)| *schema);
    let messages: Vec<&Message> = all.iter().map(|(message, ..)| message).collect();
    let after = match last {
        Ok(_) => merged(&messages),
        Err(_) => Message { payload: Payload::from(MASK), key: None, headers: Headers::default() },
    };
    Outlook::Changed { after: shown(after, rules), schema }
}

/// A reason without the number of a byte: it is another one in every copy.
fn without_places(why: &str) -> String {
    let mut parts = why.split(" byte ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |said, part| said + " byte …" + part.trim_start_matches(|c: char| c.is_ascii_digit()))
}

/// The rules apply to the result as well: a text of the expression itself may fall under them.
fn shown(mut message: Message, rules: &Redactor) -> Message {
    message.headers = rules.headers(&message.headers);
    message.payload = Payload::from(rules.payload(&message.payload.0).into_owned());
    message.key = message.key.map(|key| match rules.text(&String::from_utf8_lossy(&key.0)) {
        std::borrow::Cow::Borrowed(_) => key,
        std::borrow::Cow::Owned(masked) => Payload::from(masked),
    });
    message
}

fn merged(messages: &[&Message]) -> Message {
    let payloads: Option<Vec<Val>> = messages.iter().map(|one| json::read(&one.payload.0).ok()).collect();
    let payload = payloads.and_then(|payloads| {
        let value = merged_value(&payloads.iter().collect::<Vec<_>>());
        json::write(&value, Layout::Compact, dlo_core::limits::PAYLOAD).ok()
    });
    let keys: Vec<Option<&[u8]>> =
        messages.iter().map(|one| one.key.as_ref().map(|key| &key.0[..])).collect();
    Message {
        payload: payload.map_or_else(|| Payload::from(MASK), Payload::from),
        key: merged_bytes(&keys).map(Payload::from),
        headers: merged_headers(messages),
    }
}

/// Headers in the order of the first copy. Those that not every copy has are hidden, their names included.
fn merged_headers(messages: &[&Message]) -> Headers {
    let Some((first, others)) = messages.split_first() else { return Headers::default() };
    let same_names = others.iter().all(|other| {
        other.headers.len() == first.headers.len()
            && other.headers.iter().zip(first.headers.iter()).all(|(one, other)| one.name == other.name)
    });
    let at = |place: usize| -> Vec<Option<&[u8]>> {
        messages
            .iter()
            .map(|one| one.headers.0.get(place).and_then(|header| header.value.as_deref()))
            .collect()
    };
    let mut shown = Vec::new();
    for (place, header) in first.headers.iter().enumerate() {
        if same_names {
            let value = merged_bytes(&at(place)).map(Into::into);
            shown.push(Header { name: header.name.clone(), value });
        } else if others.iter().all(|other| other.headers.iter().any(|one| one == header)) {
            shown.push(header.clone());
        }
    }
    if !same_names {
        shown.push(Header { name: MASK.to_owned(), value: Some(MASK.into()) });
    }
    Headers(shown)
}

fn merged_bytes(values: &[Option<&[u8]>]) -> Option<Vec<u8>> {
    let (first, others) = values.split_first()?;
    if others.iter().all(|other| other == first) {
        return first.map(<[u8]>::to_vec);
    }
    let texts: Vec<String> = values.iter().map(|value| text_of(value.unwrap_or_default())).collect();
    Some(merged_text(&texts).into_bytes())
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Texts that differ only in their stand-ins are shown with masks in those places.
fn merged_text(texts: &[String]) -> String {
    let mut without = texts.iter().map(|text| without_stand_ins(text));
    match without.next() {
        Some(first) if without.all(|other| other == first) => first.into_owned(),
        _ => MASK.to_owned(),
    }
}

fn merged_value(values: &[&Val]) -> Val {
    let hidden = || Val::utf8_str(MASK.to_owned());
    let Some((first, others)) = values.split_first() else { return hidden() };
    match first {
        Val::Obj(members) => {
            let others: Option<Vec<&Map<Val, Val>>> = others.iter().map(|other| object(other)).collect();
            others.map_or_else(hidden, |others| merged_object(members, &others))
        }
        Val::Arr(items) => {
            let others: Option<Vec<&Vec<Val>>> = others.iter().map(|other| array(other)).collect();
            match others.filter(|others| others.iter().all(|other| other.len() == items.len())) {
                None => hidden(),
                Some(others) => {
                    let at = |place: usize| -> Vec<&Val> {
                        std::iter::once(&items[place])
                            .chain(others.iter().map(|other| &other[place]))
                            .collect()
                    };
                    Val::Arr(
                        (0..items.len()).map(|place| merged_value(&at(place))).collect::<Vec<_>>().into(),
                    )
                }
            }
        }
        Val::TStr(_) if others.iter().all(|other| matches!(other, Val::TStr(_))) => {
            let text = |value: &&Val| match value {
                Val::TStr(text) => text_of(text),
                _ => String::new(),
            };
            Val::utf8_str(merged_text(&values.iter().map(text).collect::<Vec<_>>()))
        }
        _ if others.iter().all(|other| json::identical(first, other)) => (*first).clone(),
        _ => hidden(),
    }
}

fn object(value: &Val) -> Option<&Map<Val, Val>> {
    match value {
        Val::Obj(members) => Some(members),
        _ => None,
    }
}

fn array(value: &Val) -> Option<&Vec<Val>> {
    match value {
        Val::Arr(items) => Some(items),
        _ => None,
    }
}

/// Members that every copy has, in the order of the first; for all others together one member that says nothing.
fn merged_object(first: &Map<Val, Val>, others: &[&Map<Val, Val>]) -> Val {
    let mut shown = Map::default();
    for (name, value) in first {
        let found: Option<Vec<&Val>> = others.iter().map(|other| other.get(name)).collect();
        if let Some(found) = found {
            let all: Vec<&Val> = std::iter::once(value).chain(found).collect();
            shown.insert(name.clone(), merged_value(&all));
        }
    }
    if others.iter().any(|other| other.len() != shown.len()) || first.len() != shown.len() {
        let hidden = || Val::utf8_str(MASK.to_owned());
        shown.insert(hidden(), hidden());
    }
    Val::obj(shown)
}
