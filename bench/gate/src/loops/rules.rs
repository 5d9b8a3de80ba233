//! What the runtime asks when a handler has failed: which kind of failure it is, and what becomes of the message.

use std::time::Duration;

use dlo_core::attempt::Attempt;
use dlo_core::classify::{Classified, Place, Rule, Ruleset, Unknown, When};
use dlo_core::failure::Failure;
use dlo_core::pattern::OneOrMany;
use dlo_core::policy::RetryPolicy;
use dlo_core::verdict::{Situation, VerdictKind, decide};

use super::turn;
use crate::letters;

const PLACE: Place<'_> =
    Place { queue: "orders", consumer: Some("pricing"), event_type: Some("shop.order-placed") };

/// A few rules of a team, which are asked before the built-in ones.
fn rules() -> Ruleset {
    let rule = |when, verdict| Rule {
        name: None,
        when,
        verdict,
        reason: None,
        attempts: None,
        age: None,
        dependency: None,
    };
    let one = |name: &str| Some(OneOrMany::One(name.into()));
    let team = vec![
        rule(
            When { class: one("KeyError"), queue: one("orders.*"), ..When::default() },
            VerdictKind::DeadLetter,
        ),
        rule(When { message: Some("tax service .*refused".into()), ..When::default() }, VerdictKind::Retry),
        rule(When { event_type: one("shop.test-*"), ..When::default() }, VerdictKind::Discard),
    ];
    Ruleset::compile(team).expect("rules")
}

/// Failures as they come: known by status, by class, by words, by nothing, and by the handler's own word.
fn failure(n: u64) -> Failure {
    let named = Failure::new(letters::class(n), letters::message(n));
    match n % 5 {
        0 => Failure { http_status: Some(503), ..named },
        1 => Failure::new("", "dial tcp 10.0.0.7:5432: connect: connection refused"),
        2 => Failure { says: Some(VerdictKind::DeadLetter), ..named },
        3 => Failure::new("com.acme.tax.NoSuchRate", letters::message(n)),
        _ => named,
    }
}

pub(super) fn classify_all(turns: u64, most: u64) {
    let rules = rules();
    turn(turns, most, failure, |failure| rules.classify(&failure, &PLACE, Unknown::DeadLetter));
}

struct Case {
    classified: Classified,
    failure: Failure,
    situation: Situation,
    random: f64,
}

pub(super) fn decide_all(turns: u64, most: u64) {
    let (rules, policy) = (rules(), RetryPolicy::default());
    // The verdicts of five failures serve all turns: classifying them is another loop.
    let failures: Vec<(Classified, Failure)> =
        (0..5).map(|n| (rules.classify(&failure(n), &PLACE, Unknown::DeadLetter), failure(n))).collect();
    let case = |n: u64| {
        let (classified, failure) = failures[(n % 5) as usize].clone();
        let first_failed_at = letters::failed_at(n);
        let situation = Situation {
            attempt: Attempt::new(1 + (n / 5 % 6) as u32).unwrap_or(Attempt::FIRST),
            first_failed_at,
            now: first_failed_at.plus(Duration::from_secs(n % 90)),
            previous_delay: n.is_multiple_of(2).then_some(Duration::from_millis(200)),
        };
        Case { classified, failure, situation, random: (letters::mix(n) % 1_000) as f64 / 1_000.0 }
    };
    turn(turns, most, case, |case| {
        decide(&case.classified, &case.failure, &case.situation, &policy, case.random)
    });
}
