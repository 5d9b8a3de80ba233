//! Which letters go by themselves, and when: what `is:expiring` is measured by.
//!
//! A text says only the words. Whoever knows the rules of automation fills them in before the question is asked. A rule
//! that asks for an age means a letter from a moment on; the first rule in order that means it decides, so one in front that
//! holds a letter, or sends it on, keeps it from those behind.

use std::time::Duration;

use serde::Serialize;

use super::{Compare, Matcher, Op, Query, ReplayLimits, Term};
use crate::automation::{Action, AutomationRule};
use crate::time::Timestamp;

/// What goes within this time is expiring.
pub const SOON: Duration = Duration::from_secs(24 * 60 * 60);
/// The smallest step of time.
const TICK: Duration = Duration::from_micros(1);

/// The rules that decide whether letters go, in their order, as of a moment. Without any, nothing expires.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Expiry {
    rules: Vec<Ageing>,
    now: Timestamp,
}

/// One rule: what it asks of a letter beside its age, and how old the letter must be.
#[derive(Debug, Clone, PartialEq)]
pub struct Ageing {
    pub name: String,
    /// How the letter goes; `None`: the rule keeps it from those behind.
    pub end: Option<End>,
    pub terms: Vec<Term>,
    ages: Vec<Age>,
}

/// How a letter goes by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    Discard,
    Archive,
}

/// A bound on when a letter failed that moves with the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Age {
    negated: bool,
    op: Op,
    back: Duration,
}

impl Age {
    fn holds(self, failed_at: Timestamp, at: Timestamp) -> bool {
        Compare { op: self.op, value: at.minus(self.back) }.holds(failed_at) != self.negated
    }
}

impl Ageing {
    /// `None`: the query is not understood, which a config does not let in.
    pub fn new(rule: &AutomationRule, limits: &ReplayLimits) -> Option<Self> {
        let (early, late) = (Timestamp::EPOCH, Timestamp::EPOCH.plus(SOON));
        let read = |at| Query::parse(&rule.query, at).ok().map(|query| query.with_limits(limits));
        let (was, is) = (read(early)?, read(late)?);
        let (mut terms, mut ages) = (Vec::new(), Vec::new());
        for (term, later) in was.terms.into_iter().zip(is.terms) {
            match (&term.matcher, &later.matcher) {
                // What is another moment a day later is an age; the others are dates.
                (Matcher::Failed(then), Matcher::Failed(now)) if then != now => {
                    ages.push(Age { negated: term.negated, op: then.op, back: early.since(then.value) });
                }
                _ => terms.push(term),
            }
        }
        let end = match &rule.action {
            Action::Discard => Some(End::Discard),
            Action::Archive => Some(End::Archive),
            Action::Hold | Action::Route(_) => None,
            Action::Replay(schedule) => {
                let often = Compare { op: Op::Lt, value: i64::from(schedule.times) };
                terms.push(Term { negated: false, matcher: Matcher::Replays(often) });
                None
            }
        };
        Some(Self { name: rule.name.clone(), end, terms, ages })
    }

    fn is_due(&self, failed_at: Timestamp, at: Timestamp) -> bool {
        self.ages.iter().all(|age| age.holds(failed_at, at))
    }

    /// The least age that it asks for.
    fn least(&self) -> Option<Duration> {
        let old = |age: &&Age| !age.negated && matches!(age.op, Op::Lt | Op::Le);
        self.ages.iter().filter(old).map(|age| age.back).max()
    }
}

impl Expiry {
    /// As of the beginning of time; see [`Expiry::as_of`].
    pub fn new(rules: &[AutomationRule], limits: &ReplayLimits) -> Self {
        let rules = rules.iter().filter_map(|rule| Ageing::new(rule, limits)).collect();
        Self { rules, now: Timestamp::EPOCH }
    }

    #[must_use]
    pub fn as_of(&self, now: Timestamp) -> Self {
        Self { rules: self.rules.clone(), now }
    }

    pub fn rules(&self) -> &[Ageing] {
        &self.rules
    }

    /// The rules by which letters go.
    pub fn ends(&self) -> impl Iterator<Item = &Ageing> {
        self.rules.iter().filter(|rule| rule.end.is_some())
    }

    /// Whether a rule looks into headers, payloads or texts.
    pub fn reads_blocks(&self) -> bool {
        let reads = |term: &Term| {
            matches!(
                term.matcher,
                Matcher::Header { .. } | Matcher::Payload { .. } | Matcher::Text(_) | Matcher::Shown { .. }
            )
        };
        self.rules.iter().any(|rule| rule.terms.iter().any(reads))
    }

