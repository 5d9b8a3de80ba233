//! The journal over deaths: real ones of a child process, and pretended ones (a journal that is dropped was not closed).

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use dlo_core::poison::PoisonConfig;
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

const CHILD: &str = "DLO_JOURNAL_CHILD";

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1_000)
}

fn open(directory: &TempDir) -> (Journal, Found) {
    Journal::open(directory.path(), 8).unwrap()
}

fn sorted(mut marks: Vec<Mark>) -> Vec<Mark> {
    marks.sort();
    marks
}

fn attempt(number: u32) -> Attempt {
    Attempt::new(number).unwrap()
}

/// The part of the child: enters, leaves, and waits to be killed. Nothing to do when the tests run it.
#[test]
fn a_child_that_is_killed_in_its_handler() {
    let Some(directory) = std::env::var_os(CHILD) else { return };
    let (journal, _) = Journal::open(Path::new(&directory), 8).unwrap();
    let _first = journal.enter(Mark(1), at(1));
    let second = journal.enter(Mark(2), at(2));
    let _third = journal.enter(Mark(3), at(3));
    journal.leave(second);
    journal.note(Mark(3), attempt(4), at(0));
    println!("ready");
    loop {
        std::thread::park();
    }
}

#[test]
fn files_and_directories_can_be_read_by_their_owner_only() {
    let home = TempDir::new().unwrap();
    let (journal, _) = Journal::open(&home.path().join("state/orders"), 8).unwrap();
    journal.keep(&Suspects::new(PoisonConfig::default())).unwrap();
    crate::private::assert_private(home.path());
}

#[test]
fn a_killed_process_leaves_exactly_those_who_were_in_its_handler() {
    let directory = TempDir::new().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "journal::tests::a_child_that_is_killed_in_its_handler", "--nocapture"])
        .env(CHILD, directory.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let ready = lines.map_while(Result::ok).any(|line| line.contains("ready"));
    assert!(ready, "the child ended before it was killed");
    child.kill().unwrap();
    child.wait().unwrap();

    let (journal, found) = open(&directory);
    assert_eq!(journal.place(), directory.path().join("0"));
    let [down] = found.crashes.as_slice() else { panic!("{found:?}") };
    assert_eq!(sorted(down.marks.clone()), [Mark(1), Mark(3)]);
    assert_eq!(down.last_entered, at(3));
    let crash = Crash { at: at(3), alone: false };
    assert_eq!(found.suspects, [(Mark(1), vec![crash]), (Mark(3), vec![crash])]);
    assert_eq!(journal.recall(Mark(3)), Some((attempt(4), at(0))));
}

#[test]
fn one_that_was_alone_can_be_told_from_those_that_were_not() {
    let directory = TempDir::new().unwrap();
    let (journal, _) = open(&directory);
    let _seat = journal.enter(Mark(7), at(1));
    drop(journal);
    let (_journal, found) = open(&directory);
    assert_eq!(found.crashes, [Down { marks: vec![Mark(7)], last_entered: at(1) }]);
    assert_eq!(found.suspects, [(Mark(7), vec![Crash { at: at(1), alone: true }])]);
}

#[test]
fn a_crash_stays_known_when_the_next_life_dies_before_it_kept_anything() {
    let directory = TempDir::new().unwrap();
    let (journal, _) = open(&directory);
    let _seat = journal.enter(Mark(7), at(1));
    drop(journal);
    drop(open(&directory));
    let (_journal, found) = open(&directory);
    assert_eq!(found.crashes, []);
    assert_eq!(found.suspects, [(Mark(7), vec![Crash { at: at(1), alone: true }])]);
}

#[test]
fn a_crash_that_is_found_twice_is_one() {
    let directory = TempDir::new().unwrap();
    let (journal, _) = open(&directory);
    let _seat = journal.enter(Mark(7), at(1));
    let map = directory.path().join("0/map");
    let before = std::fs::read(&map).unwrap();
    drop(journal);
    drop(open(&directory));
    // The suspects were written, and the process died before the seats were emptied.
    std::fs::write(&map, before).unwrap();
    let (_journal, found) = open(&directory);
    assert_eq!(found.suspects, [(Mark(7), vec![Crash { at: at(1), alone: true }])]);
}

