//! Sends that are recorded one by one: what can be known of them when their confirmation was lost, by what is declared.
//!
//! A send id is the mark of a replay on the message. A crash is played by a second handle on the same broker that makes a
//! publisher of the same name, as the next process would.

use std::sync::Arc;

use ::bytes::Bytes;
use dlo_core::broker::{
    Broker, BrokerError, Confirmed, Destination, LostConfirm, Outgoing, PublishError, Publisher, Settlement,
};
use dlo_core::envelope::{ReplayMark, mark_replayed};
use dlo_core::message::{Message, Payload};

use super::{Bench, Lab, keyed, settle, sorted, text, texts};

/// A message with the id of a send.
pub(super) fn send(id: &str, message: Message) -> Message {
    let mut message = message;
    let mark = ReplayMark { letter: None, replay_id: id.to_owned(), count: 1, target_group: None };
    mark_replayed(&mut message.headers, &mark);
    message
}

/// Whether a send that is repeated at once is one message.
pub(super) fn deduplicates(declared: LostConfirm) -> bool {
    match declared {
        LostConfirm::SendAgain | LostConfirm::SendAgainInWindow => true,
        LostConfirm::ReadBack | LostConfirm::Unknown => false,
    }
}

async fn fenced(broker: &Arc<dyn Broker>, name: &str) -> Arc<dyn Publisher> {
    broker.fenced_publisher(name).await.expect("the broker is up")
}

async fn publish(
    bench: &Bench<'_>,
    publisher: &Arc<dyn Publisher>,
    messages: Vec<Message>,
) -> Vec<Result<Confirmed, PublishError>> {
    publisher.publish(messages.into_iter().map(|message| bench.outgoing(message)).collect()).await
}

async fn confirmed(bench: &Bench<'_>, publisher: &Arc<dyn Publisher>, messages: Vec<Message>) {
    for result in publish(bench, publisher, messages).await {
        result.expect("a good message is confirmed");
    }
}

pub async fn a_send_that_is_repeated_is_one_message_as_declared(lab: &dyn Lab) {
    let bench = Bench::new(lab).await;
    let (one, two, three) = (bench.group("send-1"), bench.group("send-2"), bench.group("send-3"));
    // Joined first: some brokers keep messages only for groups that are there.
    let mut source = bench.join("g").await;
    let first = fenced(&bench.broker, &bench.group("r")).await;
    confirmed(&bench, &first, vec![send(&one, keyed("k", "a")), send(&two, keyed("k", "b"))]).await;
    confirmed(&bench, &first, vec![send(&one, keyed("k", "a"))]).await;
    let other = lab.another().await;
    let second = fenced(&other, &bench.group("r")).await;
    let again = ["c", "c"].map(|body| send(&three, keyed("k", body)));
    confirmed(&bench, &second, [vec![send(&one, keyed("k", "a"))], again.to_vec()].concat()).await;
    let expected: &[&str] = match deduplicates(bench.capabilities().lost_confirm) {
        true => &["a", "b", "c"],
        false => &["a", "a", "a", "b", "c", "c"],
    };
    let came = bench.receive(&mut source, expected.len()).await;
    assert_eq!(sorted(texts(&came)), expected);
    bench.expect_silence(&mut source).await;
}

pub async fn a_fenced_publisher_adds_nothing_after_its_successor_was_made(lab: &dyn Lab) {
    let bench = Bench::new(lab).await;
    if bench.capabilities().lost_confirm != LostConfirm::ReadBack {
        return;
    }
    let name = bench.group("r");
    let before = bench.broker.ends(&bench.queue).await.expect("queues can be read back");
    let first = fenced(&bench.broker, &name).await;
    confirmed(&bench, &first, vec![send("1", keyed("k", "before"))]).await;
    let second = fenced(&lab.another().await, &name).await;
    for _ in 0..2 {
        let late =
            publish(&bench, &first, vec![send("2", keyed("k", "late")), send("3", text("later"))]).await;
        assert!(late.iter().all(|one| matches!(one, Err(PublishError::Fenced(_)))), "{late:?}");
    }
    confirmed(&bench, &second, vec![send("4", keyed("k", "after"))]).await;
    bench.expect_since(&before, &["after", "before"]).await;
    let mut source = bench.join("g").await;
    assert_eq!(sorted(texts(&bench.receive(&mut source, 2).await)), ["after", "before"]);
    bench.expect_silence(&mut source).await;
}

