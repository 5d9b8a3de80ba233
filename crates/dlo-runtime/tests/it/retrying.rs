//! Retrying: in place, then by the broker's means, counted, bounded, and in nobody's way.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dlo_core::attempt::Attempt;
use dlo_core::broker::{Capabilities, Source};
use dlo_core::budget::BudgetConfig;
use dlo_core::failure::Failure;
use dlo_core::message::Message;
use dlo_core::reason::Reason;
use dlo_core::time::Clock;
use dlo_runtime::{Context, Handler, Policy, Unhandled};
use dlo_testkit::faults::{Script, WeakSource};

use crate::shop::{Shop, body, calm, story, transient};

/// Fails so often, then succeeds; notes which attempt it was and when.
#[derive(Clone)]
struct FailsFirst {
    times: u32,
    tries: Arc<Mutex<Vec<(u32, Duration)>>>,
    began: tokio::time::Instant,
}

impl FailsFirst {
    fn new(times: u32) -> Self {
        Self { times, tries: Arc::default(), began: tokio::time::Instant::now() }
    }

    fn attempts(&self) -> Vec<u32> {
        self.tries.lock().unwrap().iter().map(|(attempt, _)| *attempt).collect()
    }
}

#[async_trait::async_trait]
impl Handler for FailsFirst {
    async fn handle(&self, _message: Message, context: &Context) -> Result<(), Unhandled> {
        let mut tries = self.tries.lock().unwrap();
        tries.push((context.attempt.number(), self.began.elapsed()));
        if tries.len() as u32 <= self.times { Err(transient().into()) } else { Ok(()) }
    }
}

