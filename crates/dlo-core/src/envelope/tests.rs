//! Our headers: every story comes back as it was told, and whatever the limit, it fits or is refused.

use bytes::Bytes;
use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::attempt::{Attempt, AttemptRecord};
use crate::id::LetterId;
use crate::limits;
use crate::message::{Headers, Message, Payload};
use crate::verdict::VerdictKind;

const ROOMY: usize = 1 << 20;

fn order() -> Message {
    let mut headers = Headers::new();
    headers.push_text("x-tenant", "acme");
    headers.push("x-flag", None);
    headers.push_text("x-tenant", "again");
    Message { key: Some(Payload::from("C-441")), headers, payload: Payload::from("{\"order\":7}") }
}

fn records(count: u32) -> History {
    History::from_records((1..=count).map(|number| AttemptRecord {
        number,
        at: Timestamp::from_millis(i64::from(number) * 1_000),
        error_class: Some("KeyError".into()),
        message: Some("pin 560001 not in tax table".into()),
        verdict: Some(VerdictKind::Retry),
        delay_ms: Some(200),
    }))
}

fn story() -> Envelope {
    Envelope {
        reason: Some(Reason::MaxRetriesExceeded),
        error_class: Some("KeyError".into()),
        error_message: Some("m".repeat(500)),
        error_stack: Some("s".repeat(2_000)),
        attempts: Some(5),
        history: records(5),
        origin: OriginHeaders::new(&Origin::log(BrokerKind::Kafka, "orders", 17, 42), None),
        ..Envelope::default()
    }
}

#[test]
fn the_story_stands_behind_the_original_and_the_payload_is_unwrapped() {
    let original = order();
    let dead = encode(&original, &story(), ROOMY).unwrap();
    assert_eq!((&dead.payload, &dead.key), (&original.payload, &original.key));
    assert_eq!(dead.headers.0[..3], original.headers.0[..]);
    assert_eq!(dead.headers.text("dlo-version"), Some("1"));
    assert_eq!(dead.headers.text("dlo-truncated"), None);
    assert_eq!(decode(&dead.headers), Some(story()));
}

#[test]
fn only_a_message_that_its_broker_does_not_name_is_given_the_mark_of_its_death() {
    let id = Some(crate::id::DeathId(Uuid::from_u128(7)));
    let named = Envelope { death_id: id, redelivered: true, ..story() };
    let mut headers = order().headers;
    mark_death(&mut headers, &named);
    assert_eq!(headers, order().headers);
    let unnamed = Envelope { origin: OriginHeaders { offset: None, ..named.origin.clone() }, ..named };
    for redelivered in [true, false] {
        mark_death(&mut headers, &Envelope { redelivered, ..unnamed.clone() });
        let mark = death_mark(&headers).unwrap();
        assert_eq!((Some(mark.id), mark.redelivered), (id, redelivered));
    }
    strip_for_replay(&mut headers);
    assert_eq!(headers, order().headers);
}

#[test]
fn the_stack_is_cut_first_then_the_message_then_the_history() {
    let full = size(&encode(&order(), &story(), ROOMY).unwrap());
    let cut_to = |limit| decode(&encode(&order(), &story(), limit).unwrap().headers).unwrap();

    let no_stack = cut_to(full - 1_000);
    assert_eq!(no_stack.truncated, [Part::Stack]);
    assert!(no_stack.error_stack.is_some_and(|stack| (900..1_000).contains(&stack.len())));
    assert_eq!(no_stack.error_message.map(|message| message.len()), Some(500));

    let short_message = cut_to(full - 2_300);
    assert_eq!(short_message.truncated, [Part::Stack, Part::Message]);
    assert_eq!(short_message.error_stack, None);
    assert!(short_message.error_message.is_some());
    assert_eq!(short_message.history, story().history);

    let short_history = cut_to(full - 2_700);
    assert_eq!(short_history.truncated, [Part::Stack, Part::Message, Part::History]);
    assert_eq!(short_history.error_message, None);
    let numbers: Vec<u32> = short_history.history.records().iter().map(|record| record.number).collect();
    assert_eq!((numbers.first(), numbers.last()), (Some(&1), Some(&5)));
    assert!(numbers.len() < 5);
    assert_eq!((short_history.reason, short_history.attempts), (story().reason, story().attempts));
}