#[test]
fn a_clean_end_makes_no_suspects_and_keeps_what_is_known() {
    let directory = TempDir::new().unwrap();
    let (journal, _) = open(&directory);
    let _seat = journal.enter(Mark(7), at(1));
    let mut suspects = Suspects::new(PoisonConfig::default());
    suspects.crashed(&[Mark(1), Mark(2)], at(5));
    suspects.crashed(&[Mark(1)], at(6));
    journal.keep(&suspects).unwrap();
    journal.note(Mark(9), attempt(3), at(4));
    journal.close();

    let (journal, found) = open(&directory);
    assert_eq!(found.crashes, []);
    let kept: Vec<_> = suspects.all().map(|(mark, crashes)| (mark, crashes.to_vec())).collect();
    assert_eq!(found.suspects, kept);
    assert_eq!(journal.recall(Mark(9)), Some((attempt(3), at(4))));
}

#[test]
fn two_at_once_have_places_of_their_own_and_the_next_takes_over_what_both_left() {
    let directory = TempDir::new().unwrap();
    let (first, _) = open(&directory);
    let (second, found) = open(&directory);
    assert_eq!(found, Found::default());
    assert_ne!(first.place(), second.place());
    let _seats = [first.enter(Mark(1), at(1)), second.enter(Mark(2), at(2)), second.enter(Mark(3), at(3))];
    second.note(Mark(2), attempt(5), at(2));

    drop(second);
    let (third, found) = open(&directory);
    assert_eq!(third.place(), directory.path().join("1"));
    assert_eq!(found.crashes.len(), 1, "the first one lives");
    drop((first, third));

    let (fourth, found) = open(&directory);
    assert_eq!(fourth.place(), directory.path().join("0"));
    assert_eq!(found.crashes, [Down { marks: vec![Mark(1)], last_entered: at(1) }]);
    assert_eq!(found.suspects.len(), 3, "two of them were kept in the other place");
    assert_eq!(fourth.recall(Mark(2)), Some((attempt(5), at(2))));
    let (_fifth, found) = open(&directory);
    assert_eq!(found, Found::default(), "what was taken over is gone from there");
}

#[test]
fn when_all_seats_are_taken_the_next_goes_unjournalled_and_seats_are_used_again() {
    let directory = TempDir::new().unwrap();
    let (journal, _) = Journal::open(directory.path(), 2).unwrap();
    let taken = [journal.enter(Mark(1), at(1)), journal.enter(Mark(2), at(2))];
    let standing = journal.enter(Mark(3), at(3));
    journal.leave(standing);
    taken.into_iter().for_each(|seat| journal.leave(seat));
    let _again = [journal.enter(Mark(4), at(4)), journal.enter(Mark(5), at(5))];
    drop(journal);
    let (_journal, found) = Journal::open(directory.path(), 5).unwrap();
    assert_eq!(sorted(found.crashes[0].marks.clone()), [Mark(4), Mark(5)]);
}

#[test]
fn a_million_come_and_go() {
    let directory = TempDir::new().unwrap();
    let (journal, _) = open(&directory);
    for number in 0..1_000_000 {
        let seat = journal.enter(Mark(number), at(1));
        journal.leave(seat);
    }
    drop(journal);
    assert_eq!(open(&directory).1, Found::default());
}

#[test]
fn notes_are_overwritten_forgotten_and_bounded() {
    let directory = TempDir::new().unwrap();
    let (journal, _) = open(&directory);
    for mark in 0..MOST_NOTES as u64 {
        journal.note(Mark(mark), attempt(1), at(1));
    }
    journal.note(Mark(0), attempt(2), at(1));
    journal.note(Mark(1_000_000), attempt(1), at(2));
    assert_eq!(journal.recall(Mark(0)), Some((attempt(2), at(1))));
    assert_eq!(journal.recall(Mark(1)), None, "it was noted longest ago");
    journal.forget(Mark(2));
    drop(journal);

    let (journal, _) = open(&directory);
    assert_eq!(journal.recall(Mark(0)), Some((attempt(2), at(1))));
    assert_eq!(journal.recall(Mark(1_000_000)), Some((attempt(1), at(2))));
    assert_eq!([1, 2].map(|mark| journal.recall(Mark(mark))), [None, None]);
    assert_eq!(journal.recall(Mark(3)), Some((attempt(1), at(1))));
}

