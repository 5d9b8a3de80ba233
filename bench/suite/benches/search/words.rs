//! Tantivy beside the store: the questions about error text, in its words.
//!
//! What is compared: a call of our `Store` in this process, which hands over whole letters, to a search of Tantivy in its
//! own, through its Python binding, which hands over ids. Its index has error texts only. It knows whole words: a part of one
//! is a pattern that it holds against all words there are.

use std::path::Path;
use std::time::Duration;

use dlo_store::sqlite::SqliteStore;

use crate::piped::Piped;
use crate::questions::{self, Beside, OF_ERROR_TEXT, Question, Turns};

pub(crate) async fn run(ours: &SqliteStore, letters: &Path, scratch: &Path, count: u64, rounds: u64) {
    println!("beside Tantivy: {count} letters, each question {rounds} times of both in turn");
    let place = scratch.join("tantivy");
    std::fs::create_dir_all(&place).expect("a directory");
    let Some(mut theirs) = Piped::start("tantivy", "tantivy_text.py", letters, &place) else { return };
    println!(
        "  indexed in {:.0} s, {:.0} B a letter",
        theirs.loaded.as_secs_f64(),
        theirs.bytes / count as f64
    );
    let turns = Turns { rounds, every: 1, patience: Duration::from_secs(20) };
    questions::ask(ours, &mut theirs, &OF_ERROR_TEXT, count, &turns, "search.tantivy").await;
}

impl Beside for Piped {
    const NAME: &'static str = "Tantivy";

    async fn answer(&mut self, question: &Question, n: u64) -> (usize, f64) {
        let [found, millis] = tokio::task::block_in_place(|| self.ask::<2>(&(question.words)(n)));
        (found as usize, millis)
    }
}