#[test]
fn a_body_that_is_too_large_by_itself_is_reported() {
    let large = Message { payload: Payload::from(vec![0_u8; 5_000]), ..order() };
    let refusal = encode(&large, &story(), 4_000).unwrap_err();
    assert!(refusal.size > 5_000 && refusal.limit == 4_000);
    assert!(refusal.to_string().contains("nothing left to cut, the broker takes 4000"), "{refusal}");
    let hop = RetryHop {
        due: Some(Timestamp::from_millis(1_793_534_400_000)),
        attempt: Attempt::FIRST,
        redelivered: false,
        first_failed_at: None,
        history: records(3),
        origin: OriginHeaders::default(),
    };
    assert!(encode_hop(&large, &hop, 4_000).is_err());
}

#[test]
fn overlong_texts_are_cut_to_their_limits_and_said_so() {
    let endless = Envelope {
        error_class: Some("C".repeat(1_000)),
        error_message: Some("é".repeat(limits::ERROR_MESSAGE)),
        error_stack: Some("s".repeat(limits::ERROR_STACK * 2)),
        ..Envelope::default()
    };
    let read = decode(&encode(&order(), &endless, ROOMY).unwrap().headers).unwrap();
    assert_eq!(read.truncated, [Part::Stack, Part::Message]);
    assert_eq!(read.error_class.map(|class| class.len()), Some(limits::NAME));
    assert_eq!(read.error_message.map(|message| message.len()), Some(limits::ERROR_MESSAGE));
    assert_eq!(read.error_stack.map(|stack| stack.len()), Some(limits::ERROR_STACK));
}

#[test]
fn a_retry_hop_carries_its_attempts_and_nothing_of_a_death() {
    let hop = RetryHop {
        due: Some(Timestamp::from_millis(1_793_534_400_000)),
        attempt: Attempt::FIRST.next(),
        redelivered: true,
        first_failed_at: Some(Timestamp::from_millis(1_000)),
        history: records(1),
        origin: story().origin,
    };
    let dead = encode(&order(), &story(), ROOMY).unwrap();
    let hopping = encode_hop(&dead, &hop, ROOMY).unwrap();
    let names: Vec<&str> = hopping.headers.iter().map(|header| header.name.as_str()).collect();
    let expected = [
        "x-tenant",
        "x-flag",
        "x-tenant",
        "dlo-attempt",
        "dlo-redelivered",
        "dlo-due",
        "dlo-first-failed-at",
        "dlo-attempt-history",
        "dlo-origin-broker",
        "dlo-origin-queue",
        "dlo-origin-partition",
        "dlo-origin-offset",
    ];
    assert_eq!(names, expected);
    assert_eq!(decode_hop(&hopping.headers), Some(hop));
    assert_eq!(decode(&hopping.headers), None);
    assert_eq!(decode_hop(&encode(&hopping, &story(), ROOMY).unwrap().headers), None);
}

#[test]
fn a_new_death_replaces_the_old_story_and_keeps_the_mark_of_the_replay() {
    let mark = ReplayMark {
        letter: Some(LetterId::new(Timestamp::from_millis(5), [7; 10])),
        replay_id: "r-1/7".into(),
        count: 2,
        target_group: Some("pricing".into()),
    };
    let mut replayed = encode(&order(), &story(), ROOMY).unwrap();
    strip_for_replay(&mut replayed.headers);
    assert_eq!(replayed, order());
    mark_replayed(&mut replayed.headers, &ReplayMark { count: 1, ..mark.clone() });
    mark_replayed(&mut replayed.headers, &mark);

    let again = Envelope { reason: Some(Reason::Timeout), ..Envelope::default() };
    let dead = encode(&encode(&replayed, &story(), ROOMY).unwrap(), &again, ROOMY).unwrap();
    assert_eq!(decode(&dead.headers), Some(again));
    assert_eq!(replay_mark(&dead.headers), Some(mark));
}

fn text(max: usize) -> impl Strategy<Value = Option<String>> {
    prop::option::of(
        prop::collection::vec(any::<char>(), 1..max).prop_map(|chars| chars.into_iter().collect()),
    )
}

