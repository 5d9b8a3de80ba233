//! How much room dead letters need (G5): from traffic and failures to letters a day, bytes and partitions.
//!
//! An estimate, so it is made of few and visible factors and rounds up. Numbers beyond what fits saturate: whoever
//! asks for a million messages a second kept for a century gets a very large answer, not a panic.

use serde::{Deserialize, Serialize};

use crate::setting::SettingError;
use crate::units::{ByteSize, HumanDuration};

/// What a letter takes in the store beside its body: columns, indexes, counters. An assumption for planning.
const ROW: f64 = 700.0;
/// What our headers take on a dead letter in the broker: error, stack and history as they usually are.
const ENVELOPE: f64 = 3_000.0;
const DAY: f64 = 86_400.0;

/// What is known or assumed of a queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Messages a second that consumers take.
    pub rate: f64,
    /// Bytes of an average message.
    pub size: ByteSize,
    /// Share of messages that die, 0 to 1.
    pub failure_rate: f64,
    /// How long letters are kept.
    pub retention: HumanDuration,
    /// Copies that the broker keeps.
    #[serde(default = "defaults::replication")]
    pub replication: u32,
    /// Room on top, for growth and what the estimate does not know: 0.3 is a third more.
    #[serde(default = "defaults::overhead")]
    pub overhead: f64,
    /// Bytes of a body in the store for each byte of it, above 0 to 1; 1 is no compression.
    #[serde(default = "defaults::compression")]
    pub compression: f64,
    /// The share of messages that die while a dependency is down: partitions are counted for that hour.
    #[serde(default = "defaults::outage")]
    pub outage_failure_rate: f64,
    /// Bytes a second that one partition takes comfortably.
    #[serde(default = "defaults::partition_rate")]
    pub partition_rate: ByteSize,
    /// Bytes that one partition holds comfortably.
    #[serde(default = "defaults::partition_size")]
    pub partition_size: ByteSize,
}

mod defaults {
    use crate::units::ByteSize;

    pub(super) const fn replication() -> u32 {
        3
    }
    pub(super) const fn overhead() -> f64 {
        0.3
    }
    pub(super) const fn compression() -> f64 {
        0.5
    }
    pub(super) const fn outage() -> f64 {
        1.0
    }
    pub(super) const fn partition_rate() -> ByteSize {
        ByteSize(5_000_000)
    }
    pub(super) const fn partition_size() -> ByteSize {
        ByteSize(25_000_000_000)
    }
}

impl Load {
    /// A queue of which the four things are known that everybody knows.
    pub fn new(rate: f64, size: ByteSize, failure_rate: f64, retention: HumanDuration) -> Self {
        Self {
            rate,
            size,
            failure_rate,
            retention,
            replication: defaults::replication(),
            overhead: defaults::overhead(),
            compression: defaults::compression(),
            outage_failure_rate: defaults::outage(),
            partition_rate: defaults::partition_rate(),
            partition_size: defaults::partition_size(),
        }
    }
}

/// What it takes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Estimate {
    pub letters_per_day: u64,
    /// Letters at the end of the retention.
    pub letters_kept: u64,
    /// Of the office's store.
    pub store_bytes: ByteSize,
    /// Of the dead-letter queue over all replicas, if it keeps letters as long as the office does.
    pub broker_bytes: ByteSize,
    /// Of the dead-letter queue, so that an outage does not fill one.
    pub partitions: u64,
}

/// The room that this load needs.
pub fn estimate(load: &Load) -> Result<Estimate, SettingError> {
    check(load)?;
    let per_second = load.rate * load.failure_rate;
    let kept = per_second * load.retention.0.as_secs_f64();
    let size = load.size.0 as f64;
    let room = 1.0 + load.overhead;
    let in_broker = (size + ENVELOPE) * room;
    let by_size = kept * in_broker / load.partition_size.0 as f64;
    let in_outage = load.rate * load.failure_rate.max(load.outage_failure_rate);
    let by_rate = in_outage * in_broker / load.partition_rate.0 as f64;
    Ok(Estimate {
        letters_per_day: whole(per_second * DAY),
        letters_kept: whole(kept),
        store_bytes: ByteSize(whole(kept * (size * load.compression + ROW) * room)),
        broker_bytes: ByteSize(whole(kept * in_broker * f64::from(load.replication))),
        partitions: whole(by_size.max(by_rate)).max(1),
    })
}

