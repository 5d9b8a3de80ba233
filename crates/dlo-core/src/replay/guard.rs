//! When a replay stops, pauses, waits or slows down by itself (F4): what is seen goes in, a ruling comes out.
//!
//! The gravest wins. Every reason is a sentence for somebody who was woken by it: what happened, how often, what it means.

use std::time::Duration;

use super::settings::Guards;
use crate::id::LetterId;
use crate::time::Timestamp;
use crate::units::HumanDuration;

/// The failure share is judged once so many have an outcome.
pub const ENOUGH: u64 = 20;
/// Refill is judged over this long.
pub const LATELY: Duration = Duration::from_secs(10);
/// Letters that are named with a reason, at most.
const NAMED: usize = 20;
/// However far behind the consumer is, this much of the rate is left.
const LEAST: f64 = 0.05;

/// A letter of this replay that died again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CameBack {
    pub letter: LetterId,
    pub sent_at: Option<Timestamp>,
    pub at: Timestamp,
    pub class: Option<String>,
    /// The class that it had when the plan was made.
    pub former: Option<String>,
}

impl CameBack {
    fn is_the_same_again(&self, within: Duration) -> bool {
        // Without a time of sending (it came back before the send was recorded) it came back at once.
        let soon = self.sent_at.is_none_or(|sent| self.at.since(sent) <= within);
        // A consumer that parks without our headers names no class: nothing says that it is another failure.
        soon && (self.class.is_none() || self.class == self.former)
    }
}

/// What is known when it is judged.
#[derive(Debug, Clone, Default)]
pub struct Sight<'a> {
    /// While the canary is waited for: how many it has.
    pub canary: Option<u64>,
    /// Came back since a person last let it go on.
    pub returns: &'a [CameBack],
    pub sent_lately: u64,
    pub returned_lately: u64,
    /// Outcomes since a person last let it go on.
    pub good: u64,
    pub failed: u64,
    /// How far the consumer is behind, or how deep the queue is.
    pub backlog: Option<u64>,
    /// The consumer says that it is paused, and why.
    pub halted: Option<&'a str>,
    /// The broker does not answer, and what it says.
    pub gone: Option<&'a str>,
    /// Messages that it refused one after the other, the last ones, and what it said.
    pub refused: Option<(u64, &'a str)>,
    /// Letters cannot be made ready, whichever they are, and why.
    pub unready: Option<&'a str>,
    /// Whether there is anything left to hold back.
    pub more: bool,
}

/// What a replay does now.
#[derive(Debug, Clone, PartialEq)]
pub enum Ruling {
    Go,
    /// This share of the rate, and why.
    Slow(f64, String),
    /// Nothing until it is over; nobody has to do anything.
    Wait(String),
    /// A person should look.
    Pause(String, Vec<LetterId>),
    /// Going on would do harm.
    Stop(String, Vec<LetterId>),
}

impl Guards {
    pub fn judge(&self, sight: &Sight<'_>) -> Ruling {
        if let Some(why) = sight.unready {
            return unready(why);
        }
        // What is sent already cannot be held back: its outcomes are counted, and that is all. But where the canary was all
        // there was, it is judged all the same: of a fix that does not work nobody should read that it is completed.
        if !sight.more {
            let canary = sight.canary.and_then(|_| self.recurrence(sight));
            return canary.unwrap_or_else(|| sight.gone.map_or(Ruling::Go, gone));
        }
        self.recurrence(sight)
            .or_else(|| self.refill(sight))
            .or_else(|| self.refusals(sight))
            .or_else(|| self.failure_share(sight))
            .or_else(|| sight.gone.map(gone))
            .or_else(|| self.breaker(sight))
            .or_else(|| self.lag(sight))
            .unwrap_or(Ruling::Go)
    }

    fn recurrence(&self, sight: &Sight<'_>) -> Option<Ruling> {
        // A file cannot say "none": no time at all switches it off as well.
        let within = self.recurrence.map(|within| within.0).filter(|within| !within.is_zero())?;
        let same: Vec<&CameBack> = sight.returns.iter().filter(|one| one.is_the_same_again(within)).collect();
        let class = same.first()?.class.as_deref().unwrap_or("an error without a class");
        let count = same.len();
        let soon = HumanDuration(within);
        let rest = if sight.more { "" } else { "; nothing is left to send: mend it, then plan anew" };
        let reason = match sight.canary {
            Some(canary) => format!(
                "{count} of {canary} canary letters came back with {class} within {soon}: the fix does not work yet{rest}"
            ),
            None => format!(
                "{} came back with {class} within {soon} of being sent: the cause is still there",
                letters(count as u64)
            ),
        };
        Some(Ruling::Stop(reason, named(same.iter().map(|one| one.letter))))
    }