fn moment() -> impl Strategy<Value = Option<Timestamp>> {
    prop::option::of((0..4_000_000_000_000_000_i64).prop_map(Timestamp::from_micros))
}

fn history() -> impl Strategy<Value = History> {
    let record = (any::<u32>(), moment(), text(20), any::<Option<u64>>());
    prop::collection::vec(record, 0..6).prop_map(|records| {
        History::from_records(records.into_iter().map(|(number, at, message, delay_ms)| AttemptRecord {
            number,
            at: at.unwrap_or_default(),
            error_class: None,
            message,
            verdict: Some(VerdictKind::Retry),
            delay_ms,
        }))
    })
}

fn origin() -> impl Strategy<Value = OriginHeaders> {
    let broker = prop::option::of(prop::sample::select(BrokerKind::ALL));
    (broker, (text(40), text(40)), any::<Option<i32>>(), any::<Option<i64>>(), text(40), moment()).prop_map(
        |(broker, (queue, incarnation), partition, offset, message_id, timestamp)| OriginHeaders {
            broker,
            queue,
            incarnation,
            partition,
            offset,
            message_id,
            timestamp,
        },
    )
}

fn envelope() -> impl Strategy<Value = Envelope> {
    let reason = prop::option::of(prop::sample::select(Reason::ALL));
    let error = (text(40), text(400), text(900), text(40));
    let counts = (any::<Option<u32>>(), history(), any::<Option<u128>>());
    (reason, error, counts, (moment(), moment(), moment()), origin(), (text(40), text(40), text(40)))
        .prop_map(|(reason, error, (attempts, history, id), times, origin, consumer)| Envelope {
            death_id: id.map(|id| DeathId(Uuid::from_u128(id))),
            redelivered: id.is_some_and(|id| id % 2 == 1),
            reason,
            verdict: reason.map(|_| VerdictKind::Discard),
            rule: error.0.clone(),
            error_class: error.0,
            error_message: error.1,
            error_stack: error.2,
            error_code: error.3,
            attempts,
            history,
            first_failed_at: times.0,
            last_failed_at: times.1,
            dead_at: times.2,
            origin,
            consumer_group: consumer.0,
            consumer_id: consumer.1,
            consumer_version: consumer.2,
            truncated: Vec::new(),
        })
}

proptest! {
    #[test]
    fn every_story_comes_back_as_it_was_told(story in envelope()) {
        let dead = encode(&order(), &story, ROOMY).unwrap();
        prop_assert_eq!(decode(&dead.headers), Some(story));
        prop_assert_eq!(&dead.headers.0[..3], &order().headers.0[..]);
    }

    #[test]
    fn whatever_the_limit_it_fits_or_is_refused(story in envelope(), limit in 0..8_000_usize) {
        match encode(&order(), &story, limit) {
            Ok(dead) => {
                prop_assert!(size(&dead) <= limit);
                prop_assert_eq!(dead.payload, order().payload);
                let read = decode(&dead.headers).unwrap();
                prop_assert!(!read.truncated.contains(&Part::Message) || read.error_stack.is_none());
                prop_assert!(!read.truncated.contains(&Part::History) || read.error_message.is_none());
            }
            Err(refusal) => prop_assert!(refusal.size > limit),
        }
    }

    #[test]
    fn no_headers_make_reading_fail(
        values in prop::collection::vec((0..30_usize, prop::option::of(prop::collection::vec(any::<u8>(), 0..40))), 0..60),
    ) {
        let known: Vec<&str> = [names::OF_A_FAILURE, names::OF_A_REPLAY, &["x-other", ""]].concat();
        let mut headers = Headers::new();
        headers.push_text(names::DLO_VERSION, "1");
        for (name, value) in values {
            headers.push(known[name % known.len()], value.map(Bytes::from));
        }
        let _ = (decode(&headers), decode_hop(&headers), replay_mark(&headers));
        let message = Message { headers: headers.clone(), ..Message::default() };
        let _ = encode(&message, &Envelope::default(), ROOMY);
        strip_for_replay(&mut headers);
        prop_assert!(headers.iter().all(|header| !names::is_one_of(&header.name, names::OF_A_FAILURE)));
    }
}