    /// When an open letter goes and by which rule, if that is not later than `until` and nothing else becomes of it. `means`
    /// says whether it has what a rule asks for beside its age.
    pub fn end_of(
        &self,
        failed_at: Timestamp,
        until: Timestamp,
        means: impl Fn(&Ageing) -> bool,
    ) -> Option<(Timestamp, &Ageing)> {
        self.ends().next()?;
        let meant: Vec<&Ageing> = self.rules.iter().filter(|rule| means(rule)).collect();
        // Between these moments no rule begins or ceases to mean it.
        let turns = meant.iter().flat_map(|rule| &rule.ages).flat_map(|age| {
            let at = failed_at.plus(age.back);
            [at, at.plus(TICK)]
        });
        let mut moments: Vec<Timestamp> = turns.filter(|at| *at > self.now && *at <= until).collect();
        moments.push(self.now);
        moments.sort_unstable();
        moments.into_iter().find_map(|at| {
            let decides = meant.iter().find(|rule| rule.is_due(failed_at, at))?;
            decides.end.is_some().then_some((at, *decides))
        })
    }

    /// Whether an open letter goes soon.
    pub fn is_soon(&self, failed_at: Timestamp, means: impl Fn(&Ageing) -> bool) -> bool {
        self.end_of(failed_at, self.now.plus(SOON), means).is_some()
    }

    /// No letter that failed after this goes soon; `None`: one may, however young.
    pub fn failed_until(&self) -> Option<Timestamp> {
        let soon = self.now.plus(SOON);
        let last = |rule: &Ageing| rule.least().map(|least| soon.minus(least));
        self.ends().map(last).try_fold(Timestamp::EPOCH, |latest, last| Some(latest.max(last?)))
    }
}

impl Query {
    /// The same question, measured by these rules.
    #[must_use]
    pub fn with_expiry(mut self, expiry: &Expiry) -> Self {
        for term in &mut self.terms {
            if let Matcher::Expiring(own) = &mut term.matcher {
                own.clone_from(expiry);
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);
    const NOW: Timestamp = Timestamp::from_millis(1_793_491_200_000);

    fn rule(query: &str, action: Action) -> AutomationRule {
        AutomationRule { name: query.to_string(), query: query.to_string(), action }
    }

    fn of(rules: &[AutomationRule]) -> Expiry {
        Expiry::new(rules, &ReplayLimits::default()).as_of(NOW)
    }

    /// Hours from now on until a letter of the source `a` goes that failed so many hours ago.
    fn goes(rules: &[AutomationRule], hours_ago: u32) -> Option<u64> {
        let expiry = of(rules);
        let is_a = |rule: &Ageing| {
            rule.terms.iter().all(|term| match &term.matcher {
                Matcher::Source(name) => (name == "a") != term.negated,
                _ => true,
            })
        };
        let end = expiry.end_of(NOW.minus(HOUR * hours_ago), NOW.plus(100 * HOUR), is_a);
        end.map(|(at, _)| at.since(NOW).as_secs() / 3_600)
    }

    #[test]
    fn a_letter_goes_when_it_is_as_old_as_a_rule_asks() {
        let rules = [rule("source:a age:>48h", Action::Discard)];
        assert_eq!(goes(&rules, 47), Some(1));
        assert_eq!(goes(&rules, 0), Some(48));
        assert_eq!(goes(&rules, 60), Some(0));
        assert_eq!(goes(&[rule("source:b age:>48h", Action::Discard)], 60), None);
        assert_eq!(goes(&[], 60), None);
    }

    #[test]
    fn a_rule_in_front_keeps_it_as_long_as_it_means_it() {
        let after = rule("source:a age:>24h", Action::Archive);
        assert_eq!(goes(&[rule("source:a", Action::Hold), after.clone()], 30), None);
        assert_eq!(goes(&[rule("source:a age:<=36h", Action::Hold), after.clone()], 30), Some(6));
        assert_eq!(goes(&[rule("source:a -age:>36h", Action::Hold), after], 30), Some(6));
        let dated = rule("source:a failed:<2020-01-01", Action::Discard);
        assert_eq!(of(&[dated]).rules()[0].ages, []);
    }

    #[test]
    fn only_what_is_old_enough_has_to_be_looked_at() {
        let until = |rules: &[AutomationRule]| of(rules).failed_until();
        let old = [rule("age:>48h", Action::Discard), rule("source:a age:>96h", Action::Archive)];
        assert_eq!(until(&old), Some(NOW.minus(24 * HOUR)));
        assert_eq!(until(&[rule("source:a", Action::Discard)]), None);
        assert_eq!(until(&[rule("source:a", Action::Hold)]), Some(Timestamp::EPOCH));
    }
}
