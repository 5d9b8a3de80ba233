//! How soon another rate is kept: a replay goes at its rate, then at a fifth of it, then at its rate again, while it runs.
//!
//! The clock runs from the asking, the API's own time included, until the first second that holds as many as the new rate asks, two
//! percent more or less, one message where that is less. A second that still has some of the old rate in it does not.

use std::time::Duration;

use dlo_core::time::Timestamp;

use crate::Asked;
use crate::arrivals::{Watch, least_in_a_second, most_in_a_second, now, within};
use crate::office::Office;
use crate::place::{DEAD, Place, QUEUE};
use crate::record::Parts;

/// How long it is left at one rate.
const STAGE: Duration = Duration::from_secs(5);
/// How much slower it is told to go in between.
const SLOWER: u64 = 5;
/// Seconds are looked at that begin so far apart.
const GRAIN: Duration = Duration::from_millis(10);
const SECOND: Duration = Duration::from_secs(1);

pub(crate) async fn one(asked: Asked<'_>, kind: &str, place: &Place, rate: u64, taken: &mut Parts<'static>) {
    let office = Office::start(asked.scratch, &place.section, QUEUE, DEAD);
    // More than are sent: what has run out keeps no rate.
    let letters = rate * STAGE.as_secs() * 3;
    let id = tokio::task::block_in_place(|| {
        office.fill(letters);
        office.plan(&format!("\"rate\":{rate}"), letters)
    });
    let watch = Watch::begin(kind, place).await;
    let (slower, faster, end) = tokio::task::block_in_place(|| {
        office.steer(&id, "start");
        std::thread::sleep(STAGE);
        let slower = now();
        office.pace(&id, rate / SLOWER);
        std::thread::sleep(STAGE);
        let faster = now();
        office.pace(&id, rate);
        std::thread::sleep(STAGE);
        let end = now();
        office.steer(&id, "pause");
        (slower, faster, end)
    });
    let arrivals = watch.end().await;
    let sent = tokio::task::block_in_place(|| office.sent(&id));
    assert_eq!(arrivals.len() as u64, sent, "{kind} at {rate}/s, changed: arrived, and recorded as sent");
    for (from, to, asked, until) in
        [(rate, rate / SLOWER, slower, faster), (rate / SLOWER, rate, faster, end)]
    {
        let took = obeyed(&arrivals, to, asked, until);
        // A rate that is not held at all, on a machine too busy for it, was not obeyed either: its mean tells which it is.
        let kept = took < until.since(asked);
        let mean = mean(&arrivals, if kept { asked.plus(took) } else { asked }, until);
        let words = if kept { "from then on" } else { "and never kept" };
        println!("  {kind} from {from}/s to {to}/s: {mean:.2}/s {words}");
        taken.part(&format!("{kind} from {from}/s to {to}/s: until it is kept"), took.as_secs_f64());
    }
}

/// From the asking to the first second that is as the new rate asks; the whole stage where there is none.
fn obeyed(arrivals: &[Timestamp], rate: u64, asked: Timestamp, until: Timestamp) -> Duration {
    let right = least_in_a_second(rate)..=most_in_a_second(rate);
    let stage = until.since(asked);
    let mut after = Duration::ZERO;
    while after + SECOND <= stage {
        if right.contains(&within(arrivals, asked.plus(after), SECOND)) {
            return after;
        }
        after += GRAIN;
    }
    stage
}

/// The mean rate of a part of a stage.
fn mean(arrivals: &[Timestamp], from: Timestamp, until: Timestamp) -> f64 {
    let span = until.since(from);
    within(arrivals, from, span) as f64 / span.as_secs_f64()
}