#[test]
fn a_file_of_another_version_is_set_aside_and_nobody_is_kept_from_starting() {
    let directory = TempDir::new().unwrap();
    let (journal, _) = open(&directory);
    let _seat = journal.enter(Mark(1), at(1));
    drop(journal);
    let map = directory.path().join("0/map");
    let mut bytes = std::fs::read(&map).unwrap();
    bytes[7] = 9;
    std::fs::write(&map, &bytes).unwrap();
    let (_journal, found) = open(&directory);
    assert_eq!(found, Found::default());
    assert_eq!(std::fs::read(directory.path().join("0/map.damaged")).unwrap(), bytes);
}

#[test]
fn a_directory_that_cannot_be_made_is_named_with_directions() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = Journal::open(&file, 1).unwrap_err().to_string();
    assert!(
        error.contains("cannot create") && error.contains("file") && error.contains("`state`"),
        "{error}"
    );
}

#[test]
fn whatever_stands_in_the_files_it_is_read_without_harm() {
    let directory = TempDir::new().unwrap();
    let (journal, _) = open(&directory);
    let _seats = [journal.enter(Mark(1), at(1)), journal.enter(Mark(2), at(2))];
    journal.note(Mark(3), attempt(1), at(1));
    drop(journal);
    let whole = std::fs::read(directory.path().join("0/map")).unwrap();
    let bytes = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..4_096),
        // A map of ours, with a few bytes changed where head, seats and first notes stand, and cut somewhere.
        (prop::collection::vec((0..320_usize, any::<u8>()), 0..8), 0..=whole.len()).prop_map(
            move |(changes, length)| {
                let mut bytes = whole.clone();
                changes.into_iter().for_each(|(at, byte)| bytes[at] = byte);
                if length % 2 == 0 {
                    bytes.truncate(length);
                }
                bytes
            }
        ),
    ];
    proptest!(ProptestConfig::with_cases(64), |(map in bytes, suspects: Vec<u8>)| {
        let directory = TempDir::new().unwrap();
        let place = directory.path().join("0");
        std::fs::create_dir(&place).unwrap();
        std::fs::write(place.join("map"), map).unwrap();
        std::fs::write(place.join("suspects"), suspects).unwrap();
        let (journal, found) = open(&directory);
        let marks: usize = found.crashes.iter().map(|down| down.marks.len()).sum();
        prop_assert!(marks <= 2, "{found:?}");
        let seat = journal.enter(Mark(4), at(4));
        journal.leave(seat);
        journal.note(Mark(5), attempt(2), at(5));
        prop_assert_eq!(journal.recall(Mark(5)), Some((attempt(2), at(5))));
    });
}

proptest! {
    #[test]
    fn suspects_are_read_as_they_were_written(
        suspects in prop::collection::btree_map(
            any::<u64>().prop_map(Mark),
            prop::collection::vec((any::<i64>(), any::<bool>()), 1..5),
            0..20,
        ),
    ) {
        let crash = |&(micros, alone): &(i64, bool)| Crash { at: Timestamp::from_micros(micros), alone };
        let suspects: Vec<(Mark, Vec<Crash>)> =
            suspects.iter().map(|(mark, crashes)| (*mark, crashes.iter().map(crash).collect())).collect();
        let bytes = kept::write(suspects.iter().map(|(mark, crashes)| (*mark, crashes.as_slice())));
        let read = kept::read(&bytes).unwrap();
        let flat: Vec<_> =
            suspects.iter().flat_map(|(mark, crashes)| crashes.iter().map(|crash| (*mark, *crash))).collect();
        prop_assert_eq!(read, flat);
        for length in 0..bytes.len() {
            prop_assert!(kept::read(&bytes[..length]).is_none());
        }
    }
}
