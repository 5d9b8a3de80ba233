//! The spool over deaths and damage. A spool that is dropped ends as a killed one does: it has no last words.

use std::fs;

use dlo_core::message::Payload;
use proptest::prelude::*;
use tempfile::TempDir;
use uuid::Uuid;

use super::*;

const ROOMY: ByteSize = ByteSize(64 * 1024 * 1024);

fn open(directory: &TempDir) -> Spool {
    Spool::open(directory.path(), ROOMY).unwrap()
}

fn death(number: usize) -> DeathId {
    DeathId(Uuid::from_u128(number as u128))
}

fn letter(number: usize) -> Spooled {
    sized(number, 10)
}

fn sized(number: usize, size: usize) -> Spooled {
    let mut message = Message { payload: Payload::from(vec![b'x'; size]), ..Message::default() };
    message.headers.push_text("number", number.to_string());
    Spooled { death: death(number), to: Destination::queue("orders.dlq"), message }
}

fn letters(numbers: std::ops::Range<usize>) -> Vec<Spooled> {
    numbers.map(letter).collect()
}

fn all(spool: &mut Spool) -> Vec<Spooled> {
    spool.front(usize::MAX, usize::MAX).unwrap()
}

/// Files whose names end so, in order.
fn files(directory: &TempDir, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.filter(|path| path.to_str().unwrap().ends_with(ending)).collect();
    files.sort();
    files
}

#[test]
fn files_and_directories_can_be_read_by_their_owner_only() {
    let home = TempDir::new().unwrap();
    let directory = home.path().join("state/orders");
    let mut spool = Spool::open(&directory, ROOMY).unwrap();
    spool.push(&letters(0..2)).unwrap();
    let segment = segment::path(&directory, 0);
    let mut bytes = fs::read(&segment).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&segment, &bytes).unwrap();
    assert_eq!(spool.front(9, usize::MAX).unwrap(), letters(0..1));
    assert!(fs::read_dir(&directory).unwrap().count() > 3, "the lock, the head, a segment, what is damaged");
    private::assert_private(home.path());
}

#[test]
fn letters_come_back_in_order_and_go_when_they_are_confirmed() {
    let directory = TempDir::new().unwrap();
    let mut spool = open(&directory);
    spool.push(&letters(0..3)).unwrap();
    spool.push(&letters(3..5)).unwrap();
    assert_eq!(all(&mut spool), letters(0..5));
    assert_eq!(spool.front(2, usize::MAX).unwrap(), letters(0..2));
    assert_eq!(spool.front(9, 1).unwrap(), letters(0..1), "one comes, however large it is");
    spool.pop(2).unwrap();
    assert_eq!(spool.deaths().collect::<Vec<_>>(), [death(2), death(3), death(4)]);
    assert!(!spool.contains(death(1)) && spool.contains(death(2)));
    assert_eq!((spool.len(), spool.is_empty()), (3, false));

    drop(spool);
    let mut spool = open(&directory);
    assert_eq!(all(&mut spool), letters(2..5), "what was confirmed does not come again");
    spool.push(&letters(5..6)).unwrap();
    assert_eq!(all(&mut spool), letters(2..6));
}

#[test]
fn when_all_are_confirmed_the_space_is_given_back_and_the_spool_goes_on() {
    let directory = TempDir::new().unwrap();
    let mut spool = open(&directory);
    for round in 0..3 {
        spool.push(&letters(round..round + 1)).unwrap();
        assert_eq!(all(&mut spool), letters(round..round + 1));
        spool.pop(7).unwrap();
        assert_eq!((spool.bytes(), files(&directory, ".letters").len()), (0, 0));
        if round == 1 {
            drop(spool);
            spool = open(&directory);
            assert!(spool.is_empty());
        }
    }
}

#[test]
fn space_comes_back_by_segments_while_others_wait() {
    let directory = TempDir::new().unwrap();
    let mut spool = Spool::open(directory.path(), ByteSize(1024 * 1024)).unwrap();
    (0..10).for_each(|number| spool.push(&[sized(number, 70_000)]).unwrap());
    assert_eq!(files(&directory, ".letters").len(), 10);
    let before = spool.bytes();
    spool.pop(4).unwrap();
    assert_eq!(files(&directory, ".letters").len(), 6);
    assert!(spool.bytes() < before * 7 / 10);
}

