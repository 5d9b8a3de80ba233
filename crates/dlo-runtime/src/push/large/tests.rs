//! Files of large letters: who may read them, and what a crash or a full disk leaves.

use tempfile::TempDir;

use super::*;

const ROOMY: ByteSize = ByteSize(1_000);

#[test]
fn files_and_directories_can_be_read_by_their_owner_only() {
    let home = TempDir::new().unwrap();
    let directory = home.path().join("state/orders/large");
    write(&directory, &directory.join("1.json"), b"letter", ROOMY).unwrap();
    private::assert_private(home.path());
}

#[test]
fn what_a_crash_left_unfinished_takes_no_room_and_what_another_process_writes_stays() {
    let home = TempDir::new().unwrap();
    let (left, foreign) = (home.path().join("1.part"), home.path().join("2.part"));
    fs::write(&left, [0; 900]).unwrap();
    fs::write(&foreign, [0; 100]).unwrap();
    let writer = File::open(&foreign).unwrap();
    writer.try_lock().unwrap();
    write(home.path(), &home.path().join("3.json"), &[0; 900], ROOMY).unwrap();
    assert!(!left.exists() && foreign.exists());
    let full = write(home.path(), &home.path().join("4.json"), b"x", ROOMY).unwrap_err();
    assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    write(home.path(), &home.path().join("3.json"), &[1; 900], ROOMY).unwrap();
}

#[test]
fn a_file_that_cannot_get_its_name_leaves_nothing_unfinished() {
    let home = TempDir::new().unwrap();
    let taken = home.path().join("1.json");
    fs::create_dir(&taken).unwrap();
    fs::write(taken.join("other"), "").unwrap();
    write(home.path(), &taken, b"letter", ByteSize(1_000_000)).unwrap_err();
    assert_eq!(files(home.path()), [taken]);
}
