//! The bare SQLite file (WAL, FULL) beside an office: written by a process that is killed, opened and asked by another. Both are
//! this program, started once more.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use crate::bare;
use crate::moment::Moment;
use crate::restart::MORE;

/// The first words of command lines that make this program the writer, and the one who asks.
pub(crate) const WRITE: &str = "sqlite-write";
pub(crate) const ANSWER: &str = "sqlite-answer";
/// Rows of a transaction.
const BATCH: u64 = 1_000;
const NEWEST: &str = "SELECT id, origin, source, event_type, error_class, status, failed_at FROM dead_letters
    WHERE status = 'open' ORDER BY failed_at DESC LIMIT 50";

pub(crate) struct Sqlite {
    database: PathBuf,
}

impl Sqlite {
    pub(crate) fn filled(scratch: &Path, rows: u64) -> Self {
        let database = scratch.join("bare.db");
        bare::run(&database, 0, rows);
        Self { database }
    }

    /// Seconds until a process answers that starts behind a kill.
    pub(crate) fn round(&self, moment: Moment, first: u64) -> f64 {
        let (mut writer, lines) = self.start(&[WRITE], &[&first.to_string()]);
        let mut written = lines.lines().map_while(Result::ok).filter_map(|line| line.parse().ok());
        let reached = written.find(|rows: &u64| moment.is_reached(*rows));
        assert!(reached.is_some(), "the writer stopped before it was killed");
        moment.pass();
        let _ = writer.kill();
        let _ = writer.wait();
        let began = Instant::now();
        let (mut asked, mut answer) = self.start(&[ANSWER], &[]);
        let mut line = String::new();
        answer.read_line(&mut line).expect("its answer");
        let spent = began.elapsed().as_secs_f64();
        assert_eq!(line.trim(), "50", "the newest rows");
        let _ = asked.wait();
        spent
    }

    fn start(&self, before: &[&str], behind: &[&str]) -> (Child, BufReader<std::process::ChildStdout>) {
        let program = std::env::current_exe().expect("this program");
        let mut command = Command::new(program);
        command.args(before).arg(&self.database).args(behind).stdout(Stdio::piped());
        let mut process = command.spawn().expect("start this program");
        let lines = BufReader::new(process.stdout.take().expect("its words"));
        (process, lines)
    }
}

/// The life of the writer: says after each transaction how many rows are there.
pub(crate) fn write(database: &Path, first: &str) {
    let first: u64 = first.parse().expect("a number");
    let mut connection = bare::open(database);
    for rows in (0..MORE).step_by(BATCH as usize) {
        bare::insert(&mut connection, first + rows, BATCH);
        println!("{}", rows + BATCH);
    }
}

/// The life of the one who asks: says how many of the newest fifty it found.
pub(crate) fn answer(database: &Path) {
    let connection = bare::open(database);
    let mut newest = connection.prepare(NEWEST).expect("prepare");
    let mut rows = newest.query([]).expect("ask");
    let mut found = 0;
    while rows.next().expect("a row").is_some() {
        found += 1;
    }
    println!("{found}");
}
