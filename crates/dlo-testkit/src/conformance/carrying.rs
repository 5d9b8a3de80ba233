//! A retry carries its story: headers that are given to `Again`, and where they stand afterwards.
//!
//! Where it is not declared, the message comes again as it was, and nothing is said of it to anybody.

use std::time::Duration;

use ::bytes::Bytes;
use dlo_core::broker::{Delivery, Settlement, Source};
use dlo_core::message::{Headers, Message};

use super::{Bench, Lab, settle, text_of};

const STORY: &str = "dlo-attempts";
const MORE: &str = "dlo-more";

/// A message that says something already.
fn told() -> Message {
    let mut message = Message { payload: "m".into(), ..Message::default() };
    message.headers.push_text("x-tenant", "acme");
    message.headers.push_text(STORY, "one");
    message
}

/// What the retry carries: something in place of what stands there, and something new.
fn story(bench: &Bench<'_>, attempts: &str) -> Headers {
    let mut story = Headers::new();
    story.push_text(STORY, attempts);
    let more: &[u8] = match bench.capabilities().headers.binary_values {
        true => b"\x00\xff{\"a\":\"\xc3\xbc\"}",
        false => "{\"a\":\"ü\\n, \\\\\"}".as_bytes(),
    };
    story.push(MORE, Some(Bytes::copy_from_slice(more)));
    story
}

async fn put_off(source: &dyn Source, delivery: Delivery, after: Duration, carry: Headers) {
    let (_, _, unsettled) = delivery.split();
    source.settler().settle(vec![unsettled.again(after, carry)]).await.expect("the broker is up");
}

/// The story stands there, once; and what does not belong to it is as it was.
fn expect(bench: &Bench<'_>, delivery: &Delivery, carried: &Headers) {
    let headers = &delivery.message.headers;
    assert_eq!(text_of(delivery), "m");
    assert_eq!(headers.text("x-tenant"), Some("acme"), "not part of the story");
    if !bench.capabilities().again_carries {
        assert_eq!(
            (headers.text(STORY), headers.last(MORE)),
            (Some("one"), None),
            "it carries, and says not"
        );
        return;
    }
    for header in carried.iter() {
        let there: Vec<_> = headers.iter().filter(|there| there.name == header.name).collect();
        assert_eq!(there.len(), 1, "`{}` stands there {} times", header.name, there.len());
        assert!(there[0].value == header.value, "`{}` came with another value", header.name);
    }
}

pub async fn what_is_carried_stands_on_the_next_delivery_in_place_of_what_stood_there(lab: &dyn Lab) {
    let bench = Bench::new(lab).await;
    let mut source = bench.join("g").await;
    bench.publish(vec![told()]).await;
    let mut held = bench.receive(&mut source, 1).await.remove(0);
    // The second time over what the first one left, and once without a wait.
    for (attempts, after) in [("two", bench.patience().delay), ("three", Duration::ZERO)] {
        let carried = story(&bench, attempts);
        put_off(&*source, held, after, carried.clone()).await;
        held = bench.receive(&mut source, 1).await.remove(0);
        expect(&bench, &held, &carried);
    }
    settle(&*source, vec![held], Settlement::Done).await;
    bench.expect_silence(&mut source).await;
}

pub async fn what_is_carried_reaches_the_next_consumer_as_well(lab: &dyn Lab) {
    let bench = Bench::new(lab).await;
    for after in [bench.patience().delay, Duration::ZERO] {
        let mut first = bench.join("g").await;
        bench.publish(vec![told()]).await;
        let held = bench.receive(&mut first, 1).await.remove(0);
        let carried = story(&bench, "two");
        put_off(&*first, held, after, carried.clone()).await;
        first.close().await.expect("closing works");
        let mut second = bench.join("g").await;
        let again = bench.receive(&mut second, 1).await;
        expect(&bench, &again[0], &carried);
        // Handed back without a word it still says what it said.
        second.close().await.expect("closing works");
        let mut third = bench.join("g").await;
        let again = bench.receive(&mut third, 1).await;
        expect(&bench, &again[0], &carried);
        settle(&*third, again, Settlement::Done).await;
        third.close().await.expect("closing works");
    }
}

pub async fn what_is_carried_is_for_its_own_group_only(lab: &dyn Lab) {
    let bench = Bench::new(lab).await;
    if !bench.capabilities().groups {
        return;
    }
    let (mut ours, mut others) = (bench.join("g").await, bench.join("h").await);
    bench.publish(vec![told()]).await;
    let held = bench.receive(&mut ours, 1).await.remove(0);
    put_off(&*ours, held, Duration::ZERO, story(&bench, "two")).await;
    let theirs = bench.receive(&mut others, 1).await;
    let headers = &theirs[0].message.headers;
    assert_eq!((headers.text(STORY), headers.last(MORE)), (Some("one"), None));
    settle(&*others, theirs, Settlement::Done).await;
    bench.expect_silence(&mut others).await;
}
