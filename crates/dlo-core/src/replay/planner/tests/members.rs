//! How members are counted, and what the settings of a source and other replays change.

use super::*;
use crate::replay::PlannedKind;

#[test]
fn alike_letters_are_one_kind_with_a_count_and_the_largest_comes_first() {
    let other = Kind { owner: Some("mail"), ..candidate(0, "A").kind };
    let few = Candidate { kind: other, ..candidate(1, "A") };
    let plan = plan(&policy(false, 0), &[few, candidate(2, "A"), candidate(5, "A"), candidate(9, "A")]);
    let kinds = &plan.parts[0].by_class;
    let counts: Vec<_> = kinds.iter().map(|kind| (kind.owner.as_deref(), kind.count)).collect();
    assert_eq!(counts, [(Some("tax"), 3), (Some("mail"), 1)]);
    assert_eq!(
        (kinds[0].oldest, kinds[0].newest),
        (candidate(2, "A").failed_at, candidate(9, "A").failed_at)
    );
}

#[test]
fn of_kinds_alike_in_number_the_older_comes_first_and_most_are_not_shown() {
    let kind = |count, oldest: u64| PlannedKind {
        source: "orders".into(),
        event_type: None,
        error_class: None,
        owner: None,
        consumer: None,
        count,
        oldest: NOW.plus(Duration::from_secs(oldest)),
        newest: NOW,
    };
    let found = largest([kind(1, 5), kind(2, 9), kind(2, 7)].into_iter());
    assert_eq!(found, [kind(2, 7), kind(2, 9), kind(1, 5)]);
    assert_eq!(largest((0..300).map(|n| kind(n, 0))).len(), 200);
}

#[test]
fn the_cause_may_be_active_if_it_struck_within_the_last_five_minutes() {
    let ago = |secs| Candidate { failed_at: NOW.minus(Duration::from_secs(secs)), ..candidate(1, "A") };
    let doubts = |secs| plan(&policy(false, 0), &[ago(secs)]).parts[0].doubts.len();
    assert_eq!([300, 299, 240, 0].map(doubts), [0, 1, 1, 1]);
}

#[test]
fn how_many_died_before_is_said() {
    let again = |n| Candidate { replays: 1, ..candidate(n, "A") };
    let plan = plan(&policy(false, 0), &[again(1), again(2), candidate(3, "A")]);
    assert_eq!(plan.parts[0].doubts, ["2 letters died before: replayed already"]);
}

#[test]
fn a_payload_may_be_as_large_as_the_limit() {
    let largest = Candidate { payload_size: 1_000, ..candidate(1, "A") };
    assert_eq!(numbers(&plan(&policy(false, 0), &[largest]).parts[0]), [1]);
}

#[test]
fn letters_that_another_replay_has_in_hand_name_it() {
    let (policy, settings) = (policy(false, 0), Settings::default());
    let other = ReplayId(uuid::Uuid::from_u128(9));
    let mut planner = Planner::new(&policy, &settings, NOW);
    planner.offer(&Candidate { status: Status::Claimed, ..candidate(1, "A") }).unwrap();
    planner.offer(&Candidate { pointer: true, ..candidate(2, "A") }).unwrap();
    planner.exclude(Exclusion::Held, 2);
    planner.exclude(Exclusion::TooLarge, 0);
    planner.held_by(Some(other));
    let held = |why, count, held_by| Excluded { why, count, held_by };
    assert_eq!(
        planner.finish().unwrap().excluded,
        [held(Exclusion::PointerOnly, 1, None), held(Exclusion::Held, 3, Some(other))]
    );
}

#[test]
fn the_settings_of_a_source_come_before_those_of_the_plan() {
    let tired = Candidate { replays: 1, ..candidate(1, "A") };
    let of_plan = Settings { limit: 1, ..Settings::default() };
    let mut policy = policy(false, 0);
    assert_eq!(excluded(&plan_with(&policy, &of_plan, &[tired])), [(Exclusion::Exhausted, 1)]);
    policy.settings.insert("orders".into(), Settings { limit: 2, order: true, ..Settings::default() });
    let plan = plan_with(&policy, &of_plan, &[tired, candidate(2, "A")]);
    assert_eq!(numbers(&plan.parts[0]), [1, 2]);
    assert!(plan.parts[0].order, "order was asked for in the settings of the source");
}

#[test]
fn order_that_only_the_plan_asks_for_holds_nothing_back() {
    let ordered = Settings { order: true, ..Settings::default() };
    let plan = plan_with(&policy(false, 0), &ordered, &[candidate(1, "A"), candidate(2, "B")]);
    assert_eq!((plan.parts.len(), plan.excluded.len()), (2, 0));
    assert!(plan.parts.iter().all(|part| part.order && part.members[0].lane.is_some()));
}

#[test]
fn every_letter_that_a_recovered_one_overtook_is_counted() {
    let (policy, settings) = (policy(true, 0), Settings::default());
    let mut planner = Planner::new(&policy, &settings, NOW);
    for n in 1..=4 {
        planner.offer(&candidate(n, "A")).unwrap();
    }
    planner.recovered("orders", b"C-1", candidate(4, "A").failed_at);
    planner.recovered("orders", b"C-1", candidate(2, "A").failed_at);
    let plan = planner.finish().unwrap();
    assert_eq!((numbers(&plan.parts[0]), excluded(&plan)), (vec![4], vec![(Exclusion::Superseded, 3)]));
}

#[test]
fn keys_of_one_lane_share_the_first_eight_bytes_of_their_hash() {
    let mut front = [0; 8];
    front.copy_from_slice(&Sha256::digest(b"C-1")[..8]);
    assert_eq!(lane(b"C-1"), i64::from_be_bytes(front));
}

#[test]
fn suspected_letters_are_members_where_somebody_asks_for_them() {
    let suspected = Candidate { suspected: true, ..candidate(2, "A") };
    let policy = PlanPolicy { include_suspected: true, ..policy(false, 0) };
    let plan = plan(&policy, &[candidate(1, "A"), suspected]);
    assert_eq!((numbers(&plan.parts[0]), excluded(&plan)), (vec![1, 2], vec![]));
}
