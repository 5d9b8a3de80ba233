//! `growth`: one office, grown through 10 thousand, 100 thousand, a million and ten million letters, measured at each.
//!
//! `growth [--letters N] [--asked N]`: up to ten million unless told otherwise. The office is a process of its own, filled
//! and asked over HTTP. A table shows every curve, and the ends of each are held against its bar. Not a test: a slow
//! machine must not fail a build.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark stops where a step fails, and prints"
)]

use std::path::Path;

mod ask;
mod curves;
mod grow;
#[path = "../ground/indexed.rs"]
mod indexed;
#[expect(dead_code, reason = "other workloads hand the same letters to a store")]
#[path = "../ground/letters.rs"]
mod letters;
mod memory;
#[path = "../ground/office.rs"]
mod office;
mod replay;
mod restart;
mod room;
#[path = "../ground/sending.rs"]
mod sending;
mod serving;

use curves::{Curve, Curves};
use dlo_bench::measure::peak_mb;
use grow::Grown;

/// Where curves are measured; a run ends at the number of letters that was asked for.
const SIZES: [u64; 4] = [10_000, 100_000, 1_000_000, LAST];
/// Where the bars of curves end.
const LAST: u64 = 10_000_000;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let number = |name: &str, default: u64| {
        let at = arguments.iter().position(|argument| argument == name);
        at.and_then(|at| arguments.get(at + 1)).and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let (last, asked) = (number("--letters", LAST).max(SIZES[0]), number("--asked", 100).max(1));
    let scratch = room::Scratch::new(last).unwrap_or_else(|refusal| {
        eprintln!("growth: {refusal}");
        std::process::exit(1)
    });
    let sizes: Vec<u64> = SIZES.into_iter().filter(|size| *size < last).chain([last]).collect();
    println!("growth: one office through {sizes:?} letters, each question asked {asked} times over HTTP");
    let mut curves = Curves::default();
    let mut there = 0;
    for size in sizes {
        measure_at(&scratch.office, there, size, asked, &mut curves);
        there = size;
    }
    println!("{curves}");
    curves.hold(LAST);
}

/// Grows the office from `there` to `size` letters and adds a point to every curve.
fn measure_at(data: &Path, there: u64, size: u64, asked: u64, curves: &mut Curves) {
    let Grown { burst, storm, capturing_mb, lag, after_mb } =
        grow::grow(data, there, grow::before_kills(size));
    curves.add(Curve::Capture, size, burst);
    curves.add(Curve::Storm, size, storm);
    curves.add(Curve::MemoryCapturing, size, vec![capturing_mb]);
    curves.add(Curve::IndexLag, size, vec![lag]);
    curves.add(Curve::MemoryAfter, size, vec![after_mb]);
    println!("  {size} letters: killed, started again, asked");
    curves.add(Curve::RestartKilled, size, restart::after_kills(data, grow::before_kills(size), size));
    curves.add(Curve::Disk, size, vec![room::bytes(data) / size as f64]);
    curves.add(Curve::Replay, size, replay::first_messages(data, size));
    curves.add(Curve::Restart, size, restart::after_stops(data));
    let office = office::Office::start(data);
    curves.add(Curve::MemoryIdle, size, vec![memory::idle_mb(&office)]);
    for (curve, times) in ask::all(&office, size, asked) {
        curves.add(curve, size, times);
    }
    curves.add(Curve::MemoryTriage, size, vec![peak_mb(Some(office.pid()))]);
    restart::stop(office);
}
