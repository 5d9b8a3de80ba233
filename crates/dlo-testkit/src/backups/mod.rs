//! Mutated copies of a SQLite backup: what a restore must refuse, or take without harm.
//!
//! The kind follows from the number and everything else from the seed, so the same seed and number give the same file.
//! `tables.rs` changes the schema, `rows.rs` the rows, `bytes.rs` the file.

use std::path::Path;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rusqlite::Connection;

mod bytes;
mod rows;
mod tables;

/// A random choice that the schema does not allow is made again so often.
const TRIES: usize = 200;

/// What is done to a backup. A restore must take the first three.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Untouched,
    Vacuumed,
    /// The file says that it has a write-ahead log: somebody copied the database itself.
    WriteAheadLog,
    DropTable,
    EmptyTable,
    RetypeColumn,
    DropColumn,
    RenameColumn,
    AddColumn,
    AddTable,
    AddTrigger,
    AddView,
    ViewForTable,
    DropIndex,
    AddIndex,
    DeleteRow,
    ChangeNumber,
    WrongType,
    Counters,
    OtherVersion,
    Cut,
    FlipHeader,
    FlipFirstPage,
    FlipMiddle,
    FlipEnd,
    FlipAnywhere,
    ZeroPage,
    SwapPages,
    NoDatabase,
    EmptyFile,
    EmptyDatabase,
    PageSize,
    Encoding,
    AutoVacuum,
}

impl Kind {
    pub const ALL: [Self; 34] = [
        Self::Untouched,
        Self::Vacuumed,
        Self::WriteAheadLog,
        Self::DropTable,
        Self::EmptyTable,
        Self::RetypeColumn,
        Self::DropColumn,
        Self::RenameColumn,
        Self::AddColumn,
        Self::AddTable,
        Self::AddTrigger,
        Self::AddView,
        Self::ViewForTable,
        Self::DropIndex,
        Self::AddIndex,
        Self::DeleteRow,
        Self::ChangeNumber,
        Self::WrongType,
        Self::Counters,
        Self::OtherVersion,
        Self::Cut,
        Self::FlipHeader,
        Self::FlipFirstPage,
        Self::FlipMiddle,
        Self::FlipEnd,
        Self::FlipAnywhere,
        Self::ZeroPage,
        Self::SwapPages,
        Self::NoDatabase,
        Self::EmptyFile,
        Self::EmptyDatabase,
        Self::PageSize,
        Self::Encoding,
        Self::AutoVacuum,
    ];

    /// Nothing is wrong with it.
    pub fn is_good(self) -> bool {
        matches!(self, Self::Untouched | Self::Vacuumed | Self::WriteAheadLog)
    }

    /// Its schema is not that of the backup: no restore may take it.
    pub fn is_foreign(self) -> bool {
        use Kind::*;
        let schema = [
            DropTable,
            RetypeColumn,
            DropColumn,
            RenameColumn,
            AddColumn,
            AddTable,
            AddTrigger,
            AddView,
            ViewForTable,
            DropIndex,
            AddIndex,
        ];
        let file = [OtherVersion, Cut, NoDatabase, EmptyFile, EmptyDatabase, PageSize, Encoding, AutoVacuum];
        schema.contains(&self) || file.contains(&self)
    }
}

#[derive(Debug)]
pub struct Mutant {
    pub kind: Kind,
    /// What was done, for the message of a test that fails.
    pub what: String,
    pub bytes: Vec<u8>,
}

/// The mutant `number` of a backup. `scratch` is a directory for the file while it is changed.
pub fn mutant(backup: &[u8], seed: u64, number: usize, scratch: &Path) -> Mutant {
    let kind = Kind::ALL[number % Kind::ALL.len()];
    let mut random = StdRng::seed_from_u64(seed.wrapping_mul(1_000_003).wrapping_add(number as u64));
    let mut bytes = backup.to_vec();
    let what = match kind {
        Kind::Untouched => "nothing".to_owned(),
        Kind::WriteAheadLog
        | Kind::Cut
        | Kind::NoDatabase
        | Kind::EmptyFile
        | Kind::ZeroPage
        | Kind::SwapPages => bytes::change(kind, &mut bytes, &mut random),
        Kind::FlipHeader | Kind::FlipFirstPage | Kind::FlipMiddle | Kind::FlipEnd | Kind::FlipAnywhere => {
            bytes::flip(kind, &mut bytes, &mut random)
        }
        _ => {
            let file = scratch.join("mutant.db");
            let what = in_file(kind, backup, &file, &mut random);
            bytes = std::fs::read(&file).expect("the mutant");
            std::fs::remove_file(&file).expect("the mutant is ours");
            what
        }
    };
    Mutant { kind, what, bytes }
}

fn in_file(kind: Kind, backup: &[u8], file: &Path, random: &mut StdRng) -> String {
    std::fs::write(file, backup).expect("a file for the mutant");
    if matches!(kind, Kind::EmptyDatabase | Kind::Encoding) {
        return tables::rebuild(kind, file);
    }
    let db = Connection::open(file).expect("the backup is a database");
    for _ in 0..TRIES {
        let tried = match kind {
            Kind::EmptyTable | Kind::DeleteRow | Kind::ChangeNumber | Kind::WrongType | Kind::Counters => {
                rows::change(kind, &db, random)
            }
            _ => tables::change(kind, &db, random),
        };
        if let Ok(Some(what)) = tried {
            db.close().expect("the mutant is closed");
            return what;
        }
    }
    panic!("no mutation of the kind {kind:?} was possible in {TRIES} tries");
}

fn pick<'a, T>(from: &'a [T], random: &mut StdRng) -> Option<&'a T> {
    (!from.is_empty()).then(|| &from[random.random_range(0..from.len())])
}

/// Names of the schema by kind. Tables of the token index are tables as well.
fn names(db: &Connection, kind: &str) -> rusqlite::Result<Vec<String>> {
    let sql = "SELECT name FROM sqlite_master WHERE type = ?1 AND sql IS NOT NULL
                AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name";
    db.prepare(sql)?.query_map([kind], |row| row.get(0))?.collect()
}

/// Columns of a table with their declared types.
fn columns(db: &Connection, table: &str) -> rusqlite::Result<Vec<(String, String)>> {
    let sql = "SELECT name, type FROM pragma_table_info(?1) ORDER BY cid";
    db.prepare(sql)?.query_map([table], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_mutants_and_another_seed_gives_others() {
        let scratch = tempfile::tempdir().expect("a directory");
        let file = scratch.path().join("some.db");
        let db = Connection::open(&file).expect("a database");
        db.execute_batch(
            "CREATE TABLE letters (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, age INTEGER);
             CREATE INDEX by_age ON letters (age);
             WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 3000)
             INSERT INTO letters (name, age) SELECT 'letter number ' || n, n % 7 FROM n;
             PRAGMA user_version = 7;",
        )
        .expect("rows");
        db.close().expect("closed");
        let backup = std::fs::read(&file).expect("its bytes");
        let all = |seed| -> Vec<_> {
            (0..Kind::ALL.len()).map(|number| mutant(&backup, seed, number, scratch.path()).what).collect()
        };
        let (one, other) = (all(1), all(2));
        assert_eq!(one, all(1));
        assert_ne!(one, other);
    }
}
