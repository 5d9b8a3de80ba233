//! Overload: a dependency that can take only so much. The retry budget keeps what it is asked near the traffic; retries
//! without one multiply it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use dlo_core::brake::BrakeMode;
use dlo_core::budget::BudgetConfig;
use dlo_core::failure::Failure;
use dlo_core::message::Message;
use dlo_core::policy::{Backoff, RetryPolicy};
use dlo_core::verdict::VerdictKind;
use dlo_runtime::Policy;
use tokio_util::sync::CancellationToken;

use super::{Line, number, order, redis};

const OFFERED: u64 = 200;
const SECONDS: u64 = 24;
/// Between these seconds the dependency takes a tenth of what is offered.
const WEAK: std::ops::Range<u64> = 4..24;

/// What a dependency was asked in one second, and how much of that for the first time.
#[derive(Debug, Clone, Copy, Default)]
struct Load {
    asked: u64,
    fresh: u64,
}

/// A dependency: counts what it is asked in each second, and refuses what it cannot take.
struct Dependency {
    began: Instant,
    seen: Mutex<(HashSet<u64>, Vec<Load>)>,
}

impl Dependency {
    fn ask(&self, order: u64) -> bool {
        let second = self.began.elapsed().as_secs();
        let mut seen = self.seen.lock().unwrap();
        let (orders, loads) = &mut *seen;
        let Some(load) = loads.get_mut(second as usize) else { return true };
        load.fresh += u64::from(orders.insert(order));
        load.asked += 1;
        !WEAK.contains(&second) || load.asked <= OFFERED / 10
    }
}

fn policy(budget: BudgetConfig) -> Policy {
    let mut policy = Policy {
        retry: RetryPolicy {
            backoff: Backoff::Fixed,
            base: Duration::from_millis(300),
            quick: 4,
            ..RetryPolicy::default()
        },
        budget,
        ..Policy::default()
    };
    // Alone on the stage: neither breaker nor brake step in.
    policy.breaker.in_a_row = u32::MAX;
    policy.breaker.least = u32::MAX;
    policy.brake.mode = BrakeMode::Off;
    policy
}

/// The load on the dependency in each second.
async fn curve(name: &str, budget: BudgetConfig) -> Vec<Load> {
    let line = Arc::new(Line::open(redis().await, name, None).await);
    let dependency = Arc::new(Dependency {
        began: Instant::now(),
        seen: Mutex::new((HashSet::new(), vec![Load::default(); SECONDS as usize])),
    });
    let shop = line.clone();
    let selling = tokio::spawn(async move {
        let mut tick = tokio::time::interval(Duration::from_millis(100));
        for batch in 0..SECONDS * 10 {
            tick.tick().await;
            let first = batch * OFFERED / 10;
            shop.publish((first..first + OFFERED / 10).map(|n| order(n, &format!("C-{n}")))).await;
        }
    });
    let asked = dependency.clone();
    let consumer =
        line.consumer().await.policy(policy(budget)).concurrency(4_096).handler(move |message: Message| {
            let served = asked.ask(number(&message));
            async move {
                let busy =
                    Failure { says: Some(VerdictKind::Retry), ..Failure::new("Busy", "too many requests") };
                if served { Ok(()) } else { Err(busy) }
            }
        });
    let stop = CancellationToken::new();
    let running = tokio::spawn(consumer.build().unwrap().run(stop.clone().cancelled_owned()));
    selling.await.unwrap();
    stop.cancel();
    running.await.unwrap().unwrap();
    dependency.seen.lock().unwrap().1.clone()
}

/// Eight heights for 0 to 5 times what is offered.
fn drawn(curve: &[Load]) -> String {
    let bars: Vec<char> = "▁▂▃▄▅▆▇█".chars().collect();
    let height = |load: &Load| load.asked as f64 / OFFERED as f64 / 5.0 * 8.0;
    curve.iter().map(|load| bars[(height(load) as usize).min(7)]).collect()
}

/// How often a message was asked for. Against what came in the same seconds: a seller that stood still sells twice as fast
/// after that.
fn times(loads: &[Load]) -> f64 {
    let (asked, fresh) = loads.iter().fold((0, 0), |sum, one| (sum.0 + one.asked, sum.1 + one.fresh));
    asked as f64 / fresh.max(1) as f64
}

/// While the dependency was weak, once retries had begun.
fn weak(curve: &[Load]) -> &[Load] {
    &curve[WEAK.start as usize + 2..WEAK.end as usize - 1]
}

fn load(curve: &[Load]) -> f64 {
    times(weak(curve))
}

/// The worst stretch of five seconds: single ones jump.
fn worst(curve: &[Load]) -> f64 {
    weak(curve).windows(5).map(times).fold(0.0, f64::max)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_budget_keeps_an_overloaded_dependency_near_its_traffic_where_naive_retries_multiply_it() {
    let generous = BudgetConfig { share: 1.0, floor: u32::MAX, window: Duration::from_secs(10) };
    let curves = [
        ("budget", curve("overload", BudgetConfig::default()).await),
        ("naive", curve("overload-naive", generous).await),
    ];
    for (name, curve) in &curves {
        let (drawn, load, worst) = (drawn(curve), load(curve), worst(curve));
        eprintln!("{name:>7} {drawn} {load:.2}x of the traffic, {worst:.2}x in the worst five seconds");
    }
    assert!(load(&curves[0].1) < 1.25, "with a budget: {:?}", curves[0]);
    assert!(load(&curves[1].1) > 3.5, "without one: {:?}", curves[1]);
}
