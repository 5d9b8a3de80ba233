//! The life of a group, told by its changes and its letters.

use super::*;

fn at(minute: i64) -> Timestamp {
    Timestamp::from_millis(minute * 60_000)
}

fn standing(status: GroupStatus) -> Life {
    let snooze = Snooze { until: Some(at(90)), letters: None, from: GroupStatus::Fixing };
    Life { status, snooze: (status == GroupStatus::Snoozed).then_some(snooze), ..Life::default() }
}

/// A letter that failed at that minute.
fn letter(version: Option<&str>, minute: i64) -> Arrival<'_> {
    Arrival { version, failed_at: at(minute) }
}

fn resolve(version: Option<&str>) -> Change {
    Change::Resolve { in_version: version.map(String::from) }
}

#[test]
fn every_change_from_every_status_is_legal_or_says_why_not() {
    use GroupStatus::{Acknowledged, Fixing, Ignored, New, Regressed, Resolved, Snoozed};
    let snooze = Change::Snooze { until: Some(at(100)), letters: None };
    let table: [(Change, &[GroupStatus], GroupStatus); 6] = [
        (Change::Acknowledge, &[New, Fixing, Regressed, Snoozed], Acknowledged),
        (Change::Fix, &[New, Acknowledged, Regressed, Snoozed], Fixing),
        (resolve(None), &[New, Acknowledged, Fixing, Regressed, Snoozed, Ignored], Resolved),
        (snooze, &[New, Acknowledged, Fixing, Regressed, Snoozed], Snoozed),
        (Change::Ignore, &[New, Acknowledged, Fixing, Resolved, Regressed, Snoozed], Ignored),
        (Change::Reopen, &[Resolved, Snoozed, Ignored], Acknowledged),
    ];
    for (change, from, to) in table {
        for status in GroupStatus::ALL {
            let after = change.apply(&standing(*status), at(1));
            match from.contains(status) {
                true => {
                    assert_eq!(after.map(|life| (life.status, life.since)), Ok((to, Some(at(1)))), "{status}")
                }
                false => assert!(after.is_err(), "{change:?} from {status}"),
            }
        }
    }
}

#[test]
fn assigning_and_owning_leave_a_group_where_it_stands() {
    for status in GroupStatus::ALL {
        let life = standing(*status);
        for change in [Change::Assign { to: Some("ann".into()) }, Change::Own { team: None }] {
            assert_eq!(change.apply(&life, at(1)), Ok(life.clone()));
        }
    }
}

#[test]
fn a_resolved_group_that_gets_a_letter_has_regressed_and_says_when() {
    let mut life = resolve(None).apply(&Life::default(), at(1)).unwrap();
    assert_eq!(life.arrive(letter(Some("1.0"), 5), at(5)), Some(GroupDeed::Regressed));
    assert_eq!((life.status, life.regressed_at), (GroupStatus::Regressed, Some(at(5))));
    assert_eq!(life.arrive(letter(None, 6), at(6)), None);
    assert_eq!(life.regressed_at, Some(at(5)));
}

#[test]
fn letters_that_failed_before_a_group_was_resolved_do_not_bring_it_back() {
    let mut life = resolve(None).apply(&Life::default(), at(10)).unwrap();
    assert_eq!(life.arrive(letter(None, 9), at(30)), None);
    assert_eq!(life.status, GroupStatus::Resolved);
    assert_eq!(life.arrive(letter(None, 10), at(31)), Some(GroupDeed::Regressed));
}

#[test]
fn a_group_resolved_in_a_version_regresses_by_that_version_or_a_later_or_an_unknown_one() {
    for (found, back) in [
        (Some("2.3.0"), false),
        (Some("2.9"), false),
        (Some("2.10.0"), true),
        (Some("3"), true),
        (None, true),
    ] {
        let mut life = resolve(Some("2.10.0")).apply(&Life::default(), at(1)).unwrap();
        assert_eq!(life.arrive(letter(found, 2), at(2)).is_some(), back, "{found:?}");
        assert_eq!(life.status == GroupStatus::Regressed, back, "{found:?}");
    }
}

#[test]
fn a_snooze_ends_at_its_date_or_with_its_last_letter_and_gives_back_where_it_stood() {
    let fixing = Change::Fix.apply(&Life::default(), at(1)).unwrap();
    let counted = Change::Snooze { until: Some(at(60)), letters: Some(2) }.apply(&fixing, at(2)).unwrap();
    let mut by_count = counted.clone();
    assert_eq!(by_count.arrive(letter(None, 3), at(3)), None);
    assert_eq!(by_count.arrive(letter(None, 4), at(4)), Some(GroupDeed::Woken));
    assert_eq!((by_count.status, by_count.snooze), (GroupStatus::Fixing, None));
    let mut by_date = counted;
    assert_eq!(by_date.wake(at(59)), None);
    assert_eq!(by_date.wake(at(60)), Some(GroupDeed::Woken));
    assert_eq!(by_date.status, GroupStatus::Fixing);
    for never in [(None, None), (Some(at(1)), None), (None, Some(0))] {
        let change = Change::Snooze { until: never.0, letters: never.1 };
        assert_eq!(change.apply(&fixing, at(2)), Err(Illegal::NeverWakes));
    }
}

#[test]
fn what_is_ignored_stays_ignored_whatever_comes() {
    let mut life = standing(GroupStatus::Ignored);
    assert_eq!(life.arrive(letter(None, 1), at(1)), None);
    assert_eq!(life.status, GroupStatus::Ignored);
}
