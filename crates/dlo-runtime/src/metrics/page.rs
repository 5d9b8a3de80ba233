//! The page itself, in the words of Prometheus' exposition format.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dlo_core::breaker::State;

use super::MOST_SERIES;
use super::histogram::{ENDS, Histogram};
use super::tally::{Seldom, Tally};
use crate::controls::{Controls, UnderWay};

#[derive(Debug, Default)]
pub(super) struct Page {
    text: String,
    name: &'static str,
}

impl Page {
    pub(super) fn of(consumers: &[Arc<Tally>]) -> String {
        let mut page = Self::default();
        let mut counter = |name, help, of: fn(&Tally) -> &AtomicU64| {
            page.family(name, "counter", help);
            for tally in consumers {
                page.sample(tally, &[], of(tally).load(Ordering::Relaxed) as f64);
            }
        };
        let attempts = "Messages given to the handler, retries included.";
        counter("dlo_consumer_attempts_total", attempts, |tally| &tally.attempts);
        counter("dlo_consumer_handled_total", "Messages that were handled.", |tally| &tally.handled);
        let skipped = "Replayed messages that were meant for another group.";
        counter("dlo_consumer_skipped_total", skipped, |tally| &tally.skipped);
        let not_written = "Letters and retries that the broker did not take at once.";
        counter("dlo_consumer_not_written_total", not_written, |tally| &tally.not_written);
        let away = "Times the broker did not answer.";
        counter("dlo_consumer_broker_away_total", away, |tally| &tally.broker_away);
        let refused = "Retries that waited because the budget was spent.";
        counter("dlo_consumer_retries_refused_total", refused, |tally| &tally.over_budget);
        let lost = "Messages with which the handler went away.";
        counter("dlo_consumer_lost_total", lost, |tally| &tally.lost);
        page.asked(consumers);
        page.family("dlo_consumer_in_flight", "gauge", "Messages in the handler now.");
        for tally in consumers {
            page.sample(tally, &[], tally.in_flight.load(Ordering::Relaxed) as f64);
        }
        page.failures(consumers);
        page.histogram("dlo_consumer_handler_seconds", "Time that the handler took.", consumers, |tally| {
            &tally.handling
        });
        let waiting = "Time from a message's arrival to its handler.";
        page.histogram("dlo_consumer_wait_seconds", waiting, consumers, |tally| &tally.waiting);
        page.name = "dlo_build_info";
        let version = env!("CARGO_PKG_VERSION");
        let _ = write!(
            page.text,
            "# HELP dlo_build_info The version that runs.\n# TYPE dlo_build_info gauge\ndlo_build_info{{version=\"{version}\"}} 1\n"
        );
        page.text
    }

    /// What the consumers know at this moment, of those that run.
    fn asked(&mut self, consumers: &[Arc<Tally>]) {
        let running: Vec<(&Tally, Controls)> =
            consumers.iter().filter_map(|tally| Some((&**tally, tally.controls()?))).collect();
        let mut gauge = |name, help, of: fn(UnderWay) -> usize| {
            self.family(name, "gauge", help);
            for (tally, controls) in &running {
                self.sample(tally, &[], of(controls.under_way()) as f64);
            }
        };
        gauge("dlo_consumer_unsettled", "Messages received, and the broker not told.", |now| now.unsettled);
        gauge("dlo_consumer_held", "Of those, waiting here for a retry or for judgement.", |now| now.held);
        let lanes = "Of those, waiting for the one before them in their lane.";
        gauge("dlo_consumer_lane_depth", lanes, |now| now.in_lanes);
        gauge("dlo_consumer_spooled", "Letters that wait on disk.", |now| now.spooled);
        self.family(
            "dlo_consumer_breaker_open",
            "gauge",
            "Whether the breaker of a dependency is not closed.",
        );
        for (tally, controls) in &running {
            for (dependency, state) in controls.breakers().into_iter().take(MOST_SERIES) {
                let open = f64::from(u8::from(state != State::Closed));
                self.sample(tally, &[("dependency", dependency.as_str())], open);
            }
        }
    }

    fn failures(&mut self, consumers: &[Arc<Tally>]) {
        let seldom: Vec<(&Tally, Seldom)> =
            consumers.iter().map(|tally| (&**tally, tally.seldom().clone())).collect();
        self.family("dlo_consumer_verdicts_total", "counter", "Failures by verdict, rule and error class.");
        for (tally, counted) in &seldom {
            for ((verdict, rule, class), count) in &counted.verdicts {
                let labels =
                    [("verdict", verdict.as_str()), ("rule", rule.as_str()), ("class", class.as_str())];
                self.sample(tally, &labels, *count as f64);
            }
        }
        self.family("dlo_consumer_retries_total", "counter", "Retries, in place and delayed.");
        for (tally, counted) in &seldom {
            self.sample(tally, &[("stage", "quick")], counted.quick as f64);
            self.sample(tally, &[("stage", "delayed")], counted.delayed as f64);
        }
        self.family("dlo_consumer_parked_total", "counter", "Messages in a dead-letter queue, confirmed.");
        for (tally, counted) in &seldom {
            for (reason, count) in &counted.parked {
                self.sample(tally, &[("reason", *reason)], *count as f64);
            }
        }
        self.family("dlo_consumer_paused", "gauge", "Whether messages wait for this dependency.");
        for (tally, counted) in &seldom {
            for (cause, pause) in &counted.paused {
                self.sample(tally, &[("cause", cause.as_str())], f64::from(u8::from(pause.is_some())));
            }
        }
    }

