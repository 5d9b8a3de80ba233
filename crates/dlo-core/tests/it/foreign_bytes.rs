//! Bytes from outside never panic: whatever a broker, a file or a person hands in is understood or refused.
//! The same questions are asked for longer by the targets in `fuzz/`.

use bytes::Bytes;
use dlo_core::envelope;
use dlo_core::message::{Headers, Message};
use dlo_core::time::Timestamp;
use dlo_core::units::{ByteSize, HumanDuration};
use dlo_core::words;
use proptest::prelude::*;

/// Header names as we write them, as others do, and as nobody does.
fn any_name() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "dlo-version",
        "dlo-death-id",
        "dlo-reason",
        "dlo-attempts",
        "dlo-attempt",
        "dlo-attempt-history",
        "dlo-truncated",
        "dlo-dead-at",
        "dlo-first-failed-at",
        "dlo-origin-broker",
        "dlo-origin-queue",
        "dlo-origin-partition",
        "dlo-origin-offset",
        "dlo-replay-id",
        "dlo-replay-count",
        "x-replayed-from-dlq",
    ]);
    prop_oneof![4 => known.prop_map(String::from), 1 => "\\PC{0,12}"]
}

fn any_value() -> impl Strategy<Value = Option<Bytes>> {
    let text = prop::sample::select(vec![
        "1",
        "-1",
        "kafka",
        "timeout",
        "[]",
        "[{}]",
        "2026-11-01",
        "99999999999999999999",
    ]);
    prop::option::of(prop_oneof![
        text.prop_map(|text| Bytes::from_static(text.as_bytes())),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(Bytes::from),
    ])
}

fn any_headers() -> impl Strategy<Value = Headers> {
    prop::collection::vec((any_name(), any_value()), 0..12).prop_map(|pairs| {
        let mut headers = Headers::new();
        headers.push_text("dlo-version", "1");
        pairs.into_iter().for_each(|(name, value)| headers.push(name, value));
        headers
    })
}

proptest! {
    #[test]
    fn any_headers_are_decoded_and_what_was_decoded_round_trips(headers in any_headers()) {
        let _ = envelope::decode_hop(&headers);
        let _ = envelope::replay_mark(&headers);
        if let Some(found) = envelope::decode(&headers) {
            let written = envelope::encode(&Message::default(), &found, 1 << 20).unwrap();
            prop_assert_eq!(envelope::decode(&written.headers), Some(found));
        }
    }

    #[test]
    fn any_text_is_a_time_or_none(text in prop_oneof!["(?s).{0,40}", "[0-9TZ:+. -]{0,40}"]) {
        if let Ok(time) = Timestamp::parse(&text) {
            prop_assert_eq!(Timestamp::parse(&time.to_string()), Ok(time));
        }
    }

    #[test]
    fn any_text_is_a_duration_and_a_size_or_none(text in prop_oneof!["(?s).{0,20}", "[0-9.]{0,25}[a-zA-Z]{0,3}"]) {
        let _ = text.parse::<HumanDuration>();
        let _ = text.parse::<ByteSize>();
    }

    #[test]
    fn any_payload_is_searched(payload in prop::collection::vec(any::<u8>(), 0..200), phrase in "\\PC{0,12}") {
        let folded = words::fold(&phrase);
        let _ = words::contains(&words::scanned(&payload), &folded);
        let _ = words::payload_has(&payload, &[folded], "x");
    }

    #[test]
    fn plain_text_is_folded_as_it_is_beside_other_text(text in "[ -~\\t\\n]{0,40}") {
        let (alone, beside) = (words::fold(&text), words::fold(&format!("{text} ü")));
        prop_assert_eq!(alone.as_str(), beside.trim_end_matches('ü').trim_end());
    }

    #[test]
    fn a_text_has_every_gram_that_is_wanted_of_a_part_of_it(
        text in prop_oneof!["\\PC{0,24}", "[a-c12 -]{0,24}"], from in 0_usize..24, length in 0_usize..24,
    ) {
        let part: String = text.chars().skip(from).take(length).collect();
        let (whole, part) = (words::fold(&text), words::fold(&part));
        prop_assert!(part.is_empty() || words::contains(&text, &part));
        let grams: Vec<&str> = words::grams(&whole).collect();
        for wanted in words::wanted(&part) {
            let found = match &wanted {
                words::Wanted::Gram(gram) => grams.contains(gram),
                words::Wanted::Beginning(start) => grams.iter().any(|gram| gram.starts_with(start)),
            };
            prop_assert!(found, "{:?} of {:?} in {:?}", wanted, part, whole);
        }
    }
}
