//! Which lines are written, and which are counted.

use std::sync::Mutex as StdMutex;

use tracing_subscriber::layer::SubscriberExt;

use super::*;

/// Collects the lines that pass.
#[derive(Clone, Default)]
struct Seen(Arc<StdMutex<Vec<String>>>);

impl<S: Subscriber> Layer<S> for Seen {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = Line::default();
        event.record(&mut line);
        self.0.lock().unwrap().push(format!("{} {}", line.message, line.fields).trim_end().to_owned());
    }
}

/// The lines that are written of what `work` logs, and the table behind them.
fn written(work: impl FnOnce()) -> (Vec<String>, Repeats) {
    let (seen, repeats) = (Seen::default(), Repeats::default());
    let subscriber = tracing_subscriber::registry().with(repeats.clone()).with(seen.clone());
    tracing::subscriber::with_default(subscriber, work);
    let lines = seen.0.lock().unwrap().clone();
    (lines, repeats)
}

#[test]
fn lines_that_differ_in_numbers_are_written_once_and_counted() {
    let (lines, repeats) = written(|| {
        for port in 1..=42 {
            tracing::warn!(source = "orders", lane = port, error = %format!("refused at 127.0.0.1:{port}"), "capture waits");
        }
    });
    assert_eq!(lines, ["capture waits source=orders lane=1 error=refused at 127.0.0.1:1"]);
    let now = Instant::now();
    assert_eq!(repeats.summaries(now, false), []);
    let due = repeats.summaries(now + WINDOW, false);
    assert_eq!((due.len(), due[0].repeated, due[0].seconds), (1, 41, 60));
    assert_eq!((due[0].level, due[0].message.as_str()), (Level::WARN, "capture waits"));
    assert!(due[0].last.contains("lane=42"), "{due:?}");
    assert_eq!(repeats.summaries(now + 2 * WINDOW, true), []);
}

#[test]
fn one_place_writes_a_few_lines_whatever_they_say() {
    let (lines, repeats) = written(|| {
        for word in ["amber", "brown", "coral", "denim", "ebony", "fawn"] {
            tracing::error!(source = word, "capture waits");
        }
    });
    assert_eq!(lines.len(), SHOWN as usize);
    assert_eq!(repeats.summaries(Instant::now(), true)[0].repeated, 6 - u64::from(SHOWN));
}

#[test]
fn sources_with_numbers_are_told_apart() {
    let (lines, _) = written(|| {
        for source in ["orders-1", "orders-2", "orders-1"] {
            tracing::warn!(source, "capture waits");
        }
    });
    assert_eq!(lines, ["capture waits source=orders-1", "capture waits source=orders-2"]);
}

#[test]
fn trouble_behind_a_recovery_is_written_again() {
    let waits = || tracing::warn!(source = "orders", "capture waits");
    let works = |source: &str| tracing::warn!(source, recovered = true, "capture works again");
    let (lines, _) = written(|| {
        waits();
        waits();
        works("payments");
        waits();
        works("orders");
        waits();
        waits();
        // A recovery that is repeated is counted too: what flaps is not written each time.
        works("orders");
        waits();
    });
    let expected = [
        "capture waits source=orders",
        "capture works again source=payments",
        "capture works again source=orders",
        "capture waits source=orders",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn lines_of_letters_and_what_debug_asks_for_are_never_counted() {
    let (lines, repeats) = written(|| {
        for _ in 0..10 {
            tracing::warn!(queue = "orders", "message.dead_lettered");
            tracing::debug!("a detail");
        }
    });
    assert_eq!(lines.len(), 20);
    assert_eq!(repeats.summaries(Instant::now(), true), []);
}

#[test]
fn what_was_quiet_for_a_while_is_written_again() {
    let line = || Line { message: "a rule waits".into(), ..Line::default() };
    let now = Instant::now();
    let mut place = Place::new(Level::WARN, &line(), now);
    assert!(place.admits(line(), now) && !place.admits(line(), now + QUIET / 2));
    assert!(!place.admits(line(), now + QUIET), "it was repeated meanwhile");
    assert!(place.admits(line(), now + 2 * QUIET));
}

#[test]
fn the_kinds_of_a_place_are_bounded() {
    let now = Instant::now();
    let mut place = Place::new(Level::WARN, &Line::default(), now);
    for at in 0..1_000_u32 {
        let word: String = at.to_string().chars().map(|c| char::from(b'a' + (c as u8 - b'0'))).collect();
        place.admits(Line { message: word, ..Line::default() }, now);
    }
    assert_eq!(place.kinds.len(), KINDS);
    assert_eq!(place.hidden, 1_000 - u64::from(SHOWN));
}

#[test]
fn an_error_of_the_store_is_one_cause_wherever_it_is_met() {
    let (lines, repeats) = written(|| {
        tracing::warn!(error = "the database did not answer: connection closed", "a rule waits");
        tracing::warn!(error = "the database did not answer: connection closed", "a replay waits");
        tracing::warn!(error = "the database did not answer: timed out", "capture waits");
        tracing::warn!(error = "the broker is out of reach", "capture waits");
    });
    assert_eq!(lines.len(), SHOWN as usize + 1);
    assert_eq!(repeats.summaries(Instant::now(), true).len(), 1);
}