#[test]
fn a_batch_beyond_the_bound_is_refused_whole() {
    let directory = TempDir::new().unwrap();
    let mut spool = Spool::open(directory.path(), ByteSize(1_000)).unwrap();
    spool.push(&letters(0..2)).unwrap();
    let before = spool.bytes();
    let error = spool.push(&[letter(2), sized(3, 900)]).unwrap_err();
    assert!(matches!(error, SpoolError::Full { .. }), "{error}");
    assert_eq!((spool.bytes(), spool.len()), (before, 2));
    spool.push(&letters(2..3)).unwrap();
    drop(spool);
    assert_eq!(all(&mut open(&directory)), letters(0..3));
}

#[test]
fn a_second_owner_is_refused_with_directions() {
    let directory = TempDir::new().unwrap();
    let _first = open(&directory);
    let error = Spool::open(directory.path(), ROOMY).unwrap_err();
    assert!(matches!(error, SpoolError::Held { .. }) && error.to_string().contains("of its own"), "{error}");
}

#[test]
fn the_same_death_twice_is_known_until_both_are_gone() {
    let directory = TempDir::new().unwrap();
    let mut spool = open(&directory);
    spool.push(&[letter(1), letter(1)]).unwrap();
    spool.pop(1).unwrap();
    assert!(spool.contains(death(1)));
    spool.pop(1).unwrap();
    assert!(!spool.contains(death(1)));
}

#[test]
fn a_rotten_letter_is_set_aside_and_those_behind_it_come() {
    let directory = TempDir::new().unwrap();
    let mut spool = open(&directory);
    spool.push(&letters(0..3)).unwrap();
    drop(spool);
    let file = &files(&directory, ".letters")[0];
    let mut bytes = fs::read(file).unwrap();
    let framed = (bytes.len() - segment::HEAD.len()) / 3;
    bytes[segment::HEAD.len() + framed + record::FRAME + 3] ^= 1;
    fs::write(file, &bytes).unwrap();
    let mut spool = open(&directory);
    assert_eq!(all(&mut spool), [letter(0), letter(2)]);
    assert!(!spool.contains(death(1)));
    let aside = &files(&directory, ".damaged")[0];
    assert_eq!(fs::read(aside).unwrap().len(), framed);
}

#[test]
fn what_rots_or_goes_while_it_waits_is_named_as_lost() {
    let directory = TempDir::new().unwrap();
    let mut spool = open(&directory);
    spool.push(&letters(0..3)).unwrap();
    let file = &files(&directory, ".letters")[0];
    let mut bytes = fs::read(file).unwrap();
    bytes[segment::HEAD.len() + record::FRAME] ^= 1;
    fs::write(file, &bytes).unwrap();
    assert_eq!(all(&mut spool), letters(1..3));
    assert_eq!(spool.take_lost(), [death(0)]);
    fs::remove_file(file).unwrap();
    assert_eq!(all(&mut spool), []);
    assert_eq!(spool.take_lost(), [death(1), death(2)]);
    assert_eq!((spool.len(), spool.bytes()), (0, 0));
    spool.push(&letters(4..5)).unwrap();
    assert_eq!(all(&mut spool), letters(4..5));
}

#[test]
fn a_lost_head_repeats_confirmed_letters_and_hides_none() {
    let directory = TempDir::new().unwrap();
    let mut spool = open(&directory);
    spool.push(&letters(0..3)).unwrap();
    spool.pop(1).unwrap();
    drop(spool);
    fs::write(directory.path().join("head"), b"DLOHEAD\x01 nonsense").unwrap();
    assert_eq!(all(&mut open(&directory)), letters(0..3));
}

#[test]
fn a_file_of_another_version_is_set_aside() {
    let directory = TempDir::new().unwrap();
    fs::write(segment::path(directory.path(), 4), b"DLOLETTERS\0\x02 of tomorrow").unwrap();
    let mut spool = open(&directory);
    assert_eq!(files(&directory, ".damaged").len(), 1);
    spool.push(&letters(0..1)).unwrap();
    assert_eq!(all(&mut spool), letters(0..1));
}

