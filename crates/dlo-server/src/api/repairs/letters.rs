//! Letters with their payloads, a bounded number of bytes at a time, and what a change makes of them.

use std::sync::Arc;

use dlo_core::id::LetterId;
use dlo_core::letter::Letter;
use dlo_core::message::{Message, Payload};
use dlo_core::redact::{MASK, Redactor};
use dlo_store::{AS_CAPTURED, Deed, StoreError};

use super::Change;
use crate::api::error::Answer;
use crate::office::Office;
use crate::repair::{Facts, Masking, Mended, Outlook, Repaired, Subject};

/// Letters in hand at once.
pub(super) const AT_ONCE: usize = 200;
/// Bytes of payloads after which no further one is taken in hand.
const IN_HAND: usize = 16 * 1024 * 1024;

/// A letter as it was captured.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(super) letter: Letter,
    pub(super) message: Message,
    id: String,
}

impl Opened {
    /// The masking rules, if they hide a part of what an expression sees.
    pub(super) fn masking(&self, office: &Office) -> Option<Arc<Redactor>> {
        let rules = office.mask.rules()?;
        let letter = &self.letter;
        let known = [&letter.event_type, &letter.error_class, &letter.consumer];
        let hides = known.into_iter().flatten().any(|text| rules.hides_text(text));
        if hides { Some(rules) } else { office.mask.hides_a_part_of(&self.message) }
    }

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

pub(crate) async fn one(office: &Office, id: LetterId, looks: Option<&Deed>) -> Result<Opened, StoreError> {
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

/// What may be said of the change to each letter with masked parts, in their order; `None` for the other letters.
pub(super) async fn outlooks(
    office: &Office,
    change: &Change,
    letters: &[Opened],
) -> Answer<Vec<Option<Outlook>>> {
    let rules: Vec<Option<Arc<Redactor>>> = letters.iter().map(|opened| opened.masking(office)).collect();
    let with_rules =
        || letters.iter().zip(&rules).filter_map(|(opened, rules)| Some((opened, rules.as_ref()?)));
    let outlooks: Vec<Outlook> = match change {
        Change::Payload(payload) => with_rules().map(|(opened, _)| edited(office, opened, payload)).collect(),
        Change::Expression(expression) if expression.trim() == AS_CAPTURED => {
            with_rules().map(|_| Outlook::Same).collect()
        }
        Change::Expression(expression) => {
            let masked: Vec<Masking<'_>> = with_rules()
                .map(|(opened, rules)| Masking { subject: opened.subject(), rules: Arc::clone(rules) })
                .collect();
            if masked.is_empty() { Vec::new() } else { office.repairs.outlook(expression, &masked).await? }
        }
    };
    let mut outlooks = outlooks.into_iter();
    Ok(rules.iter().map(|rules| rules.as_ref().and_then(|_| outlooks.next())).collect())
}

/// A payload that was edited as a whole. That it is equal to the stored one is not said: it would confirm a guess.
fn edited(office: &Office, opened: &Opened, payload: &[u8]) -> Outlook {
    if String::from_utf8_lossy(payload).contains(MASK) {
        return Outlook::Failed(format!(
            "the new payload has `{MASK}`, which is shown in the place of a masked value and would replace it; use an expression"
        ));
    }
    match office.repairs.edit(&opened.subject(), payload.to_vec(), opened.is_json(), true) {
        Err(why) => Outlook::Failed(why),
        Ok(mended) => {
            let mut after = mended.repaired.or(&opened.message);
            office.mask.message(&mut after);
            Outlook::Changed { after, schema: mended.schema }
        }
    }
}

/// Said where the real values fail and the copies do not.
const FAILED_HIDDEN: &str = "it fails with the masked values of this letter";

/// What is stored for each letter, or would be, in their order. A letter with masked parts is repaired where the change may
/// be said to change it, so that the answer tells nothing of what is masked. A dry run leaves the real values alone.
pub(super) async fn mend_as_told(
    office: &Office,
    change: &Change,
    letters: &[Opened],
    dry_run: bool,
) -> Answer<Vec<Result<Mended, String>>> {
    let outlooks = outlooks(office, change, letters).await?;
    let runs = |outlook: &Option<Outlook>| match outlook {
        None => true,
        Some(Outlook::Changed { .. }) => !dry_run,
        Some(Outlook::Same | Outlook::Failed(_)) => false,
    };
    let run: Vec<&Opened> = letters
        .iter()
        .zip(&outlooks)
        .filter(|(_, outlook)| runs(outlook))
        .map(|(opened, _)| opened)
        .collect();
    let mut mended = mend(office, change, &run).await?.into_iter();
    let mut told = Vec::with_capacity(letters.len());
    for (opened, outlook) in letters.iter().zip(outlooks) {
        let real = if runs(&outlook) { mended.next() } else { None };
        let whole = |schema| Mended { repaired: Repaired::Changed(opened.message.clone()), schema };
        told.push(match (outlook, real) {
            (None, Some(mended)) => mended,
            (None, None) | (Some(Outlook::Changed { .. }), Some(Err(_))) => Err(FAILED_HIDDEN.to_owned()),
            (Some(Outlook::Failed(why)), _) => Err(why),
            (Some(Outlook::Same), _) => Ok(Mended { repaired: Repaired::Same, schema: false }),
            (Some(Outlook::Changed { .. }), Some(Ok(mended))) if mended.repaired != Repaired::Same => {
                Ok(mended)
            }
            (Some(Outlook::Changed { schema, .. }), _) => Ok(whole(schema)),
        });
    }
    Ok(told)
}

/// The result of the change for the real message of each letter, in their order.
pub(super) async fn mend(
    office: &Office,
    change: &Change,
    letters: &[&Opened],
) -> Answer<Vec<Result<Mended, String>>> {
    let subjects: Vec<Subject<'_>> = letters.iter().map(|opened| opened.subject()).collect();
    match change {
        // It says "as it was captured" of any payload, also of one that no expression can read.
        Change::Expression(expression) if expression.trim() == AS_CAPTURED => {
            Ok(letters.iter().map(|_| Ok(Mended { repaired: Repaired::Same, schema: false })).collect())
        }
        Change::Expression(expression) => Ok(office.repairs.apply(expression, &subjects).await?),
        Change::Payload(payload) => {
            let edited = letters.iter().map(|opened| {
                let is_masked = opened.masking(office).is_some();
                office.repairs.edit(&opened.subject(), payload.clone(), opened.is_json(), is_masked)
            });
            Ok(edited.collect())
        }
    }
}
