//! What Prometheus reads at `/metrics`, and the counters behind it.
//!
//! | metric | labels | meaning |
//! |---|---|---|
//! | `dlo_letters` | `source`, `status` | letters by where they stand |
//! | `dlo_oldest_open_age_seconds` | `source` | time since the oldest open letter failed; absent when none is open |
//! | `dlo_letters_captured_total` | `source` | letters ever captured |
//! | `dlo_deaths_total` | `source` | deaths ever captured, returns of replayed letters included |
//! | `dlo_groups` | `source` | groups |
//! | `dlo_letters_unowned` | | open letters that no team owns |
//! | `dlo_letters_unindexed` | | letters whose payload is not in the text index yet |
//! | `dlo_ingest_items_total` | `result` | items sent over HTTP since the start, by what became of them |
//! | `dlo_ingest_batches_total`, `dlo_ingest_batch_seconds_total` | | batches written, and the time that took |
//! | `dlo_capture_running` | `source` | 1 while a dead-letter queue is read, 0 while it waits |
//! | `dlo_capture_letters_total` | `source`, `result` | deliveries taken from a dead-letter queue since the start |
//! | `dlo_capture_skipped_total` | `source` | records that the broker removed before they were read: lost to its retention |
//! | `dlo_capture_partitions_held` | `source` | partitions, or the one queue, that this server reads |
//! | `dlo_capture_depth`, `dlo_capture_lag` | `source` | messages in the dead-letter queue, and those not read yet, as the broker says |
//! | `dlo_capture_oldest_age_seconds` | `source` | time since the oldest message that waits there was published |
//! | `dlo_http_requests_total`, `dlo_http_request_seconds_total` | `method`, `route`, `status` | requests answered |
//! | `dlo_troubles` | `kind` | things that do not work now, by kind; `dlo status` names them |
//! | `dlo_build_info` | `version` | 1 |

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use dlo_core::time::Timestamp;
use dlo_core::trouble::{Trouble, TroubleKind};
use dlo_store::Stats;

use crate::capture::{CaptureState, CaptureStatus};
use crate::ingest::outcome::Outcome;

/// Counted since the start of the process.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    stored: AtomicU64,
    duplicate: AtomicU64,
    rejected: AtomicU64,
    batches: AtomicU64,
    batch_micros: AtomicU64,
    /// Bounded: methods and routes are ours, statuses are few.
    requests: Mutex<BTreeMap<RequestKind, (u64, Duration)>>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct RequestKind {
    method: &'static str,
    route: String,
    status: u16,
}

impl Metrics {
    pub(crate) fn ingested(&self, outcomes: &[Outcome], took: Duration) {
        let count = |counter: &AtomicU64, wanted: fn(&Outcome) -> bool| {
            counter.fetch_add(outcomes.iter().filter(|one| wanted(one)).count() as u64, Ordering::Relaxed);
        };
        count(&self.stored, |one| matches!(one, Outcome::Stored(_)));
        count(&self.duplicate, |one| matches!(one, Outcome::Duplicate(_)));
        count(&self.rejected, |one| matches!(one, Outcome::Rejected(_)));
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.batch_micros.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// `route` is the pattern, not the path: ids would make a series each.
    pub(crate) fn answered(
        &self,
        method: &axum::http::Method,
        route: Option<&str>,
        status: u16,
        took: Duration,
    ) {
        let kind =
            RequestKind { method: known(method), route: route.unwrap_or("unknown").to_string(), status };
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, time) = requests.entry(kind).or_default();
        *count += 1;
        *time += took;
    }

    /// The page that Prometheus reads. `stats` is `None` while the store does not answer.
    pub(crate) fn render(
        &self,
        stats: Option<&Stats>,
        captures: &[CaptureStatus],
        troubles: &[Trouble],
        now: Timestamp,
    ) -> String {
        let mut page = Page::default();
        if let Some(stats) = stats {
            page.letters(stats, now);
        }
        page.troubles(troubles);
        let items = [("stored", &self.stored), ("duplicate", &self.duplicate), ("rejected", &self.rejected)];
        page.family("dlo_ingest_items_total", "counter", "Items sent over HTTP, by what became of them.");
        for (result, counter) in items {
            page.sample(&[("result", result)], counter.load(Ordering::Relaxed) as f64);
        }
        page.family("dlo_ingest_batches_total", "counter", "Batches sent to the store over HTTP.");
        page.sample(&[], self.batches.load(Ordering::Relaxed) as f64);
        page.family(
            "dlo_ingest_batch_seconds_total",
            "counter",
            "Time from a batch's reading to its durability.",
        );
        page.sample(&[], self.batch_micros.load(Ordering::Relaxed) as f64 / 1e6);
        page.captures(captures, now);
        page.requests(&self.requests.lock().unwrap_or_else(PoisonError::into_inner));
        page.family("dlo_build_info", "gauge", "The version that runs.");
        page.sample(&[("version", env!("CARGO_PKG_VERSION"))], 1.0);
        page.text
    }
}

