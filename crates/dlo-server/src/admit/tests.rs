//! What admission fills in, refuses and mends.

use dlo_core::message::Payload;
use dlo_core::origin::BrokerKind;

use super::*;

pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// The letter that this item becomes.
pub(crate) fn admitted(item: &str) -> NewLetter {
    let bytes = bytes::Bytes::copy_from_slice(item.as_bytes());
    let draft = crate::ingest::item::parse(&bytes, 0..bytes.len()).unwrap();
    Admission::new(Owners::default()).admit(draft, Manner::Refuse, UNKEYED, NOW).unwrap()
}

const UNKEYED: Dedupe = Dedupe::ByOrigin { otherwise: None };

fn draft() -> Draft {
    Draft::new("orders".into(), Origin::queue(BrokerKind::Http, "orders"), Message::default())
}

fn admit(draft: Draft, manner: Manner) -> Result<NewLetter, Refusal> {
    Admission::new(Owners::default()).admit(draft, manner, UNKEYED, NOW)
}

#[test]
fn what_is_left_open_gets_its_default() {
    let letter = admit(draft(), Manner::Refuse).unwrap();
    assert_eq!((letter.failed_at, letter.attempts), (NOW, 1));
    assert_eq!((letter.reason, letter.verdict), (Reason::ProcessingError, VerdictKind::DeadLetter));
    assert_eq!((letter.status, letter.dedupe), (Status::Open, None));
}

#[test]
fn a_reason_that_is_left_open_follows_from_what_is_known_of_the_error() {
    let of = |class: &str| Draft { error_class: Some(class.into()), ..draft() };
    let reason = |draft: Draft| admit(draft, Manner::Refuse).unwrap().reason;
    assert_eq!(reason(of("JSONDecodeError")), Reason::DeserializationError);
    assert_eq!(reason(of("TaxTableError")), Reason::ProcessingError);
    // A timeout is retried elsewhere; that it was parked does not say why.
    assert_eq!(reason(of("TimeoutError")), Reason::ProcessingError);
    assert_eq!(reason(Draft { reason: Some(Reason::Rejected), ..of("JSONDecodeError") }), Reason::Rejected);
}

#[test]
fn what_the_runtime_discarded_is_kept_as_discarded() {
    let letter = admit(Draft { verdict: Some(VerdictKind::Discard), ..draft() }, Manner::Refuse).unwrap();
    assert_eq!(letter.status, Status::Discarded);
}

#[test]
fn a_name_that_is_too_long_is_refused_over_http_and_cut_from_a_queue() {
    let long = Draft { consumer: Some("x".repeat(300)), ..draft() };
    let refusal = admit(long.clone(), Manner::Refuse).unwrap_err();
    assert_eq!((refusal.code, refusal.field.as_deref()), ("too_long", Some("consumer")));
    assert_eq!(admit(long, Manner::Mend).unwrap().consumer.unwrap().len(), limits::NAME);
}

#[test]
fn error_text_is_cut_and_never_refused_for_its_length() {
    let letter = admit(Draft { error_message: "x".repeat(10_000), ..draft() }, Manner::Refuse).unwrap();
    assert_eq!(letter.error_message.len(), limits::ERROR_MESSAGE);
}

#[test]
fn times_beyond_the_calendar_are_refused_over_http_and_left_out_from_a_queue() {
    for (time, code) in [(-1, "time_out_of_range"), (4_000_000_000_000, "time_in_future")] {
        let wrong = Draft { failed_at: Some(Timestamp::from_millis(time)), ..draft() };
        let refusal = admit(wrong.clone(), Manner::Refuse).unwrap_err();
        assert_eq!((refusal.code, refusal.field.as_deref()), (code, Some("failed_at")));
        assert_eq!(admit(wrong, Manner::Mend).unwrap().failed_at, NOW);
    }
}

#[test]
fn a_nul_character_is_refused_over_http_and_replaced_from_a_queue() {
    let nul = Draft { error_message: "a\0b".into(), ..draft() };
    assert_eq!(admit(nul.clone(), Manner::Refuse).unwrap_err().code, "nul_character");
    assert_eq!(admit(nul, Manner::Mend).unwrap().error_message, "a\u{fffd}b");
}

#[test]
fn a_replayed_message_names_the_letter_it_was() {
    let mut returned = draft();
    returned.message.headers.push_text("X-Replayed-From-DLQ", "01890a5d-ac96-774b-bcce-b302099a8057");
    returned.message.headers.push_text("dlo-replay-id", "r-1");
    let letter = admit(returned, Manner::Refuse).unwrap();
    assert_eq!(letter.replay_of.unwrap().to_string(), "01890a5d-ac96-774b-bcce-b302099a8057");
    assert_eq!(letter.replay_id.as_deref(), Some("r-1"));
}

#[test]
fn a_header_bomb_is_refused_over_http_and_kept_from_a_queue() {
    let mut bomb = draft();
    for n in 0..=limits::HEADERS {
        bomb.message.headers.push_text(format!("h{n}"), "x");
    }
    assert_eq!(admit(bomb.clone(), Manner::Refuse).unwrap_err().code, "too_large");
    assert_eq!(admit(bomb, Manner::Mend).unwrap().message.headers.len(), limits::HEADERS + 1);
    let mut large = draft();
    large.message.payload = Payload::from(vec![0; limits::PAYLOAD + 1]);
    assert_eq!(admit(large, Manner::Refuse).unwrap_err().code, "too_large");
}

#[test]
fn a_pointer_is_no_copy_of_its_whole_letter() {
    let mut whole = draft();
    whole.message.headers.push_text("dlo-version", "1");
    whole.message.headers.push_text("dlo-death-id", "01890a5d-ac96-774b-bcce-b302099a8057");
    whole.message.headers.push_text("dlo-redelivered", "true");
    let mut pointer = whole.clone();
    dlo_core::envelope::point_elsewhere(&mut pointer.message.headers, "1.json", 7);
    assert!(admit(whole, Manner::Refuse).unwrap().death.unwrap().redelivered);
    assert_eq!(admit(pointer, Manner::Mend).unwrap().death, None);
}

#[test]
fn an_idempotency_key_counts_only_without_coordinates() {
    let admission = Admission::new(Owners::default());
    let key = DedupeKey::idempotent("orders", "k", 3);
    let by_origin = Dedupe::ByOrigin { otherwise: Some(key.clone()) };
    let with_key = |draft| admission.admit(draft, Manner::Refuse, by_origin.clone(), NOW).unwrap().dedupe;
    assert_eq!(with_key(draft()), Some(key.clone()));
    let origin = Origin::log(BrokerKind::Http, "orders", 17, 42);
    let expected = origin.dedupe_key("orders", None, None);
    assert_eq!(with_key(Draft { origin, ..draft() }), expected);
}