    fn refill(&self, sight: &Sight<'_>) -> Option<Ruling> {
        let (sent, returned) = (sight.sent_lately, sight.returned_lately);
        if !self.refill || sent == 0 || returned <= sent {
            return None;
        }
        let reason = format!(
            "{} came back in the last {} s and only {sent} left: the queue of the dead fills faster than it drains",
            letters(returned),
            LATELY.as_secs()
        );
        Some(Ruling::Stop(reason, named(sight.returns.iter().rev().map(|one| one.letter))))
    }

    fn refusals(&self, sight: &Sight<'_>) -> Option<Ruling> {
        let (count, why) = sight.refused?;
        if count < self.refusals? {
            return None;
        }
        let reason = format!(
            "{} refused one after the other ({why}): the queue takes nothing, and the rest is left as it is; mend the \
             queue, resume, and plan anew for those that were refused",
            were(count)
        );
        Some(Ruling::Stop(reason, Vec::new()))
    }

    fn failure_share(&self, sight: &Sight<'_>) -> Option<Ruling> {
        let most = self.failures?;
        let known = sight.good + sight.failed;
        let share = sight.failed as f64 / known.max(1) as f64;
        if known < ENOUGH || share <= most {
            return None;
        }
        let reason = format!(
            "{} of the {known} letters whose outcome is known failed again ({:.0} %, at most {:.0} % is allowed): look at them before going on",
            sight.failed,
            share * 100.0,
            most * 100.0
        );
        Some(Ruling::Pause(reason, named(sight.returns.iter().rev().map(|one| one.letter))))
    }

    fn breaker(&self, sight: &Sight<'_>) -> Option<Ruling> {
        let why = sight.halted.filter(|_| self.breaker)?;
        Some(Ruling::Wait(format!("the consumer is paused ({why}); sending goes on when it does")))
    }

    fn lag(&self, sight: &Sight<'_>) -> Option<Ruling> {
        let (most, backlog) = (self.lag?, sight.backlog?);
        if backlog < most || backlog == 0 {
            return None;
        }
        let factor = (0.5 * most as f64 / backlog as f64).max(LEAST);
        let reason = format!("the consumer is {backlog} messages behind (slower from {most} on)");
        Some(Ruling::Slow(factor, reason))
    }
}

fn gone(why: &str) -> Ruling {
    Ruling::Wait(format!("{why}; nothing is lost, sending goes on when the broker answers"))
}

fn unready(why: &str) -> Ruling {
    let reason = format!(
        "{why}; nothing is sent without its repair, and no letter is refused for it: mend it, then resume"
    );
    Ruling::Pause(reason, Vec::new())
}

fn were(count: u64) -> String {
    if count == 1 { "1 letter was".to_owned() } else { format!("{count} letters were") }
}

fn letters(count: u64) -> String {
    if count == 1 { "1 letter".to_owned() } else { format!("{count} letters") }
}

