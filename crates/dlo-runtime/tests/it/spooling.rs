//! When the dead-letter queue cannot be written: backoff, disk, pause; nothing is settled meanwhile, and order stays.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use dlo_brokers::memory::QueueOptions;
use dlo_core::broker::{Broker, Capabilities, Confirmed, Outgoing, PublishError, Publisher};
use dlo_core::envelope::body_elsewhere;
use dlo_core::failure::Failure;
use dlo_core::message::Message;
use dlo_core::units::ByteSize;
use dlo_runtime::{Behind, ConsumerBuilder, ConsumerConfig, Kept, LargeLetter, LargeLetters, OrderBy};

use crate::shop::{Begun, Seen, Shop, body, calm};

async fn odd_fail(order: Message) -> Result<(), Failure> {
    let number: u32 = body(&order).parse().unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    if number.is_multiple_of(5) { Err(Failure::new("KeyError", "pin 560001")) } else { Ok(()) }
}

fn consumer(shop: &Shop, state: &tempfile::TempDir, spool: u64) -> ConsumerBuilder {
    configured(shop, config(state, spool))
}

fn config(state: &tempfile::TempDir, spool: u64) -> ConsumerConfig {
    ConsumerConfig {
        group: "pricing".to_owned(),
        state: Some(state.path().to_owned()),
        spool: ByteSize(spool),
        concurrency: 16,
        prefetch: Some(16),
        ..ConsumerConfig::default()
    }
}

fn configured(shop: &Shop, config: ConsumerConfig) -> ConsumerBuilder {
    written_by(shop, Broker::publisher(&shop.broker), config)
}

fn written_by(shop: &Shop, publisher: Arc<dyn Publisher>, config: ConsumerConfig) -> ConsumerBuilder {
    dlo_runtime::Consumer::builder(shop.source(), publisher)
        .config(config)
        .policy(calm())
        .clock(shop.clock.clone())
        .watch(shop.seen.clone())
        .handler(odd_fail)
}

async fn orders(shop: &Shop, count: usize) {
    let orders: Vec<String> = (0..count).map(|n| n.to_string()).collect();
    shop.orders(orders.iter().map(String::as_str)).await;
}

fn spooled(seen: &Seen) -> bool {
    seen.story().contains(&"spooled".to_owned())
}