/// Up to the next whole number. A float to integer cast saturates, which is what an estimate wants.
fn whole(number: f64) -> u64 {
    // Floats are off by their last digit: 8.64 letters a day more or less than a whole one are no letter.
    (number - 1e-6).ceil() as u64
}

fn check(load: &Load) -> Result<(), SettingError> {
    let share = 0.0..=1.0;
    let checks = [
        ("rate", load.rate.is_finite() && load.rate >= 0.0, "messages a second, 0 or more", load.rate),
        (
            "failure_rate",
            share.contains(&load.failure_rate),
            "0 to 1 (0.001 is one in a thousand)",
            load.failure_rate,
        ),
        ("replication", load.replication > 0, "at least 1", f64::from(load.replication)),
        ("overhead", (0.0..=10.0).contains(&load.overhead), "0 to 10 (0.3 is a third more)", load.overhead),
        (
            "compression",
            load.compression > 0.0 && load.compression <= 1.0,
            "more than 0, at most 1",
            load.compression,
        ),
        (
            "outage_failure_rate",
            share.contains(&load.outage_failure_rate),
            "0 to 1",
            load.outage_failure_rate,
        ),
        ("partition_rate", load.partition_rate.0 > 0, "more than 0", load.partition_rate.0 as f64),
        ("partition_size", load.partition_size.0 > 0, "more than 0", load.partition_size.0 as f64),
    ];
    match checks.into_iter().find(|(_, fine, _, _)| !fine) {
        Some((field, _, expected, found)) => {
            Err(SettingError::new(field, format!("expected {expected}, found {found}")))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn days(count: u64) -> HumanDuration {
        HumanDuration(Duration::from_secs(count * 86_400))
    }

    #[test]
    fn a_shop_with_a_thousand_orders_a_second_needs_this_much() {
        // 1,000/s, 2 kB, one in a thousand dies, kept 30 days: 1/s, 86,400 a day, 2,592,000 kept.
        let load = Load { overhead: 0.0, ..Load::new(1_000.0, ByteSize(2_000), 0.001, days(30)) };
        let found = estimate(&load).unwrap();
        assert_eq!((found.letters_per_day, found.letters_kept), (86_400, 2_592_000));
        assert_eq!(found.store_bytes, ByteSize(2_592_000 * 1_700));
        assert_eq!(found.broker_bytes, ByteSize(2_592_000 * 5_000 * 3));
        // An outage sends all 1,000 a second, 5 MB: what one partition takes.
        assert_eq!(found.partitions, 1);
        assert_eq!(estimate(&Load { rate: 3_001.0, ..load }).unwrap().partitions, 4);
    }

    #[test]
    fn what_is_not_written_is_assumed() {
        let written = r#"{"rate":1000.0,"size":"2kB","failure_rate":0.001,"retention":"30d"}"#;
        let load: Load = serde_json::from_str(written).unwrap();
        assert_eq!(load, Load::new(1_000.0, ByteSize(2_000), 0.001, days(30)));
        assert_eq!((load.replication, load.overhead, load.compression), (3, 0.3, 0.5));
        assert_eq!(load.outage_failure_rate, 1.0);
        assert_eq!(
            (load.partition_rate, load.partition_size),
            (ByteSize(5_000_000), ByteSize(25_000_000_000))
        );
    }

    #[test]
    fn room_on_top_is_added_to_store_broker_and_partitions() {
        let load = Load { overhead: 0.5, ..Load::new(1_000.0, ByteSize(2_000), 0.001, days(30)) };
        let found = estimate(&load).unwrap();
        assert_eq!(found.store_bytes, ByteSize(2_592_000 * 1_700 * 3 / 2));
        assert_eq!(found.broker_bytes, ByteSize(2_592_000 * 5_000 * 3 * 3 / 2));
        // 7.5 MB a second in an outage, of which one partition takes 5.
        assert_eq!(found.partitions, 2);
    }

    #[test]
    fn partitions_hold_what_is_kept_and_take_what_an_outage_brings() {
        let load = Load { overhead: 0.0, ..Load::new(100.0, ByteSize(2_000), 0.1, days(30)) };
        // 10 a second of 5 kB over 30 days are 129.6 GB, and 25 fit into one partition.
        assert_eq!(estimate(&load).unwrap().partitions, 6);
        let brief = Load { retention: days(0), rate: 8_000.0, ..load };
        assert_eq!(estimate(&brief).unwrap().partitions, 8);
        let half = Load { outage_failure_rate: 0.5, ..brief.clone() };
        assert_eq!(estimate(&half).unwrap().partitions, 4);
        let dead = Load { failure_rate: 1.0, outage_failure_rate: 0.5, ..brief };
        assert_eq!(estimate(&dead).unwrap().partitions, 8);
    }

    #[test]
    fn each_number_has_its_bounds() {
        let load = Load::new(10.0, ByteSize(1), 0.5, days(1));
        let field = |load: Load| estimate(&load).map(|_| ()).map_err(|refusal| refusal.field);
        for fine in [
            Load { rate: 0.0, ..load.clone() },
            Load { failure_rate: 1.0, ..load.clone() },
            Load { replication: 1, ..load.clone() },
            Load { overhead: 10.0, ..load.clone() },
            Load { compression: 1.0, ..load.clone() },
            Load { outage_failure_rate: 0.0, ..load.clone() },
            Load { partition_rate: ByteSize(1), partition_size: ByteSize(1), ..load.clone() },
        ] {
            assert_eq!(field(fine.clone()), Ok(()), "{fine:?}");
        }
        for (name, wrong) in [
            ("rate", Load { rate: -1.0, ..load.clone() }),
            ("rate", Load { rate: f64::INFINITY, ..load.clone() }),
            ("failure_rate", Load { failure_rate: -0.1, ..load.clone() }),
            ("replication", Load { replication: 0, ..load.clone() }),
            ("overhead", Load { overhead: 10.5, ..load.clone() }),
            ("compression", Load { compression: 0.0, ..load.clone() }),
            ("compression", Load { compression: 1.5, ..load.clone() }),
            ("outage_failure_rate", Load { outage_failure_rate: 1.5, ..load.clone() }),
            ("partition_rate", Load { partition_rate: ByteSize(0), ..load.clone() }),
            ("partition_size", Load { partition_size: ByteSize(0), ..load }),
        ] {
            assert_eq!(field(wrong), Err(name), "{name}");
        }
    }

    #[test]
    fn no_traffic_needs_one_empty_partition() {
        let found = estimate(&Load::new(0.0, ByteSize(0), 0.0, days(0))).unwrap();
        assert_eq!((found.letters_per_day, found.store_bytes, found.partitions), (0, ByteSize(0), 1));
    }

    #[test]
    fn a_share_given_in_percent_is_refused_with_directions() {
        let refusal = estimate(&Load::new(10.0, ByteSize(1), 5.0, days(1))).unwrap_err().to_string();
        assert_eq!(refusal, "`failure_rate`: expected 0 to 1 (0.001 is one in a thousand), found 5");
    }

    proptest! {
        #[test]
        fn any_numbers_give_an_answer_or_a_refusal(rate: f64, size: u64, failures: f64, seconds in 0..u64::from(u32::MAX)) {
            let load = Load::new(rate, ByteSize(size), failures, HumanDuration(Duration::from_secs(seconds)));
            let _ = estimate(&load);
        }

        #[test]
        fn keeping_longer_never_needs_less(rate in 0.0..1e6_f64, size in 0..10_000_000_u64, share in 0.0..1.0_f64, d in 0..400_u64) {
            let short = estimate(&Load::new(rate, ByteSize(size), share, days(d))).unwrap();
            let long = estimate(&Load::new(rate, ByteSize(size), share, days(d + 1))).unwrap();
            prop_assert!(long.store_bytes >= short.store_bytes && long.partitions >= short.partitions);
        }
    }
}
