//! `ingest`: letters over HTTP into `dlo serve`, beside the bare loop, interleaved; then on to a million.
//!
//! Bodies are made before the clock starts, as the bare loop's rows are. Both write to fresh files of one disk. Counts
//! are checked: every letter must be answered "stored" and be counted.

use std::path::Path;
use std::time::{Duration, Instant};

use dlo_bench::against::Against;
use dlo_bench::runner::Round;

use crate::indexed::indexed;
use crate::measure::{Median, peak_mb, per_second};
use crate::office::{Office, number_behind};
use crate::sending::{Load, send};
use crate::usage::Usage;
use crate::{bare, record};

/// Letters in one timed piece: small enough to be made beforehand.
const PIECE: u64 = 50_000;
/// Letters of a burst, and of its pieces.
const BURST: u64 = 50_000;
const PIECE_OF_BURST: u64 = 10_000;
/// How long an office is watched to see whether it works, and how long it may work behind a storm. Merging begins two
/// seconds behind the last letter.
const LOOK: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(60);

/// Letters of one run when two builds are compared.
pub(crate) const COMPARED: u64 = 250_000;

/// Compares two builds of `dlo`, each run on a fresh store. The rate is that of sending. CPU is that of the office until it
/// is idle, because indexing and merging are part of the cost of a letter.
pub(crate) async fn compare(against: &Against, scratch: &Path, letters: u64) {
    let data = scratch.join("office-compared");
    let loads: Vec<Load> =
        (0..letters).step_by(PIECE as usize).map(|at| Load::new(at, PIECE.min(letters - at))).collect();
    let once = async |program: &Path| {
        let office = Office::start_with(program, &data);
        let before = Usage::of(office.pid());
        let spent = loads.iter().map(|load| load.send(&office)).sum();
        // First without questions, which would count as CPU of the office.
        at_rest(&office);
        indexed(&office);
        let took = Usage::of(office.pid()).since(before);
        let stored = number_behind(&office.get("/api/v1/stats").1, "\"open\":");
        assert_eq!(stored, letters, "every letter is there");
        drop(office);
        let _ = std::fs::remove_dir_all(&data);
        Round { messages: letters, spent, client: Some(took.cpu), server: None, peak_mb: Some(took.peak_mb) }
    };
    against.compare(&format!("ingest of {letters} letters over HTTP"), "letter", once).await;
}

pub(crate) fn run(scratch: &Path, rounds: u64, million: u64) {
    println!("ingest: NDJSON over HTTP, 1 KB payloads, {rounds} rounds of {PIECE} letters on fresh stores");
    let mut ratios = Vec::new();
    let mut peak: f64 = 0.0;
    for round in 0..=rounds {
        let data = scratch.join(format!("office-{round}"));
        let office = Office::start(&data);
        let ours = send(&office, 0, PIECE);
        peak = peak.max(peak_mb(Some(office.pid())));
        drop(office);
        let theirs = bare::run(&scratch.join(format!("bare-{round}.db")), 0, PIECE);
        let ratio = theirs.as_secs_f64() / ours.as_secs_f64();
        let warm_up = if round == 0 { " (warm-up, not counted)" } else { "" };
        println!(
            "  round {round}: dlo {:.0}/s, bare loop {:.0}/s, ratio {ratio:.2}{warm_up}",
            per_second(PIECE, ours),
            per_second(PIECE, theirs)
        );
        if round > 0 {
            ratios.push(ratio);
        }
        let _ = std::fs::remove_dir_all(&data);
        let _ = std::fs::remove_file(scratch.join(format!("bare-{round}.db")));
    }
    record::figure("ingest.bare", "x", Median::of(ratios));
    let peak = peak.max(grow(scratch, million));
    record::figure("ingest.memory", "MB", Median::once(peak));
}

/// One store filled to a million. Its first letters are a burst: the index of texts stands back for them, as it does for
/// the last ones, which come when it has caught up. In between is a storm, with the index at work. Each is compared with its own kind.
/// Returns its peak memory.
fn grow(scratch: &Path, million: u64) -> f64 {
    let million = million.max(2 * BURST);
    println!("growth: one store, filled to {million} letters");
    let data = scratch.join("office-growth");
    let office = Office::start(&data);
    let early = burst(&office, 0);
    let (mut sent, mut storm) = (BURST, Vec::new());
    while sent < million - BURST {
        let piece = PIECE.min(million - BURST - sent);
        storm.push(per_second(piece, send(&office, sent, piece)));
        sent += piece;
        if sent % 250_000 == 0 {
            println!("  at {sent}: {:.0}/s", storm[storm.len() - 1]);
        }
    }
    println!(
        "  indexed {:.1} s behind the last, at rest {:.1} s behind that",
        indexed(&office),
        at_rest(&office)
    );
    let late = burst(&office, sent);
    println!(
        "  first {BURST} in pieces of {PIECE_OF_BURST}: {:.0}/s; last {BURST}: {:.0}/s",
        early.middle, late.middle
    );
    record::figure("ingest.growth", "x", Median::once(late.middle / early.middle));
    // From the second piece on the index is at work.
    if let [_, storm @ ..] = &storm[..]
        && storm.len() >= 2
    {
        let (first, second) = storm.split_at(storm.len() / 2);
        let [first, second] = [first, second].map(|half| Median::of(half.to_vec()).middle);
        println!("  the storm in between: {first:.0}/s in its first half, {second:.0}/s in its second");
        record::figure("ingest.storm-growth", "x", Median::once(second / first));
    }
    let peak = peak_mb(Some(office.pid()));
    let (_, stats) = office.get("/api/v1/stats");
    assert_eq!(number_behind(&stats, "\"open\":"), million, "every letter is there: {stats}");
    drop(office);
    let _ = std::fs::remove_dir_all(&data);
    peak
}

/// Waits until the office does nothing: behind a storm it still folds its log and merges what is indexed, which a burst in
/// calm times does not have beside it. How many seconds that took.
pub(crate) fn at_rest(office: &Office) -> f64 {
    let started = Instant::now();
    loop {
        let before = Usage::of(office.pid()).cpu;
        std::thread::sleep(LOOK);
        let spent = Usage::of(office.pid()).cpu.saturating_sub(before);
        if spent < LOOK / 50 || started.elapsed() > PATIENCE {
            return started.elapsed().as_secs_f64();
        }
    }
}

/// Letters a second, piece by piece, made beforehand and sent without a pause.
fn burst(office: &Office, from: u64) -> Median {
    let loads: Vec<Load> = (from..from + BURST)
        .step_by(PIECE_OF_BURST as usize)
        .map(|first| Load::new(first, PIECE_OF_BURST))
        .collect();
    Median::of(loads.iter().map(|load| per_second(PIECE_OF_BURST, load.send(office))).collect())
}