#[tokio::test(start_paused = true)]
async fn of_the_only_instance_letters_wait_on_disk_in_order_while_good_messages_of_their_key_flow() {
    let (shop, state) = (Shop::open(), tempfile::tempdir().unwrap());
    shop.broker.delete("orders.dlq");
    orders(&shop, 200).await;
    // All orders have one key: they are parked in their order, or it would be by chance.
    let alone = ConsumerConfig { alone: true, ..config(&state, 1 << 20) };
    let ordered = configured(&shop, alone).order(OrderBy::Key, Behind::Wait);
    let begun = shop.consumer_begun(ordered);
    crate::shop::wait_for(|| shop.seen.handled() == 160 && spooled(&shop.seen)).await;
    assert_eq!((shop.seen.parked(), shop.unsettled().await), (0, 40), "nothing is settled meanwhile");
    shop.broker.declare("orders.dlq", QueueOptions::default());
    crate::shop::wait_for(|| shop.seen.parked() == 40).await;
    begun.stop().await;
    let parked: Vec<u32> = shop.letters().await.iter().map(|letter| body(letter).parse().unwrap()).collect();
    assert!(parked.is_sorted() && parked.len() == 40, "{parked:?}");
    assert_eq!(shop.unsettled().await, 0);
    assert!(shop.seen.story().contains(&"spool empty".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn where_another_instance_may_get_it_a_key_waits_until_its_letter_is_in_the_queue() {
    let (shop, state) = (Shop::open(), tempfile::tempdir().unwrap());
    shop.broker.delete("orders.dlq");
    orders(&shop, 7).await;
    let begun = shop.consumer_begun(consumer(&shop, &state, 1 << 20).order(OrderBy::Key, Behind::Wait));
    crate::shop::wait_for(|| spooled(&shop.seen)).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(shop.seen.handled(), 0, "the first order of the key is on our disk only");
    shop.broker.declare("orders.dlq", QueueOptions::default());
    crate::shop::wait_for(|| shop.seen.parked() == 2 && shop.seen.handled() == 5).await;
    begun.stop().await;
    assert_eq!(shop.unsettled().await, 0);
}

/// A queue that is away, and then takes less than its client knows: no batch with the letter of order 0, and not it alone.
#[derive(Debug)]
struct Lowered {
    inner: Arc<dyn Publisher>,
    is_away: AtomicBool,
    is_lowered: AtomicBool,
    calls: AtomicU32,
}

#[async_trait::async_trait]
impl Publisher for Lowered {
    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    async fn publish(&self, messages: Vec<Outgoing>) -> Vec<Result<Confirmed, PublishError>> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let refuse = |error: &dyn Fn() -> PublishError| messages.iter().map(|_| Err(error())).collect();
        if self.is_away.load(Ordering::SeqCst) {
            return refuse(&|| PublishError::NotSent("away".to_owned()));
        }
        let is_large = messages.iter().any(|outgoing| body(&outgoing.message) == "0");
        if is_large && self.is_lowered.load(Ordering::SeqCst) {
            return refuse(&|| PublishError::TooLarge { size: 2_000, limit: 1_000 });
        }
        self.inner.publish(messages).await
    }
}

/// Four letters on disk, the first of them larger than its queue takes from now on.
async fn with_a_lowered_queue(
    shop: &Shop,
    state: &tempfile::TempDir,
    large: Option<Kept>,
) -> (Arc<Lowered>, Begun) {
    let publisher = Arc::new(Lowered {
        inner: Broker::publisher(&shop.broker),
        is_away: AtomicBool::new(true),
        is_lowered: AtomicBool::new(true),
        calls: AtomicU32::new(0),
    });
    orders(shop, 20).await;
    let mut consumer = written_by(shop, publisher.clone(), config(state, 1 << 20));
    if let Some(kept) = large {
        consumer = consumer.large_letters(Arc::new(Place(kept)));
    }
    let begun = shop.consumer_begun(consumer);
    crate::shop::wait_for(|| shop.seen.handled() == 16 && spooled(&shop.seen)).await;
    publisher.is_away.store(false, Ordering::SeqCst);
    (publisher, begun)
}

/// Keeps large letters where it says.
struct Place(Kept);

#[async_trait::async_trait]
impl LargeLetters for Place {
    async fn keep(&self, letter: LargeLetter<'_>) -> Result<Kept, String> {
        assert_eq!((body(letter.message).as_str(), letter.envelope.attempts), ("0", Some(1)));
        assert!(!letter.message.headers.iter().any(|header| header.name == "dlo-error-class"), "twice");
        Ok(self.0.clone())
    }
}

#[tokio::test(start_paused = true)]
async fn a_letter_on_disk_that_nobody_takes_is_tried_after_pauses_and_others_flow() {
    let (shop, state) = (Shop::open(), tempfile::tempdir().unwrap());
    let (publisher, begun) = with_a_lowered_queue(&shop, &state, None).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(shop.letters().await.len(), 3);
    let before = publisher.calls.load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(120)).await;
    let calls = publisher.calls.load(Ordering::SeqCst) - before;
    assert!((1..20).contains(&calls), "{calls} tries in two minutes");
    publisher.is_lowered.store(false, Ordering::SeqCst);
    crate::shop::wait_for(|| shop.seen.parked() == 4).await;
    begun.stop().await;
    assert_eq!((shop.letters().await.len(), shop.unsettled().await), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_letter_on_disk_that_its_queue_finds_too_large_goes_to_the_office() {
    let (shop, state) = (Shop::open(), tempfile::tempdir().unwrap());
    let (_, begun) = with_a_lowered_queue(&shop, &state, Some(Kept::InOffice)).await;
    crate::shop::wait_for(|| shop.seen.parked() == 4).await;
    begun.stop().await;
    assert_eq!((shop.letters().await.len(), shop.unsettled().await), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn a_letter_on_disk_that_its_queue_finds_too_large_leaves_a_pointer_there() {
    let (shop, state) = (Shop::open(), tempfile::tempdir().unwrap());
    let kept = Kept::OnDisk("0.json".to_owned());
    let (_, begun) = with_a_lowered_queue(&shop, &state, Some(kept)).await;
    crate::shop::wait_for(|| shop.seen.parked() == 4).await;
    begun.stop().await;
    let letters = shop.letters().await;
    let pointers = letters.iter().filter(|letter| body_elsewhere(&letter.headers) == Some(1)).count();
    assert_eq!((letters.len(), pointers, shop.unsettled().await), (4, 1, 0));
}

/// An office that takes its time.
struct SlowOffice;

#[async_trait::async_trait]
impl LargeLetters for SlowOffice {
    async fn keep(&self, _letter: LargeLetter<'_>) -> Result<Kept, String> {
        tokio::time::sleep(Duration::from_secs(5)).await;
        Ok(Kept::InOffice)
    }
}

/// A large order and five small ones that are to be parked, while their dead-letter queue is away.
async fn with_a_large_order(shop: &Shop) -> Begun {
    shop.broker.delete("orders.dlq");
    let limit = Broker::publisher(&shop.broker).capabilities().max_message;
    let large = "x".repeat(limit - 200);
    shop.orders(["1", "2", &large, "3", "4", "5"]).await;
    let fail = |_: Message| async { Err::<(), _>(Failure::new("KeyError", "pin 560001")) };
    shop.consumer_begun(shop.consumer().large_letters(Arc::new(SlowOffice)).handler(fail))
}

#[tokio::test(start_paused = true)]
async fn a_large_letter_in_the_office_is_settled_while_the_queue_of_the_others_cannot_be_written() {
    let shop = Shop::open();
    let begun = with_a_large_order(&shop).await;
    crate::shop::wait_for(|| shop.seen.parked() == 1).await;
    begun.stop().await;
    assert_eq!((shop.seen.parked(), shop.unsettled().await), (1, 5));
}

#[tokio::test(start_paused = true)]
async fn a_large_letter_that_is_on_its_way_to_the_office_at_the_end_is_settled() {
    let shop = Shop::open();
    let begun = with_a_large_order(&shop).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(shop.seen.parked(), 0);
    begun.stop().await;
    assert_eq!((shop.seen.parked(), shop.unsettled().await), (1, 5));
}

#[tokio::test(start_paused = true)]
async fn when_the_disk_is_full_the_consumer_pauses_and_nothing_is_lost() {
    let (shop, state) = (Shop::open(), tempfile::tempdir().unwrap());
    shop.broker.delete("orders.dlq");
    orders(&shop, 1_000).await;
    let begun = shop.consumer_begun(consumer(&shop, &state, 8 * 1024));
    crate::shop::wait_for(|| spooled(&shop.seen)).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    let handled = shop.seen.handled();
    assert!(handled < 800, "it went on: {handled}");
    assert!(begun.controls.under_way().spooled > 0);
    shop.broker.declare("orders.dlq", QueueOptions::default());
    crate::shop::wait_for(|| shop.seen.parked() == 200 && shop.seen.handled() == 800).await;
    begun.stop().await;
    assert_eq!(shop.unsettled().await, 0);
}

#[tokio::test(start_paused = true)]
async fn what_an_earlier_life_left_on_disk_goes_first_and_its_original_is_not_handled_again() {
    let (shop, state) = (Shop::open(), tempfile::tempdir().unwrap());
    shop.broker.delete("orders.dlq");
    orders(&shop, 20).await;
    let begun = shop.consumer_begun(consumer(&shop, &state, 1 << 20));
    crate::shop::wait_for(|| shop.seen.handled() == 16 && spooled(&shop.seen)).await;
    begun.stop().await;
    assert_eq!(shop.unsettled().await, 4);
    shop.broker.declare("orders.dlq", QueueOptions::default());
    let again = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let counted = again.clone();
    let second = consumer(&shop, &state, 1 << 20).handler(move |_: Message| {
        counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        async { Ok::<(), Failure>(()) }
    });
    let begun = shop.consumer_begun(second);
    crate::shop::wait_for(|| shop.seen.parked() == 4).await;
    for _ in 0..1_000 {
        if shop.unsettled().await == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    begun.stop().await;
    assert_eq!((shop.letters().await.len(), shop.unsettled().await), (4, 0));
    assert_eq!(again.load(std::sync::atomic::Ordering::SeqCst), 0, "decided once");
}
