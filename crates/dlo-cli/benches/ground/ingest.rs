//! `ingest`: letters over HTTP into `dlo serve`, beside the bare loop, interleaved; then on to a million.
//!
//! Bodies are made before the clock starts, as the bare loop's rows are. Both write to fresh files of one disk. Counts
//! are checked: every letter must be answered "stored" and be counted.

use std::path::Path;

use crate::measure::{Median, peak_mb, per_second};
use crate::office::{Office, number_behind};
use crate::sending::send;
use crate::{bare, record};

/// Letters in one timed piece: small enough to be made beforehand.
const PIECE: u64 = 50_000;

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

/// One store filled to a million: the rate of the first ten thousand beside the rate at the end. Returns its peak memory.
fn grow(scratch: &Path, million: u64) -> f64 {
    println!("growth: one store, filled to {million} letters");
    let data = scratch.join("office-growth");
    let office = Office::start(&data);
    let mut early = Vec::new();
    let mut late = Vec::new();
    let mut sent = 0;
    while sent < million {
        // Ten pieces of ten thousand at both ends, large ones in between.
        let piece = if sent < 50_000 || sent >= million - 50_000 { 10_000 } else { PIECE };
        let piece = piece.min(million - sent);
        let rate = per_second(piece, send(&office, sent, piece));
        sent += piece;
        if sent <= 50_000 {
            early.push(rate);
        } else if sent > million - 50_000 {
            late.push(rate);
        }
        if sent % 250_000 == 0 || sent == 50_000 {
            println!("  at {sent}: {rate:.0}/s");
        }
    }
    let (early, late) = (Median::of(early), Median::of(late));
    println!("  first 50,000 in pieces of 10,000: {:.0}/s; last 50,000: {:.0}/s", early.middle, late.middle);
    record::figure("ingest.growth", "x", Median::once(late.middle / early.middle));
    let peak = peak_mb(Some(office.pid()));
    let (_, stats) = office.get("/api/v1/stats");
    assert_eq!(number_behind(&stats, "\"open\":"), million, "every letter is there: {stats}");
    drop(office);
    let _ = std::fs::remove_dir_all(&data);
    peak
}