/// A method of ours; anything a client makes up is one series.
fn known(method: &axum::http::Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        _ => "other",
    }
}

#[derive(Debug, Default)]
struct Page {
    text: String,
    name: &'static str,
}

impl Page {
    fn family(&mut self, name: &'static str, kind: &str, help: &str) {
        self.name = name;
        // Writing to a `String` does not fail.
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn sample(&mut self, labels: &[(&str, &str)], value: f64) {
        self.text.push_str(self.name);
        for (at, (label, text)) in labels.iter().enumerate() {
            self.text.push(if at == 0 { '{' } else { ',' });
            let _ = write!(self.text, "{label}=\"{}\"", escaped(text));
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{end} {value}");
    }

    fn letters(&mut self, stats: &Stats, now: Timestamp) {
        self.family("dlo_letters", "gauge", "Letters by where they stand.");
        for source in &stats.sources {
            for (status, count) in source.counts.iter() {
                self.sample(&[("source", &source.source), ("status", status.as_str())], count as f64);
            }
        }
        self.family("dlo_oldest_open_age_seconds", "gauge", "Time since the oldest open letter failed.");
        for source in &stats.sources {
            if let Some(oldest) = source.oldest_open {
                self.sample(&[("source", &source.source)], now.since(oldest).as_secs_f64());
            }
        }
        self.family("dlo_letters_captured_total", "counter", "Letters ever captured.");
        for source in &stats.sources {
            self.sample(&[("source", &source.source)], source.captured as f64);
        }
        self.family("dlo_deaths_total", "counter", "Deaths ever captured.");
        for source in &stats.sources {
            self.sample(&[("source", &source.source)], source.deaths as f64);
        }
        self.family("dlo_groups", "gauge", "Groups of letters with one cause.");
        for source in &stats.sources {
            self.sample(&[("source", &source.source)], source.groups as f64);
        }
        self.family("dlo_letters_unowned", "gauge", "Open letters that no team owns.");
        self.sample(&[], stats.unowned as f64);
        self.family("dlo_letters_unindexed", "gauge", "Letters whose payload is not in the text index yet.");
        self.sample(&[], stats.unindexed as f64);
    }

    /// Every kind has its series, so that an alert on one does not depend on its having been seen before.
    fn troubles(&mut self, troubles: &[Trouble]) {
        self.family("dlo_troubles", "gauge", "Things that do not work now, by kind.");
        for kind in TroubleKind::ALL {
            let count = troubles.iter().filter(|trouble| trouble.kind == *kind).count();
            self.sample(&[("kind", kind.as_str())], count as f64);
        }
    }

    fn captures(&mut self, captures: &[CaptureStatus], now: Timestamp) {
        self.family("dlo_capture_running", "gauge", "Whether a dead-letter queue is being read.");
        for capture in captures {
            let running = f64::from(u8::from(capture.state == CaptureState::Running));
            self.sample(&[("source", &capture.source)], running);
        }
        self.family("dlo_capture_letters_total", "counter", "Deliveries taken from a dead-letter queue.");
        for capture in captures {
            self.sample(&[("source", &capture.source), ("result", "captured")], capture.captured as f64);
            self.sample(&[("source", &capture.source), ("result", "duplicate")], capture.duplicates as f64);
        }
        let mut each = |name, kind, help, value: &dyn Fn(&CaptureStatus) -> Option<f64>| {
            self.family(name, kind, help);
            for capture in captures {
                if let Some(value) = value(capture) {
                    self.sample(&[("source", &capture.source)], value);
                }
            }
        };
        let number = |count: Option<u64>| count.map(|count| count as f64);
        let lost = "Records that the broker removed before they were read.";
        each("dlo_capture_skipped_total", "counter", lost, &|capture| number(Some(capture.skipped)));
        let held = "Partitions, or the one queue, that this server reads.";
        each("dlo_capture_partitions_held", "gauge", held, &|capture| Some(f64::from(capture.held)));
        let depth = "Messages in the dead-letter queue, as the broker says.";
        each("dlo_capture_depth", "gauge", depth, &|capture| number(capture.depth));
        let lag = "Messages of the dead-letter queue that the office has not read yet.";
        each("dlo_capture_lag", "gauge", lag, &|capture| number(capture.lag));
        let oldest = "Time since the oldest message that waits in the dead-letter queue was published.";
        each("dlo_capture_oldest_age_seconds", "gauge", oldest, &|capture| {
            capture.oldest.map(|oldest| now.since(oldest).as_secs_f64())
        });
    }

    fn requests(&mut self, requests: &BTreeMap<RequestKind, (u64, Duration)>) {
        let mut each = |name, help, value: fn(&(u64, Duration)) -> f64| {
            self.family(name, "counter", help);
            for (kind, counted) in requests {
                let status = kind.status.to_string();
                let labels =
                    [("method", kind.method), ("route", kind.route.as_str()), ("status", status.as_str())];
                self.sample(&labels, value(counted));
            }
        };
        each("dlo_http_requests_total", "Requests answered.", |(count, _)| *count as f64);
        each("dlo_http_request_seconds_total", "Time until the answer began.", |(_, time)| {
            time.as_secs_f64()
        });
    }
}

/// A label's value as the exposition format wants it.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use dlo_core::group::StatusCounts;
    use dlo_core::letter::Status;
    use dlo_store::SourceStats;

    use super::*;

    fn stats(source: &str) -> Stats {
        let mut counts = StatusCounts::default();
        counts.add(Status::Open, 3);
        let source = SourceStats {
            source: source.to_string(),
            captured: 3,
            deaths: 4,
            counts,
            groups: 2,
            oldest_open: Some(Timestamp::from_millis(1_000)),
            last_captured: None,
        };
        Stats { letters: counts, groups: 2, unowned: 1, unindexed: 0, sources: vec![source] }
    }

    #[test]
    fn the_page_says_how_deep_and_how_old_each_source_is() {
        let page =
            Metrics::default().render(Some(&stats("orders")), &[], &[], Timestamp::from_millis(61_000));
        for line in [
            "dlo_letters{source=\"orders\",status=\"open\"} 3",
            "dlo_oldest_open_age_seconds{source=\"orders\"} 60",
            "dlo_letters_captured_total{source=\"orders\"} 3",
            "dlo_letters_unowned 1",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} in\n{page}");
        }
    }

