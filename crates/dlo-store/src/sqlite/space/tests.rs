//! The reserve of a data directory: made, given to the write-ahead log, and made again.

use super::*;

#[test]
fn a_write_that_fails_refuses_letters_until_a_reserve_is_made_again() {
    let directory = tempfile::tempdir().unwrap();
    let space = Space::open(directory.path());
    assert!(!space.look() && space.check().is_ok());
    let reserve = directory.path().join("office.reserve");
    assert_eq!(std::fs::metadata(&reserve).unwrap().len(), RESERVE);
    let other = space.judge(StoreError::Refused("a defect".into()));
    assert!(matches!(other, StoreError::Refused(_)) && !space.is_full(), "there is space");

    let full = space.judge(StoreError::DiskFull(Disk::DataDirectory));
    assert!(full.is_disk_full() && space.check().is_err());
    assert!(space.look() && !space.look(), "the reserve is given once");
    let connection = Connection::open(directory.path().join("office.db")).unwrap();
    connection.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (a);").unwrap();
    space.give(&connection);
    assert!(!reserve.exists());
    let log = std::fs::metadata(directory.path().join("office.db-wal")).unwrap();
    assert!(log.len() >= RESERVE, "{}", log.len());
    connection.execute_batch("INSERT INTO t VALUES (1);").unwrap();
    let again = Connection::open(directory.path().join("office.db")).unwrap();
    assert_eq!(again.query_row("SELECT a FROM t", [], |row| row.get::<_, i64>(0)).unwrap(), 1);

    space.state().failed = Instant::now().checked_sub(HOLD);
    assert!(!space.look());
    assert!(space.check().is_ok() && reserve.exists());
}