#[test]
fn errors_and_debug_show_no_byte_of_a_letter() {
    let directory = TempDir::new().unwrap();
    let mut spool = Spool::open(directory.path(), ByteSize(10)).unwrap();
    let mut secret = letter(1);
    secret.message.payload = Payload::from("4111 1111");
    let error = spool.push(std::slice::from_ref(&secret)).unwrap_err();
    let shown = format!("{error} {error:?} {secret:?} {spool:?}");
    assert!(error.to_string().contains(&format!("may hold {}", ByteSize(10))), "{error}");
    assert!(!shown.contains("4111"), "{shown}");
}

fn any_letter() -> impl Strategy<Value = Spooled> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..40);
    let headers = prop::collection::vec(("[a-zä:-]{0,8}", prop::option::of(bytes())), 0..5);
    let to = (any::<String>(), any::<Option<i32>>());
    (any::<u128>(), to, prop::option::of(bytes()), headers, bytes()).prop_map(
        |(death, (queue, partition), key, headers, payload)| {
            let mut message = Message {
                key: key.map(Payload::from),
                payload: Payload::from(payload),
                ..Message::default()
            };
            headers.into_iter().for_each(|(name, value)| message.headers.push(name, value.map(Into::into)));
            Spooled {
                death: DeathId(Uuid::from_u128(death)),
                to: Destination { queue, partition, route: None },
                message,
            }
        },
    )
}

fn framed(letter: &Spooled) -> usize {
    record::write(letter, &mut Vec::new()).unwrap() as usize
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_is_pushed_comes_back_over_reopening_with_the_tail_cut_anywhere(
        batches in prop::collection::vec(prop::collection::vec(any_letter(), 1..4), 1..4),
        confirmed in 0..3_usize,
        cut in any::<prop::sample::Index>(),
    ) {
        let directory = TempDir::new().unwrap();
        let mut spool = open(&directory);
        batches.iter().for_each(|batch| spool.push(batch).unwrap());
        let pushed = batches.concat();
        prop_assert_eq!(&all(&mut spool), &pushed);
        let confirmed = confirmed.min(pushed.len() - 1);
        spool.pop(confirmed).unwrap();
        drop(spool);

        let file = &files(&directory, ".letters")[0];
        let length = cut.index(fs::metadata(file).unwrap().len() as usize + 1);
        File::options().write(true).open(file).unwrap().set_len(length as u64).unwrap();
        let mut end = segment::HEAD.len();
        let whole = pushed.iter().take_while(|letter| { end += framed(letter); end <= length }).count();
        let mut spool = open(&directory);
        prop_assert_eq!(&all(&mut spool), pushed.get(confirmed..whole).unwrap_or_default());

        spool.push(&letters(0..2)).unwrap();
        drop(spool);
        let mut expected = pushed.get(confirmed..whole).unwrap_or_default().to_vec();
        expected.extend(letters(0..2));
        prop_assert_eq!(all(&mut open(&directory)), expected);
        prop_assert!(files(&directory, ".damaged").is_empty(), "a tail that is cut is nothing damaged");
    }

    #[test]
    fn whatever_stands_in_the_files_it_is_read_without_harm(
        noise in prop::collection::vec(any::<u8>(), 0..200),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        headless: bool,
        head: Vec<u8>,
    ) {
        let directory = TempDir::new().unwrap();
        let mut bytes = if headless { Vec::new() } else { segment::HEAD.to_vec() };
        letters(0..3).iter().for_each(|letter| { record::write(letter, &mut bytes).unwrap(); });
        bytes.extend(noise);
        changes.iter().for_each(|(at, byte)| { let at = at.index(bytes.len()); bytes[at] = *byte; });
        fs::write(segment::path(directory.path(), 0), bytes).unwrap();
        fs::write(directory.path().join("head"), head).unwrap();
        let mut spool = open(&directory);
        let found = all(&mut spool);
        prop_assert!(found.iter().all(|found| letters(0..3).contains(found)), "only what was written: {found:?}");
        spool.push(&letters(7..8)).unwrap();
        prop_assert_eq!(all(&mut spool).pop(), Some(letter(7)));
    }
}
