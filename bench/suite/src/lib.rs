//! What the benchmarks of all crates share: numbers, runners, bars, and the record that the bench book is made of.
//!
//! A bench takes turns between [`runner::Runner`]s and hands every figure to [`record`], which prints it beside its bar
//! (`bench/bars.toml`, read by [`bars`]) and appends it to the file that `DLO_BENCH_RECORD` names. [`book`] makes pages and
//! pictures of such files.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark stops where a step fails, and prints what it measured"
)]

pub mod against;
pub mod bars;
pub mod book;
pub mod dlo;
pub mod lines;
pub mod machine;
pub mod measure;
pub mod numbered;
pub mod record;
pub mod runner;
pub mod usage;
