//! Letters with their payloads, a bounded number of bytes at a time, and what a change makes of them.

use dlo_core::id::LetterId;
use dlo_core::letter::Letter;
use dlo_core::message::{Message, Payload};
use dlo_store::{AS_CAPTURED, Deed, StoreError};

use super::Change;
use crate::api::error::Answer;
use crate::office::Office;
use crate::repair::{Facts, Mended, Repaired, Subject};

/// Letters in hand at once.
pub(super) const AT_ONCE: usize = 200;
/// Bytes of payloads after which no further one is taken in hand.
const IN_HAND: usize = 16 * 1024 * 1024;

/// A letter as it was captured.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) letter: Letter,
    pub(super) message: Message,
    id: String,
}

impl Opened {
    fn subject(&self) -> Subject<'_> {
        let letter = &self.letter;
        let facts = Facts {
            id: &self.id,
            source: &letter.source,
            event_type: letter.event_type.as_deref(),
            error_class: letter.error_class.as_deref(),
            consumer: letter.consumer.as_deref(),
        };
        Subject { message: &self.message, facts }
    }

    /// Whether its producer calls it JSON.
    fn is_json(&self) -> bool {
        self.letter.content_type.as_deref().is_some_and(|kind| kind.to_ascii_lowercase().contains("json"))
    }
}

/// The first letters of `ids`, as many as are taken in hand, and how many of the ids that were.
#[derive(Debug, Default)]
pub(super) struct Hand {
    pub(super) letters: Vec<Opened>,
    pub(super) missing: u64,
    pub(super) taken: usize,
}

/// Opens letters; `looks` is who gets to see their payloads, for the audit log.
pub(super) async fn open(office: &Office, ids: &[LetterId], looks: Option<&Deed>) -> Answer<Hand> {
    let mut hand = Hand::default();
    let mut bytes = 0;
    for id in ids.iter().take(AT_ONCE) {
        match one(office, *id, looks).await {
            Ok(opened) => {
                bytes += opened.message.payload.0.len();
                hand.letters.push(opened);
            }
            Err(StoreError::NoLetter(_)) => hand.missing += 1,
            Err(error) => return Err(error.into()),
        }
        hand.taken += 1;
        if bytes > IN_HAND {
            break;
        }
    }
    Ok(hand)
}

pub(super) async fn one(office: &Office, id: LetterId, looks: Option<&Deed>) -> Result<Opened, StoreError> {
    let detail = office.store.letter(id).await?;
    let now = office.now();
    let payload = office.store.payload(id, looks.map(|deed| (deed, now))).await?;
    let message = Message {
        key: detail.letter.key.clone().map(Payload::from),
        headers: detail.headers,
        payload: Payload(payload.bytes),
    };
    Ok(Opened { letter: detail.letter, message, id: id.to_string() })
}

/// What the change makes of each letter, in their order.
pub(super) async fn mend(
    office: &Office,
    change: &Change,
    letters: &[Opened],
) -> Answer<Vec<Result<Mended, String>>> {
    let subjects: Vec<Subject<'_>> = letters.iter().map(Opened::subject).collect();
    match change {
        // It says "as it was captured" of any payload, also of one that no expression can read.
        Change::Expression(expression) if expression.trim() == AS_CAPTURED => {
            Ok(letters.iter().map(|_| Ok(Mended { repaired: Repaired::Same, schema: false })).collect())
        }
        Change::Expression(expression) => Ok(office.repairs.apply(expression, &subjects).await?),
        Change::Payload(payload) => {
            let edited = letters
                .iter()
                .map(|opened| office.repairs.edit(&opened.subject(), payload.clone(), opened.is_json()));
            Ok(edited.collect())
        }
    }
}