fn named(letters: impl Iterator<Item = LetterId>) -> Vec<LetterId> {
    letters.take(NAMED).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back(seconds: u64, class: &str) -> CameBack {
        let sent = Timestamp::from_millis(1_793_534_400_000);
        CameBack {
            letter: LetterId(uuid::Uuid::from_u128(u128::from(seconds))),
            sent_at: Some(sent),
            at: sent.plus(Duration::from_secs(seconds)),
            class: Some(class.to_owned()),
            former: Some("KeyError".to_owned()),
        }
    }

    fn sight(returns: &[CameBack]) -> Sight<'_> {
        Sight { returns, more: true, ..Sight::default() }
    }

    #[test]
    fn a_canary_that_comes_back_stops_it_and_says_that_the_fix_does_not_work() {
        let returns = [back(2, "KeyError"), back(3, "KeyError"), back(4, "KeyError")];
        let ruling = Guards::default().judge(&Sight { canary: Some(5), ..sight(&returns) });
        let Ruling::Stop(reason, letters) = ruling else { panic!("{ruling:?}") };
        assert_eq!(
            reason,
            "3 of 5 canary letters came back with KeyError within 30s: the fix does not work yet"
        );
        assert_eq!(letters.len(), 3);
    }

    #[test]
    fn another_class_or_a_late_return_is_no_recurrence() {
        let guards = Guards::default();
        assert_eq!(guards.judge(&sight(&[back(2, "Timeout")])), Ruling::Go);
        assert_eq!(guards.judge(&sight(&[back(31, "KeyError")])), Ruling::Go);
        assert!(matches!(guards.judge(&sight(&[back(30, "KeyError")])), Ruling::Stop(..)));
        let zero = Guards { recurrence: Some(HumanDuration(Duration::ZERO)), ..guards.clone() };
        let off = Guards { recurrence: None, ..guards };
        for none in [off, zero] {
            assert_eq!(none.judge(&sight(&[back(0, "KeyError")])), Ruling::Go);
        }
    }

    #[test]
    fn more_back_than_gone_stops_it() {
        let seen = Sight { sent_lately: 10, returned_lately: 11, ..sight(&[]) };
        let guards = Guards::default();
        assert!(
            matches!(guards.judge(&seen), Ruling::Stop(reason, _) if reason.contains("11 letters came back"))
        );
        assert_eq!(guards.judge(&Sight { returned_lately: 10, ..seen.clone() }), Ruling::Go);
        assert_eq!(Guards { refill: false, ..guards }.judge(&seen), Ruling::Go);
    }

    #[test]
    fn a_failure_share_pauses_it_once_enough_is_known() {
        let guards = Guards::default();
        let seen = Sight { good: 15, failed: 5, ..sight(&[]) };
        assert!(
            matches!(guards.judge(&seen), Ruling::Pause(reason, _) if reason.starts_with("5 of the 20 letters"))
        );
        assert_eq!(guards.judge(&Sight { good: 14, ..seen.clone() }), Ruling::Go);
        assert_eq!(guards.judge(&Sight { good: 20, ..seen.clone() }), Ruling::Go);
        assert_eq!(Guards { failures: None, ..guards }.judge(&seen), Ruling::Go);
    }

    #[test]
    fn a_consumer_that_is_behind_slows_it_and_one_that_is_paused_holds_it() {
        let guards = Guards::default();
        let behind = Sight { backlog: Some(20_000), ..sight(&[]) };
        assert!(matches!(guards.judge(&behind), Ruling::Slow(factor, _) if (factor - 0.25).abs() < 1e-9));
        let at_the_limit = Sight { backlog: Some(10_000), ..sight(&[]) };
        assert!(
            matches!(guards.judge(&at_the_limit), Ruling::Slow(factor, _) if (factor - 0.5).abs() < 1e-9)
        );
        assert_eq!(guards.judge(&Sight { backlog: Some(9_999), ..sight(&[]) }), Ruling::Go);
        let always = Guards { lag: Some(0), ..guards.clone() };
        assert_eq!(always.judge(&Sight { backlog: Some(0), ..sight(&[]) }), Ruling::Go);
        let halted = Sight { halted: Some("its breaker is open"), ..behind.clone() };
        assert!(
            matches!(guards.judge(&halted), Ruling::Wait(reason) if reason.contains("its breaker is open"))
        );
        assert!(matches!(Guards { breaker: false, ..guards.clone() }.judge(&halted), Ruling::Slow(..)));
        assert_eq!(Guards { lag: None, ..guards }.judge(&behind), Ruling::Go);
    }

    #[test]
    fn a_queue_that_refuses_one_after_the_other_stops_it() {
        let guards = Guards::default();
        let seen = |count| Sight { refused: Some((count, "no such queue")), ..sight(&[]) };
        assert_eq!(guards.judge(&seen(9)), Ruling::Go);
        let Ruling::Stop(reason, _) = guards.judge(&seen(10)) else { panic!() };
        assert!(
            reason.starts_with("10 letters were refused one after the other (no such queue)"),
            "{reason}"
        );
        assert_eq!(Guards { refusals: None, ..guards }.judge(&seen(1_000)), Ruling::Go);
    }

    #[test]
    fn what_cannot_be_made_ready_pauses_it_even_when_nothing_else_is_left() {
        let unready = Sight { unready: Some("the repair worker does not start"), ..sight(&[]) };
        for more in [true, false] {
            let ruling = Guards::default().judge(&Sight { more, ..unready.clone() });
            assert!(
                matches!(&ruling, Ruling::Pause(why, _) if why.starts_with("the repair worker")),
                "{ruling:?}"
            );
        }
    }

    #[test]
    fn a_broker_that_is_gone_is_waited_for_and_harm_goes_first() {
        let guards = Guards::default();
        let gone = Sight { gone: Some("the broker is out of reach"), ..sight(&[]) };
        assert!(matches!(guards.judge(&gone), Ruling::Wait(_)));
        let returns = [back(2, "KeyError")];
        assert!(matches!(guards.judge(&Sight { returns: &returns, ..gone }), Ruling::Stop(..)));
    }

    #[test]
    fn what_cannot_be_held_back_any_more_is_not_stopped() {
        let returns = [back(2, "KeyError")];
        assert_eq!(Guards::default().judge(&Sight { more: false, ..sight(&returns) }), Ruling::Go);
    }

    #[test]
    fn a_canary_that_was_all_there_was_is_judged_like_any_other() {
        let returns = [back(2, "KeyError"), back(3, "KeyError")];
        let all = Sight { canary: Some(2), more: false, ..sight(&returns) };
        let Ruling::Stop(reason, letters) = Guards::default().judge(&all) else { panic!() };
        assert!(reason.starts_with("2 of 2 canary letters came back with KeyError"), "{reason}");
        assert!(reason.ends_with("nothing is left to send: mend it, then plan anew"), "{reason}");
        assert_eq!(letters.len(), 2);
        assert_eq!(Guards::default().judge(&Sight { returns: &[], ..all }), Ruling::Go);
    }
}