    fn histogram(
        &mut self,
        name: &'static str,
        help: &str,
        consumers: &[Arc<Tally>],
        of: fn(&Tally) -> &Histogram,
    ) {
        self.family(name, "histogram", help);
        for tally in consumers {
            let histogram = of(tally);
            let counts = histogram.cumulative();
            let ends = ENDS.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
            for (end, count) in ends.zip(counts) {
                self.line("_bucket", tally, &[("le", end.as_str())], count as f64);
            }
            self.line("_sum", tally, &[], histogram.seconds());
            self.line("_count", tally, &[], counts[ENDS.len()] as f64);
        }
    }

    fn family(&mut self, name: &'static str, kind: &str, help: &str) {
        self.name = name;
        // Writing to a `String` does not fail.
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn sample(&mut self, tally: &Tally, labels: &[(&str, &str)], value: f64) {
        self.line("", tally, labels, value);
    }

    fn line(&mut self, suffix: &str, tally: &Tally, labels: &[(&str, &str)], value: f64) {
        self.text.push_str(self.name);
        self.text.push_str(suffix);
        let own = [("queue", tally.queue.as_str()), ("group", tally.group.as_str())];
        for (at, (label, text)) in own.iter().chain(labels).enumerate() {
            self.text.push(if at == 0 { '{' } else { ',' });
            let _ = write!(self.text, "{label}=\"{}\"", escaped(text));
        }
        let _ = writeln!(self.text, "}} {value}");
    }
}

/// A label's value as the exposition format wants it.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use dlo_core::origin::{BrokerKind, Origin};
    use dlo_core::verdict::Stage;

    use crate::events::{Event, Watch};
    use crate::metrics::{MOST_SERIES, Metrics};

    fn retried(tally: &dyn Watch, class: &str) {
        let origin = Origin::log(BrokerKind::Memory, "orders", 0, 1);
        let (after, stage) = (Duration::ZERO, Stage::Quick);
        tally.saw(&Event::Retried { origin: &origin, attempts: 1, error_class: class, after, stage });
    }

    #[test]
    fn a_label_cannot_break_out_of_its_quotes() {
        let metrics = Metrics::new();
        retried(&*metrics.consumer("a\"} 1\n\\b", "pricing"), "x\ny");
        let page = metrics.render();
        assert!(page.contains(r#"queue="a\"} 1\n\\b""#), "{page}");
        assert!(page.lines().all(|line| line.starts_with('#') || line.starts_with("dlo_")), "{page}");
    }

    #[test]
    fn classes_from_outside_make_a_bounded_number_of_series() {
        let metrics = Metrics::new();
        let tally = metrics.consumer("orders", "pricing");
        for n in 0..10 * MOST_SERIES {
            retried(&*tally, &format!("Error{n}"));
        }
        let page = metrics.render();
        let series = page.lines().filter(|line| line.starts_with("dlo_consumer_verdicts_total{")).count();
        assert_eq!(series, MOST_SERIES + 1);
        let rest = format!("class=\"other\"}} {}", 9 * MOST_SERIES);
        assert!(page.contains(&rest), "{page}");
        assert_eq!(tally.snapshot().retried, 10 * MOST_SERIES as u64);
    }

    #[test]
    fn a_pause_is_told_until_it_is_over() {
        let metrics = Metrics::new();
        let tally = metrics.consumer("orders", "pricing");
        tally.saw(&Event::Paused { dependency: "tax", wait: Duration::from_secs(60) });
        assert_eq!(tally.snapshot().paused.len(), 1);
        assert!(
            metrics
                .render()
                .contains("dlo_consumer_paused{queue=\"orders\",group=\"pricing\",cause=\"tax\"} 1")
        );
        metrics.consumer("orders", "pricing").saw(&Event::Resumed { dependency: "tax" });
        assert!(tally.snapshot().paused.is_empty());
    }

    #[test]
    fn a_pause_ends_with_the_consumer_that_had_it() {
        let metrics = Metrics::new();
        let tally = metrics.consumer("orders", "pricing");
        tally.saw(&Event::Braked { cause: "HTTP 404", wait: Duration::from_secs(60) });
        tally.saw(&Event::HandlerAway { problem: "refused" });
        tally.saw(&Event::BrokerAway { problem: "reset" });
        tally.unfollow();
        let now = tally.snapshot();
        assert_eq!((now.paused, now.handler_away, now.broker_away), (Vec::new(), None, None));
        assert!(metrics.render().contains("cause=\"brake: HTTP 404\"} 0"));
    }

    #[test]
    fn every_metric_that_is_served_is_documented() {
        let metrics = Metrics::new();
        retried(&*metrics.consumer("orders", "pricing"), "x");
        let page = metrics.render();
        let documented = include_str!("../metrics.rs");
        let names = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
        for name in names {
            assert!(documented.contains(&format!("`{name}`")), "{name}");
        }
    }
}