#[tokio::test(start_paused = true)]
async fn a_transient_failure_is_tried_again_and_then_handled() {
    let shop = Shop::open();
    shop.orders(["a"]).await;
    let handler = FailsFirst::new(3);
    shop.run_until(shop.consumer().handler(handler.clone()), |seen| seen.handled() == 1).await;
    assert_eq!(handler.attempts(), [1, 2, 3, 4]);
    let gaps: Vec<u64> =
        handler.tries.lock().unwrap().windows(2).map(|w| (w[1].1 - w[0].1).as_secs()).collect();
    assert_eq!(gaps, [1, 1, 1]);
    assert_eq!((shop.unsettled().await, shop.letters().await.len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_message_that_keeps_failing_is_parked_after_its_attempts_with_all_of_them() {
    let shop = Shop::open();
    shop.orders(["a"]).await;
    let handler = FailsFirst::new(99);
    shop.run_until(shop.consumer().handler(handler.clone()), |seen| seen.parked() == 1).await;
    assert_eq!(handler.attempts(), [1, 2, 3, 4, 5]);
    let story = story(&shop.letters().await[0]);
    assert_eq!((story.reason, story.attempts), (Some(Reason::MaxRetriesExceeded), Some(5)));
    let history: Vec<_> = story.history.records().iter().map(|r| (r.number, r.delay_ms)).collect();
    assert_eq!(history, [(1, Some(1000)), (2, Some(1000)), (3, Some(1000)), (4, Some(1000)), (5, None)]);
    assert!(story.first_failed_at < story.last_failed_at);
    assert_eq!(shop.unsettled().await, 0);
}

/// One place only: the bad one leaves it while it waits for its time.
async fn others_go_on_while_one_waits(shop: Shop, source: Box<dyn Source>) {
    let order = Arc::new(Mutex::new(Vec::new()));
    let noted = order.clone();
    let first = Arc::new(AtomicU32::new(0));
    let consumer = shop.consumer_of(source).concurrency(1).handler(move |message: Message| {
        let (noted, first) = (noted.clone(), first.clone());
        async move {
            let slow = Failure { retry_after: Some(Duration::from_secs(20)), ..transient() };
            if body(&message) == "bad" && first.fetch_add(1, Ordering::SeqCst) == 0 {
                return Err(slow);
            }
            noted.lock().unwrap().push(body(&message));
            Ok(())
        }
    });
    shop.orders(["bad", "good 1", "good 2"]).await;
    let began = shop.clock.now();
    shop.run_until(consumer, |seen| seen.handled() == 3).await;
    assert_eq!(*order.lock().unwrap(), ["good 1", "good 2", "bad"]);
    assert!(shop.clock.now().since(began) >= Duration::from_secs(20));
    assert_eq!((shop.unsettled().await, shop.letters().await.len()), (0, 0));
}

fn weak(shop: &Shop, weaken: impl FnOnce(&mut Capabilities)) -> Box<dyn Source> {
    Box::new(WeakSource::new(shop.source(), weaken, Script::default()))
}

fn cannot_count(able: &mut Capabilities) {
    able.delivery_count = false;
    able.groups = false;
}

#[tokio::test(start_paused = true)]
async fn a_delayed_retry_holds_up_nobody_where_the_broker_delays() {
    let shop = Shop::open();
    let source = shop.source();
    others_go_on_while_one_waits(shop, source).await;
}

#[tokio::test(start_paused = true)]
async fn a_delayed_retry_holds_up_nobody_where_it_is_published_anew() {
    let shop = Shop::open();
    let source = weak(&shop, cannot_count);
    others_go_on_while_one_waits(shop, source).await;
}

#[tokio::test(start_paused = true)]
async fn a_delayed_retry_holds_up_nobody_where_the_broker_has_no_delays() {
    let shop = Shop::open();
    let source = weak(&shop, |able| able.delay = None);
    others_go_on_while_one_waits(shop, source).await;
}

#[tokio::test(start_paused = true)]
async fn a_message_published_anew_keeps_its_attempts_and_its_first_origin() {
    let shop = Shop::open();
    shop.orders(["a"]).await;
    let handler = FailsFirst::new(99);
    let source = weak(&shop, cannot_count);
    shop.run_until(shop.consumer_of(source).handler(handler.clone()), |seen| seen.parked() == 1).await;
    assert_eq!(handler.attempts(), [1, 2, 3, 4, 5]);
    let letter = shop.letters().await.remove(0);
    let story = story(&letter);
    assert_eq!((story.origin.offset, story.attempts), (Some(0), Some(5)));
    assert_eq!(story.history.records().len(), 5);
    assert_eq!(letter.headers.text("dlo-attempt"), None, "nothing of a hop stays on a letter");
    assert_eq!(shop.unsettled().await, 0);
}

#[tokio::test(start_paused = true)]
async fn attempts_survive_a_restart_of_the_consumer() {
    let shop = Shop::open();
    shop.orders(["a"]).await;
    let first = FailsFirst::new(99);
    // Attempt 1 and its quick retry, then it waits at the broker.
    shop.run_until(shop.consumer().handler(first.clone()), |seen| seen.retried.load(Ordering::SeqCst) == 2)
        .await;
    let second = FailsFirst::new(99);
    shop.run_until(shop.consumer().handler(second.clone()), |seen| seen.parked() == 1).await;
    assert_eq!(first.attempts(), [1, 2]);
    let again = second.attempts();
    assert!(again[0] >= 2 && again.ends_with(&[Attempt::FIRST.number() + 4]), "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn retries_shrink_to_a_share_of_the_traffic_when_everything_fails() {
    let shop = Shop::open();
    let bodies: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    shop.orders(bodies.iter().map(String::as_str)).await;
    let budget = BudgetConfig { share: 0.2, floor: 10, window: Duration::from_secs(10) };
    let calls = Arc::new(AtomicU32::new(0));
    let counted = calls.clone();
    let consumer =
        shop.consumer().policy(Policy { budget, ..calm() }).concurrency(200).handler(move |_: Message| {
            counted.fetch_add(1, Ordering::SeqCst);
            async { Err::<(), _>(transient()) }
        });
    let began = shop.clock.now();
    let clock = shop.clock.clone();
    shop.run_until(consumer, |_| clock.now().since(began) > Duration::from_secs(8)).await;
    assert_eq!(calls.load(Ordering::SeqCst), 120, "a hundred first tries earn twenty retries");
    assert_eq!(shop.letters().await.len(), 0, "waiting for the budget costs no attempt");
}
