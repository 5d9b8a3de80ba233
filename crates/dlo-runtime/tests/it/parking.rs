//! Parking: the whole story, in the safe order, exactly what was received.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use dlo_brokers::memory::QueueOptions;
use dlo_core::broker::{Broker, Publisher};
use dlo_core::classify::Ruleset;
use dlo_core::envelope::{ReplayMark, mark_replayed};
use dlo_core::failure::Failure;
use dlo_core::message::Message;
use dlo_core::reason::Reason;
use dlo_core::verdict::VerdictKind;
use dlo_runtime::{Consumer, Event, Policy, Watch};
use dlo_testkit::clock::START;
use dlo_testkit::faults::{Fault, FaultyPublisher, Script, WeakSource};

use crate::shop::{Shop, body, calm, logged, order, out, story};

async fn no_tax(_: Message) -> Result<(), Failure> {
    Err(Failure::new("KeyError", "pin 560001 not in tax table"))
}

#[tokio::test(start_paused = true)]
async fn a_good_message_is_settled_and_nothing_is_parked() {
    let shop = Shop::open();
    shop.orders(["a", "b"]).await;
    let consumer = shop.consumer().handler(|_: Message| async { Ok::<(), Failure>(()) });
    shop.run_until(consumer, |seen| seen.handled() == 2).await;
    assert_eq!((shop.unsettled().await, shop.letters().await.len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn an_unknown_error_is_parked_at_its_first_failure_with_its_story() {
    let shop = Shop::open();
    shop.orders(["the order"]).await;
    let unknown = |_: Message| async { Err::<(), _>(Failure::new("PriceBookGap", "no page for 2026")) };
    let consumer = shop.consumer().consumer_id("pod-7").consumer_version("1.4.2").handler(unknown);
    shop.run_until(consumer, |seen| seen.parked() == 1).await;
    assert_eq!(shop.unsettled().await, 0);
    let letter = shop.letters().await.remove(0);
    assert_eq!((body(&letter), letter.key.clone()), ("the order".to_owned(), order("").key));
    assert_eq!(letter.headers.0[0], order("").headers.0[0], "original headers stay, and stay first");
    let story = story(&letter);
    assert_eq!((story.reason, story.attempts), (Some(Reason::ProcessingError), Some(1)));
    assert_eq!(story.rule.as_deref(), Some("default:unknown"));
    assert_eq!(story.error_class.as_deref(), Some("PriceBookGap"));
    assert_eq!(story.error_message.as_deref(), Some("no page for 2026"));
    assert_eq!(story.consumer_group.as_deref(), Some("pricing"));
    assert_eq!(
        (story.consumer_id.as_deref(), story.consumer_version.as_deref()),
        (Some("pod-7"), Some("1.4.2"))
    );
    let origin = story.origin.origin().unwrap();
    assert_eq!((&*origin.queue, origin.offset), ("orders", Some(0)));
    assert_eq!(story.death_id, Some(origin.death_id(Some("pricing"), 0)));
    assert!(story.dead_at.is_some_and(|at| at >= START) && story.first_failed_at.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_parse_error_is_never_mixed_up_with_a_failure_to_process() {
    let shop = Shop::open();
    shop.orders(["{not json"]).await;
    let parse = |_: Message| async { Err::<(), _>(Failure::new("JSONDecodeError", "expected value")) };
    shop.run_until(shop.consumer().handler(parse), |seen| seen.parked() == 1).await;
    assert_eq!(story(&shop.letters().await[0]).reason, Some(Reason::DeserializationError));
}

#[tokio::test(start_paused = true)]
async fn a_discard_leaves_a_record_that_says_so() {
    let shop = Shop::open();
    shop.orders(["telemetry"]).await;
    let refuse = |_: Message| async {
        Err::<(), _>(Failure { says: Some(VerdictKind::Discard), ..Failure::new("Stale", "too old") })
    };
    shop.run_until(shop.consumer().handler(refuse), |seen| seen.parked() == 1).await;
    let letter = shop.letters().await.remove(0);
    assert_eq!(story(&letter).verdict, Some(VerdictKind::Discard));
    assert_eq!((body(&letter), shop.unsettled().await), ("telemetry".to_owned(), 0));
}

#[tokio::test(start_paused = true)]
async fn running_over_time_is_a_failure_with_reason_timeout() {
    let shop = Shop::open();
    shop.orders(["slow"]).await;
    let mut policy = Policy { timeout: Duration::from_secs(3), ..calm() };
    policy.retry.attempts = std::num::NonZeroU32::MIN;
    let hang = |_: Message| std::future::pending::<Result<(), Failure>>();
    shop.run_until(shop.consumer().policy(policy).handler(hang), |seen| seen.parked() == 1).await;
    let letter = shop.letters().await.remove(0);
    assert_eq!(story(&letter).reason, Some(Reason::Timeout));
    assert!(story(&letter).error_message.is_some_and(|text| text.contains("3s")));
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_takes_nobody_with_it() {
    let shop = Shop::open();
    shop.orders(["bad", "good"]).await;
    let consumer = shop.consumer().handler(|order: Message| async move {
        assert_ne!(body(&order), "bad", "scripted");
        Ok::<(), Failure>(())
    });
    shop.run_until(consumer, |seen| seen.parked() == 1 && seen.handled() == 1).await;
    assert_eq!(story(&shop.letters().await[0]).error_class.as_deref(), Some("panic"));
}

/// Panics in the middle of the consumer's own work.
struct Defect;

impl Watch for Defect {
    fn saw(&self, event: &Event<'_>) {
        assert!(!matches!(event, Event::Handled { .. }), "a scripted defect");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_consumer_is_logged_with_its_queue_and_its_text() {
    let shop = Shop::open();
    shop.orders(["good"]).await;
    let consumer = shop.consumer().watch(Arc::new(Defect)).handler(|_| async { Ok::<(), Failure>(()) });
    shop.run_until(consumer, |_| logged().contains("consumer.defect")).await;
    let log = logged();
    let line = log.lines().find(|line| line.contains("consumer.defect")).unwrap();
    for said in ["\"queue\":\"orders\"", "\"consumer\":\"pricing\"", "a scripted defect"] {
        assert!(line.contains(said), "{said} is not in {line}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_teams_rule_decides_before_the_built_in_ones_and_is_named() {
    let shop = Shop::open();
    shop.orders(["a"]).await;
    let rules: Vec<dlo_core::classify::Rule> = serde_json::from_str(
        r#"[{"name":"no-tax-is-noise","when":{"class":"KeyError"},"verdict":"discard"}]"#,
    )
    .unwrap();
    let consumer = shop.consumer().rules(Ruleset::compile(rules).unwrap()).handler(no_tax);
    shop.run_until(consumer, |seen| seen.parked() == 1).await;
    let story = story(&shop.letters().await[0]);
    assert_eq!((story.rule.as_deref(), story.verdict), (Some("no-tax-is-noise"), Some(VerdictKind::Discard)));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_settled_while_its_copy_is_not_confirmed() {
    let shop = Shop::open();
    shop.orders(["a"]).await;
    let script = Script::of([Fault::Unreachable; 5]);
    let publisher = Arc::new(FaultyPublisher::new(Broker::publisher(&shop.broker), script.clone()));
    let open = Arc::new(Mutex::new(Vec::new()));
    let consumer = Consumer::builder(shop.source(), publisher)
        .group("pricing")
        .stateless()
        .policy(calm())
        .clock(shop.clock.clone())
        .watch(shop.seen.clone())
        .handler(no_tax);
    let watching = async {
        while !script.is_played() && shop.seen.parked() == 0 {
            let unsettled = shop.unsettled().await;
            open.lock().unwrap().push(unsettled);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::join!(watching, shop.run_until(consumer, |seen| seen.parked() == 1));
    assert!(open.lock().unwrap().len() > 10 && open.lock().unwrap().iter().all(|count| *count == 1));
    assert_eq!((shop.letters().await.len(), shop.unsettled().await), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_lost_confirm_makes_a_second_copy_with_the_same_death() {
    let shop = Shop::open();
    shop.orders(["a"]).await;
    let script = Script::of([Fault::ConfirmLost]);
    let publisher = Arc::new(FaultyPublisher::new(Broker::publisher(&shop.broker), script));
    let consumer = Consumer::builder(shop.source(), publisher)
        .group("pricing")
        .stateless()
        .policy(calm())
        .clock(shop.clock.clone())
        .watch(shop.seen.clone())
        .handler(no_tax);
    shop.run_until(consumer, |seen| seen.parked() == 1).await;
    let deaths: Vec<_> = shop.letters().await.iter().map(|letter| story(letter).death_id).collect();
    assert_eq!(deaths.len(), 2);
    assert_eq!(deaths[0], deaths[1]);
}

#[tokio::test(start_paused = true)]
async fn a_crash_between_parking_and_settling_makes_a_second_copy_with_the_same_death() {
    let shop = Shop::open();
    shop.orders(["a"]).await;
    let source = WeakSource::new(shop.source(), |_| {}, Script::of([Fault::Unreachable]));
    let consumer = shop.consumer_of(Box::new(source)).handler(no_tax);
    shop.run_until(consumer, |seen| seen.parked() == 1).await;
    assert_eq!(shop.unsettled().await, 1, "the settlement was lost");
    shop.run_until(shop.consumer().handler(no_tax), |seen| seen.parked() == 2).await;
    let deaths: Vec<_> = shop.letters().await.iter().map(|letter| story(letter).death_id).collect();
    assert_eq!((deaths.len(), deaths[0]), (2, deaths[1]));
    assert_eq!(shop.unsettled().await, 0);
}

#[tokio::test(start_paused = true)]
async fn while_the_dead_letter_queue_is_missing_the_message_stays_where_it_was() {
    let shop = Shop::open();
    shop.broker.delete("orders.dlq");
    shop.orders(["a"]).await;
    let not_written = |seen: &crate::shop::Seen| seen.story().contains(&"not written orders.dlq".to_owned());
    shop.run_until(shop.consumer().handler(no_tax), not_written).await;
    assert_eq!((shop.unsettled().await, shop.seen.parked()), (1, 0));
    shop.broker.declare("orders.dlq", QueueOptions::default());
    shop.run_until(shop.consumer().handler(no_tax), |seen| seen.parked() == 1).await;
    assert_eq!((shop.letters().await.len(), shop.unsettled().await), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_replay_that_is_meant_for_another_group_is_passed_by() {
    let shop = Shop::open();
    let mut replayed = order("a");
    let mark = ReplayMark {
        letter: None,
        replay_id: "r-1".to_owned(),
        count: 1,
        target_group: Some("mail".to_owned()),
    };
    mark_replayed(&mut replayed.headers, &mark);
    shop.broker.publish(vec![out(replayed)]).await.remove(0).unwrap();
    shop.run_until(shop.consumer().handler(no_tax), |seen| seen.story() == ["skipped"]).await;
    assert_eq!((shop.unsettled().await, shop.letters().await.len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn each_parking_is_one_log_line_without_payload_or_error_text() {
    let shop = Shop::open();
    shop.orders(["card 4111"]).await;
    shop.run_until(shop.consumer().handler(no_tax), |seen| seen.parked() == 1).await;
    let log = logged();
    let dead: Vec<&str> = log.lines().filter(|line| line.contains("message.dead_lettered")).collect();
    assert_eq!(dead.len(), 1, "{log}");
    let line: serde_json::Value = serde_json::from_str(dead[0]).unwrap();
    assert_eq!(line["fields"]["reason"], "processing_error");
    assert_eq!(line["fields"]["error_class"], "KeyError");
    assert_eq!(line["fields"]["event_type"], "order.placed");
    assert!(!log.contains("4111") && !log.contains("560001"), "{log}");
}

#[test]
fn a_consumer_without_handler_or_group_is_refused_with_directions() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _inside = runtime.enter();
    let shop = Shop::open();
    let refusal = shop.consumer().build().unwrap_err().to_string();
    assert!(refusal.contains(".handler("), "{refusal}");
    let refusal = shop.consumer().group("").handler(no_tax).build().unwrap_err().to_string();
    assert!(refusal.contains(".group("), "{refusal}");
    let refusal = shop.consumer().concurrency(0).handler(no_tax).build().unwrap_err().to_string();
    assert_eq!(refusal, "`concurrency`: expected 1 to 65536");
}
