//! What the planner takes, leaves out and says.

mod members;

use std::time::Duration;

use super::*;
use crate::replay::{DoubtPolicy, Pace, Repairing};

const NOW: Timestamp = Timestamp::from_millis(1_780_000_000_000);

/// The letter `n`; larger numbers failed later, all of them about two hours ago.
fn candidate(n: u64, class: &'static str) -> Candidate<'static> {
    let kind = Kind {
        source: "orders",
        event_type: Some("OrderPlaced"),
        error_class: Some(class),
        owner: Some("tax"),
        consumer: Some("pricing"),
    };
    Candidate {
        letter: LetterId(uuid::Uuid::from_u128(u128::from(n))),
        kind,
        key: Some(b"C-1"),
        status: Status::Open,
        pointer: false,
        suspected: false,
        payload_size: 100,
        replays: 0,
        failed_at: NOW.minus(Duration::from_secs(7_200 - n)),
    }
}

fn policy(order: bool, approvals: u8) -> PlanPolicy {
    let source = SourcePolicy { approvals, order, ..SourcePolicy::default() };
    PlanPolicy {
        sources: [("orders".to_string(), source)].into(),
        max_payload: Some(1_000),
        planner: PlannerIdentity::Proven,
        ..PlanPolicy::default()
    }
}

fn plan(policy: &PlanPolicy, candidates: &[Candidate<'_>]) -> Plan {
    plan_with(policy, &Settings::default(), candidates)
}

fn plan_with(policy: &PlanPolicy, settings: &Settings, candidates: &[Candidate<'_>]) -> Plan {
    let mut planner = Planner::new(policy, settings, NOW);
    for candidate in candidates {
        planner.offer(candidate).unwrap();
    }
    planner.finish().unwrap()
}

fn numbers(part: &Part) -> Vec<u128> {
    part.members.iter().map(|member| member.letter.0.as_u128()).collect()
}

fn excluded(plan: &Plan) -> Vec<(Exclusion, u64)> {
    plan.excluded.iter().map(|left| (left.why, left.count)).collect()
}

#[test]
fn each_exclusion_is_counted_and_what_is_left_is_the_plan() {
    let elsewhere = Kind { source: "mail", ..candidate(0, "A").kind };
    let candidates = [
        candidate(1, "A"),
        Candidate { status: Status::Discarded, ..candidate(2, "A") },
        Candidate { kind: elsewhere, ..candidate(3, "A") },
        Candidate { pointer: true, ..candidate(4, "A") },
        Candidate { payload_size: 1_001, ..candidate(5, "A") },
        Candidate { replays: 3, ..candidate(6, "A") },
        Candidate { replays: 2, ..candidate(7, "A") },
        Candidate { suspected: true, ..candidate(8, "A") },
    ];
    let plan = plan(&policy(false, 0), &candidates);
    assert_eq!(plan.parts.len(), 1);
    assert_eq!(numbers(&plan.parts[0]), [1, 7]);
    assert_eq!(
        excluded(&plan),
        [
            (Exclusion::NotOpen, 1),
            (Exclusion::Exhausted, 1),
            (Exclusion::PointerOnly, 1),
            (Exclusion::TooLarge, 1),
            (Exclusion::NoTarget, 1),
            (Exclusion::Suspected, 1)
        ]
    );
    assert_eq!(plan.parts[0].doubts, ["1 letter died before: replayed already"]);
}

#[test]
fn classes_are_parts_in_the_order_of_their_oldest_letter() {
    let plan = plan(&policy(false, 0), &[candidate(1, "B"), candidate(2, "A"), candidate(3, "B")]);
    let parts: Vec<_> = plan.parts.iter().map(|part| (part.error_class.as_deref(), numbers(part))).collect();
    assert_eq!(parts, [(Some("B"), vec![1, 3]), (Some("A"), vec![2])]);
    assert!(plan.parts.iter().all(|part| part.members.iter().all(|member| member.lane.is_none())));
}

#[test]
fn a_type_is_said_where_it_is_common() {
    let other = Kind { event_type: None, ..candidate(0, "A").kind };
    let mixed = [candidate(1, "A"), Candidate { kind: other, ..candidate(2, "A") }];
    assert_eq!(plan(&policy(false, 0), &mixed).parts[0].event_type, None);
    assert_eq!(plan(&policy(false, 0), &mixed[..1]).parts[0].event_type.as_deref(), Some("OrderPlaced"));
    assert_eq!(plan(&policy(false, 0), &mixed).parts[0].by_class.len(), 2);
}

#[test]
fn a_key_with_several_classes_is_held_back_where_order_matters() {
    let free = Candidate { key: Some(b"C-2"), ..candidate(3, "B") };
    let keyless = Candidate { key: None, ..candidate(4, "B") };
    let candidates = [candidate(1, "A"), candidate(2, "B"), free, keyless];
    let ordered = plan(&policy(true, 0), &candidates);
    assert_eq!(numbers(&ordered.parts[0]), [3, 4]);
    assert_eq!(excluded(&ordered), [(Exclusion::KeySpansClasses, 2)]);
    assert_eq!(plan(&policy(false, 0), &candidates).parts.len(), 2);
}

#[test]
fn what_was_overtaken_by_a_recovered_letter_is_left_out() {
    let policy = policy(true, 0);
    let settings = Settings::default();
    let mut planner = Planner::new(&policy, &settings, NOW);
    for n in 1..=3 {
        planner.offer(&candidate(n, "A")).unwrap();
    }
    assert_eq!(planner.asks_for_recovered(), BTreeSet::from(["orders".to_string()]));
    planner.recovered("orders", b"C-1", candidate(2, "A").failed_at);
    planner.recovered("orders", b"C-9", NOW);
    planner.recovered("mail", b"C-1", NOW);
    let plan = planner.finish().unwrap();
    assert_eq!(numbers(&plan.parts[0]), [2, 3]);
    assert_eq!(excluded(&plan), [(Exclusion::Superseded, 1)]);
}

#[test]
fn the_first_of_a_key_goes_and_the_others_wait() {
    let other = Candidate { key: Some(b"C-2"), ..candidate(2, "A") };
    let keyless = Candidate { key: None, ..candidate(4, "A") };
    let plan = plan(&policy(true, 0), &[candidate(1, "A"), other, candidate(3, "A"), keyless]);
    let waits: Vec<bool> = plan.parts[0].members.iter().map(|member| member.waits).collect();
    assert_eq!(waits, [false, false, true, false]);
    assert!(plan.parts[0].order);
}

#[test]
fn approvals_follow_sources_size_and_repair() {
    let two = [candidate(1, "A"), candidate(2, "A")];
    let needed = |policy: &PlanPolicy, repair: bool, candidates: &[Candidate<'_>]| {
        let expression = ".a = 1".to_string();
        let repair = repair.then_some(Repairing { expression });
        plan_with(policy, &Settings { repair, ..Settings::default() }, candidates).approvals_needed
    };
    assert_eq!(needed(&policy(false, 0), false, &two), 0);
    assert_eq!(needed(&policy(false, 2), false, &two), 2);
    assert_eq!(needed(&PlanPolicy { large: Some(2), ..policy(false, 2) }, false, &two), 2);
    assert_eq!(needed(&PlanPolicy { large: Some(1), ..policy(false, 2) }, false, &two), 3);
    assert_eq!(needed(&policy(false, 0), true, &two), 0);
    let mut elsewhere = policy(false, 0);
    elsewhere.sources.insert("payments".into(), SourcePolicy { approvals: 1, ..SourcePolicy::default() });
    assert_eq!((needed(&elsewhere, false, &two), needed(&elsewhere, true, &two)), (0, 1));
}

#[test]
fn recent_failures_are_doubtful() {
    let recent = Candidate { failed_at: NOW.minus(Duration::from_secs(10)), ..candidate(2, "A") };
    let plan = plan(&policy(false, 0), &[candidate(1, "A"), recent]);
    let doubt = "the cause may still be active: 1 of these failed within the last 5 minutes";
    assert_eq!(plan.parts[0].doubts, [doubt]);
}

#[test]
fn a_letter_whose_record_was_not_fetched_is_a_pointer() {
    let mut headers = Headers::new();
    assert!(!is_pointer(&headers));
    headers.push_text("dlo-record", "fetched");
    assert!(!is_pointer(&headers));
    headers.push_text("dlo-record", "gone");
    assert!(is_pointer(&headers));
}

fn refusal(policy: &PlanPolicy, settings: &Settings, candidates: &[Candidate<'_>]) -> Option<PlanRefusal> {
    let mut planner = Planner::new(policy, settings, NOW);
    for candidate in candidates {
        planner.offer(candidate).unwrap();
    }
    planner.finish().err()
}

#[test]
fn a_plan_that_needs_an_approval_is_refused_of_somebody_unproven() {
    let unproven = |approvals| PlanPolicy { planner: PlannerIdentity::Claimed, ..policy(false, approvals) };
    let one = [candidate(1, "KeyError")];
    assert_eq!(refusal(&unproven(1), &Settings::default(), &one), Some(PlanRefusal::UnprovenPlanner));
    assert_eq!(refusal(&unproven(0), &Settings::default(), &one), None);
    assert_eq!(refusal(&policy(false, 1), &Settings::default(), &one), None);
}

#[test]
fn settings_that_do_not_go_with_a_source_are_refused_only_if_it_has_letters_in_the_plan() {
    let mut allowed = policy(false, 0);
    let source = SourcePolicy { critical: true, ..SourcePolicy::default() };
    allowed.sources.insert("orders".into(), source);
    let one = [candidate(1, "KeyError")];
    let again = Settings { doubts: DoubtPolicy::SendAgain, ..Settings::default() };
    let share = Settings { pace: Pace::Share(0.1), ..Settings::default() };
    assert_eq!(refusal(&allowed, &again, &one), Some(PlanRefusal::CriticalSource("orders".into())));
    assert_eq!(refusal(&allowed, &share, &one), Some(PlanRefusal::UncountedTraffic("orders".into())));
    assert_eq!(refusal(&allowed, &again, &[]), None);
    // What a source says for itself is judged in the place of what the plan says.
    allowed.settings.insert("orders".into(), Settings::default());
    assert_eq!(refusal(&allowed, &again, &one), None);
    allowed.sources.insert("orders".into(), SourcePolicy { counts_traffic: true, ..SourcePolicy::default() });
    allowed.settings.clear();
    assert_eq!((refusal(&allowed, &share, &one), refusal(&allowed, &again, &one)), (None, None));
}
