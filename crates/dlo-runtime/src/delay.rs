//! How a delayed retry waits (B3), chosen from what the broker can do.
//!
//! By the broker's own means where it has them: the message leaves our hands, and the lane goes on. Past the limit of those
//! it is published anew with its story. Where there is an order, or no means at all, the message waits here, unsettled,
//! without its place among the handlers, up to a bound.

use std::time::Duration;

use dlo_core::broker::{Capabilities, DelayLimits};

/// Messages that may wait here at once. Beyond, nothing is received until one is through.
pub(crate) const MOST_HELD: usize = 10_000;

/// The means by which one retry waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Means {
    /// Settled as `Again`: the broker delivers it when it is time. `carries`: with its story on it.
    Native { after: Duration, carries: bool },
    /// Published anew with its story and a delay, confirmed, then settled.
    Republish { after: Duration },
    /// Held here.
    Hold,
}

/// `waiting`: how many wait at the broker already. `ordered`: what is behind it must not overtake it.
pub(crate) fn choose(capabilities: &Capabilities, ordered: bool, after: Duration, waiting: u64) -> Means {
    // Also where the broker holds back what is behind it (`waiting_keeps_order`): some of that is in our hands already.
    if ordered {
        return Means::Hold;
    }
    let room = |limits: &DelayLimits| limits.outstanding.is_none_or(|most| waiting < most);
    let remembers = capabilities.again_carries || capabilities.delivery_count;
    if let Some(limits) = capabilities.delay.filter(|limits| remembers && room(limits)) {
        let after = after.min(limits.longest);
        return Means::Native { after, carries: capabilities.again_carries };
    }
    match capabilities.delayed_publish {
        Some(limits) => Means::Republish { after: after.min(limits.longest) },
        None => Means::Hold,
    }
}

#[cfg(test)]
mod tests {
    use dlo_core::broker::{DelayLimits, HeaderRules, LostConfirm, Order};
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
            again_carries: false,
            waiting_keeps_order: false,
            delay,
            delayed_publish: delay,
            looking_is_free: false,
            drain_removes: true,
            offsets: false,
            cumulative_ack: false,
            dedupe_window: None,
            lost_confirm: LostConfirm::Unknown,
            headers,
            max_message: 1,
        }
    }

    #[test]
    fn a_retry_waits_by_the_best_means_the_broker_has() {
        let (hour, minute) = (Duration::from_secs(3_600), Duration::from_secs(60));
        let delay = Some(DelayLimits { longest: minute, outstanding: Some(10) });
        let native = Means::Native { after: minute, carries: false };
        assert_eq!(choose(&able(delay, true, true), false, hour, 0), native);
        assert_eq!(choose(&able(delay, true, true), false, hour, 10), Means::Republish { after: minute });
        assert_eq!(choose(&able(delay, false, false), false, minute, 0), Means::Republish { after: minute });
        assert_eq!(choose(&able(None, true, false), false, minute, 0), Means::Hold);
        let carries = Capabilities { again_carries: true, ..able(delay, false, true) };
        assert_eq!(choose(&carries, false, minute, 0), Means::Native { after: minute, carries: true });
    }

    #[test]
    fn where_there_is_an_order_a_retry_waits_where_nothing_overtakes_it() {
        let minute = Duration::from_secs(60);
        let delay = Some(DelayLimits { longest: minute, outstanding: None });
        assert_eq!(choose(&able(delay, true, true), true, minute, 0), Means::Hold);
        let keeps = Capabilities { waiting_keeps_order: true, ..able(delay, true, true) };
        assert_eq!(choose(&keeps, true, minute, 0), Means::Hold, "what is behind it is in our hands already");
    }
}
