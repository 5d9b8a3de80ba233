//! How a delayed retry waits (B3), chosen from what the broker can do.
//!
//! By the broker's own means where it has them: the message leaves our hands, and the lane goes on. A broker that can
//! delay but does not count gets the message back with its story in headers. That would reach every group of the
//! queue, so where there are groups, and where there is no delay at all, the message waits here, without its place
//! among the handlers, up to a bound.

use std::time::Duration;

use dlo_core::broker::Capabilities;

/// Messages that may wait here at once. Beyond, one more keeps its place among the handlers while it waits.
pub(crate) const MOST_HELD: usize = 10_000;

/// The means by which one retry waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Means {
    /// Settled as `Again`: the broker counts, and delivers it when it is time.
    Native { after: Duration },
    /// Published anew with its story and a delay, confirmed, then settled.
    Republish { after: Duration },
    /// Held here.
    Hold,
}

/// `waiting`: how many wait at the broker already.
pub(crate) fn choose(capabilities: &Capabilities, after: Duration, waiting: u64) -> Means {
    let (limits, counted) = match (capabilities.delivery_count, capabilities.groups) {
        (true, _) => (capabilities.delay, true),
        (false, false) => (capabilities.delayed_publish, false),
        (false, true) => (None, false),
    };
    let Some(limits) = limits else { return Means::Hold };
    if limits.outstanding.is_some_and(|most| waiting >= most) {
        return Means::Hold;
    }
    let after = after.min(limits.longest);
    if counted { Means::Native { after } } else { Means::Republish { after } }
}

#[cfg(test)]
mod tests {
    use dlo_core::broker::{DelayLimits, HeaderRules, Order};
    use dlo_core::origin::BrokerKind;

    use super::*;

    fn able(delay: Option<DelayLimits>, delivery_count: bool, groups: bool) -> Capabilities {
        let headers =
            HeaderRules { binary_values: true, repeated_names: true, absent_values: true, keeps_order: true };
        Capabilities {
            kind: BrokerKind::Memory,
            order: Order::None,
            groups,
            delivery_count,
            delay,
            delayed_publish: delay,
            again_carries: false,
            waiting_keeps_order: false,
            looking_is_free: false,
            drain_removes: true,
            offsets: false,
            cumulative_ack: false,
            dedupe_window: None,
            headers,
            max_message: 1,
        }
    }

    #[test]
    fn a_retry_waits_by_the_best_means_the_broker_has() {
        let hour = Duration::from_secs(3_600);
        let minute = Duration::from_secs(60);
        let limits = DelayLimits { longest: minute, outstanding: Some(10) };
        let delay = Some(limits);
        assert_eq!(choose(&able(delay, true, true), hour, 0), Means::Native { after: minute });
        assert_eq!(choose(&able(delay, true, true), hour, 10), Means::Hold);
        assert_eq!(choose(&able(delay, false, false), minute, 0), Means::Republish { after: minute });
        assert_eq!(choose(&able(delay, false, true), minute, 0), Means::Hold);
        assert_eq!(choose(&able(None, true, false), minute, 0), Means::Hold);
    }
}