    #[test]
    fn the_page_counts_troubles_by_kind_also_while_the_store_does_not_answer() {
        let trouble = Trouble::office(TroubleKind::StoreUnavailable, Timestamp::EPOCH, "refused");
        let page = Metrics::default().render(None, &[], &[trouble], Timestamp::EPOCH);
        for kind in TroubleKind::ALL {
            let count = u8::from(*kind == TroubleKind::StoreUnavailable);
            assert!(
                page.contains(&format!("dlo_troubles{{kind=\"{kind}\"}} {count}\n")),
                "{kind} in\n{page}"
            );
        }
        assert!(!page.contains("dlo_letters{") && page.contains("dlo_build_info"), "{page}");
    }

    #[test]
    fn a_label_cannot_break_out_of_its_quotes() {
        let page = Metrics::default().render(Some(&stats("a\"} 1\n\\b")), &[], &[], Timestamp::EPOCH);
        assert!(page.contains(r#"source="a\"} 1\n\\b""#), "{page}");
        assert!(page.lines().all(|line| line.starts_with('#') || line.starts_with("dlo_")), "{page}");
    }

    #[test]
    fn every_metric_that_is_served_is_documented() {
        let page = Metrics::default().render(Some(&stats("orders")), &[], &[], Timestamp::EPOCH);
        let documented = include_str!("metrics.rs");
        for name in page
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE "))
            .filter_map(|rest| rest.split(' ').next())
        {
            assert!(documented.contains(&format!("`{name}`")), "{name}");
        }
    }
}
