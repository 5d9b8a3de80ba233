//! What the writer finds if the new content does not serve, or the copying breaks off.

use rusqlite::backup::Backup;
use tempfile::TempDir;

use super::*;
use crate::sqlite::audit;
use crate::sqlite::restore::stage;
use crate::sqlite::writer::Shared;
use crate::{Event, StoreLimits};

fn open_in(home: &TempDir) -> Writer {
    Writer::open(&home.path().join("office.db"), &StoreLimits::default(), Arc::new(Shared::default()))
        .unwrap()
}

fn note(reason: &str) -> audit::Row {
    let deed = crate::Deed { author: "ops".into(), reason: Some(reason.into()), reference: None };
    audit::Row::by(dlo_core::time::Timestamp::EPOCH, Event::Exported, 0, &deed)
}

fn reasons(db: &Connection) -> Vec<String> {
    let mut list = db.prepare("SELECT reason FROM audit ORDER BY seq").unwrap();
    list.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// A writer with one audit entry and a block, and a staged backup with other ones.
fn both(home: &TempDir) -> (Writer, Staged) {
    let other = tempfile::tempdir().unwrap();
    let file = home.path().join("copy");
    let backed_up = open_in(&other);
    audit::append(&backed_up.connection, &note("of the backup")).unwrap();
    crate::sqlite::backup::backup(&backed_up.connection, &file).unwrap();
    let mut writer = open_in(home);
    audit::append(&writer.connection, &note("of the office")).unwrap();
    writer.next_block = 7;
    let staged = stage(&file, home.path(), &StoreLimits::default(), &note("restored")).unwrap();
    (writer, staged)
}

#[test]
fn what_does_not_serve_is_taken_back_with_the_memory() {
    let home = tempfile::tempdir().unwrap();
    let (mut writer, staged) = both(&home);
    let database = home.path().join("office.db");
    let seen = std::cell::RefCell::new(Vec::new());
    let refusal = swap_if(&mut writer, &database, &staged, || {
        *seen.borrow_mut() = reasons(&open::reader(&database).unwrap());
        Err(StoreError::Refused("no".into()))
    });
    assert!(refusal.unwrap_err().to_string().contains("put back"));
    assert_eq!(*seen.borrow(), ["of the backup", "restored"]);
    assert_eq!(reasons(&writer.connection), ["of the office"]);
    assert_eq!(writer.next_block, 7);
    audit::append(&writer.connection, &note("afterwards")).unwrap();
    drop(writer);
    assert_eq!(reasons(&open_in(&home).connection), ["of the office", "afterwards"]);
}

#[test]
fn what_serves_is_there_with_the_entry_of_its_restore() {
    let home = tempfile::tempdir().unwrap();
    let (mut writer, staged) = both(&home);
    swap(&mut writer, &home.path().join("office.db"), &staged).unwrap();
    assert_eq!(writer.next_block, 1);
    drop((writer, staged));
    assert_eq!(reasons(&open_in(&home).connection), ["of the backup", "restored"]);
    let left = std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(!left.into_iter().any(|name| name.to_string_lossy().starts_with("restoring-")));
}

#[test]
fn copying_that_breaks_off_leaves_the_old_content() {
    let home = tempfile::tempdir().unwrap();
    let (mut writer, staged) = both(&home);
    {
        let copying = Backup::new(&staged.writer.connection, &mut writer.connection).unwrap();
        assert_eq!(copying.step(20).unwrap(), StepResult::More);
    }
    assert_eq!(reasons(&writer.connection), ["of the office"]);
}