pub async fn what_is_published_since_the_ends_is_read_from_there(lab: &dyn Lab) {
    let bench = Bench::new(lab).await;
    let start = bench.broker.ends(&bench.queue).await;
    if !bench.capabilities().looking_is_free {
        assert!(matches!(&start, Err(BrokerError::Refused(_))), "{start:?}");
        return;
    }
    let publisher = fenced(&bench.broker, &bench.group("r")).await;
    let numbered = |from: usize| -> Vec<Message> {
        (from..from + 10)
            .map(|n| send(&format!("{n}"), keyed(&format!("k{}", n % 7), format!("{n:02}"))))
            .collect()
    };
    confirmed(&bench, &publisher, numbered(0)).await;
    // What is seen is before the ends; what was only confirmed may not be yet.
    let first = ["00", "01", "02", "03", "04", "05", "06", "07", "08", "09"];
    bench.expect_since(&start.expect("looking is free"), &first).await;
    let ends = bench.broker.ends(&bench.queue).await.expect("looking is free");
    assert_eq!(bench.read_since(&ends).await, Vec::<String>::new());
    confirmed(&bench, &publisher, numbered(10)).await;
    let second = ["10", "11", "12", "13", "14", "15", "16", "17", "18", "19"];
    bench.expect_since(&ends, &second).await;
}

pub async fn a_group_has_passed_what_it_settled_and_not_what_it_holds(lab: &dyn Lab) {
    let bench = Bench::new(lab).await;
    let group = bench.group("g");
    let passed = bench.broker.passed(&bench.queue, &group).await;
    if !bench.capabilities().offsets {
        assert!(matches!(&passed, Err(BrokerError::Refused(_))), "{passed:?}");
        return;
    }
    let mut source = bench.join("g").await;
    let places = bench.publish((0..4).map(|n| keyed("k", format!("{n}"))).collect()).await;
    let partition = places[0].partition.unwrap_or(0);
    let offset = |n: usize| places[n].offset.expect("declared");
    let next = async || {
        let passed = bench.broker.passed(&bench.queue, &group).await.expect("the broker is up");
        let of = passed.iter().find(|one| one.partition == partition);
        of.map_or(0, |one| one.next)
    };
    let mut held = bench.receive(&mut source, 4).await;
    assert!(next().await <= offset(0), "nothing was settled");
    let rest = held.split_off(2);
    settle(&*source, held, Settlement::Done).await;
    let after = next().await;
    assert!(after > offset(1) && after <= offset(2), "{after} between {} and {}", offset(1), offset(2));
    settle(&*source, rest, Settlement::Done).await;
    assert!(next().await > offset(3), "everything was settled");
}

pub async fn a_fenced_publisher_carries_byte_for_byte_what_a_publisher_does(lab: &dyn Lab) {
    let bench = Bench::new(lab).await;
    let bytes: Bytes = (0..=255).collect::<Vec<u8>>().into();
    let mut message = Message {
        key: Some(Payload(Bytes::from_static(b"k\x00\xff\xfe"))),
        payload: Payload(bytes.clone()),
        ..Message::default()
    };
    message.headers.push_text("x-place", "Zürich, 東京");
    if bench.capabilities().headers.binary_values {
        message.headers.push("b", Some(Bytes::from_static(b"\x00\xff\xfe\n")));
    }
    let mut source = bench.join("g").await;
    let publisher = fenced(&bench.broker, &bench.group("r")).await;
    bench.publish(vec![send(&bench.group("plain"), message.clone())]).await;
    confirmed(&bench, &publisher, vec![send(&bench.group("fence"), message)]).await;
    let mut came: Vec<Message> =
        bench.receive(&mut source, 2).await.into_iter().map(|delivery| delivery.message).collect();
    for message in &mut came {
        assert!(message.payload.0 == bytes, "the payload changed");
        *message = send("any", message.clone());
        // Facts of the transport are of the way it took: an id that the broker gave, a time.
        message.headers.0.retain(|header| {
            header.name.starts_with("x-") || header.name.starts_with("dlo-") || header.name == "b"
        });
    }
    assert_eq!(came[0], came[1]);
}

pub async fn what_a_fenced_publisher_refuses_does_no_harm_to_its_neighbours(lab: &dyn Lab) {
    let bench = Bench::new(lab).await;
    let mut source = bench.join("g").await;
    let publisher = fenced(&bench.broker, &bench.group("r")).await;
    let limit = bench.capabilities().max_message;
    let large = Message { payload: Payload(vec![7; limit + 1].into()), ..Message::default() };
    let nowhere =
        Outgoing { to: Destination::queue(lab.fresh_name()), ..bench.outgoing(send("2", text("lost"))) };
    let outgoing = vec![
        bench.outgoing(send("1", text("a"))),
        nowhere,
        bench.outgoing(send("3", large)),
        bench.outgoing(send("4", text("b"))),
    ];
    let results = publisher.publish(outgoing).await;
    assert!(results[0].is_ok() && results[1].is_err() && results[3].is_ok(), "{results:?}");
    assert!(matches!(results[2], Err(PublishError::TooLarge { .. })), "{:?}", results[2]);
    assert_eq!(sorted(texts(&bench.receive(&mut source, 2).await)), ["a", "b"]);
}
