//! Growing: letters over HTTP as fast as the office takes them, how fast that was on the way, and how fast at the end.
//!
//! On the way the index of texts is at work beside the letters, from some ten thousand of them on: a storm. The last stretch
//! comes when it has caught up, in pieces of one size at every size of the store, made beforehand and sent without a
//! pause: a burst, which is the same for a store of any size. Each is compared with its own kind.

use std::path::Path;

use dlo_bench::measure::{peak_mb, per_second};

use crate::indexed::indexed;
use crate::memory::idle_mb;
use crate::office::Office;
use crate::restart;
use crate::sending::{Load, send};

/// Letters of one piece on the way, and of one piece of the last stretch.
const PIECE: u64 = 50_000;
const LAST_PIECE: u64 = 1_000;
/// Pieces of the last stretch, where there is room for so many.
const PIECES: u64 = 20;
/// Pieces on the way before which a storm has not begun: the index stands back for the first of them.
const CALM: usize = 2;
/// Lines that tell how far it is, on the way to one size.
const LINES: u64 = 10;

/// What was seen while a store grew.
pub(crate) struct Grown {
    /// Letters a second, of each piece of the last stretch.
    pub(crate) burst: Vec<f64>,
    /// Letters a second, of the pieces in the second half of the way; none where it was too short for a storm.
    pub(crate) storm: Vec<f64>,
    /// Megabytes at most, while letters came.
    pub(crate) capturing_mb: f64,
    /// Seconds until everything was indexed, after the last letter of the storm or of the burst.
    pub(crate) lag: f64,
    /// Megabytes when that was done.
    pub(crate) after_mb: f64,
}

/// Where growing ends and the office is killed for the first time; the letters before each kill make up the size.
pub(crate) fn before_kills(size: u64) -> u64 {
    size - restart::KILLS * restart::before_a_kill(size)
}

/// Grows the store from `there` to `end` letters.
pub(crate) fn grow(data: &Path, there: u64, end: u64) -> Grown {
    let office = Office::start(data);
    let pieces = PIECES.min((end - there) / 2 / LAST_PIECE);
    let stretch = end - pieces * LAST_PIECE;
    let (mut sent, line, mut storm) = (there, ((end - there) / LINES).max(PIECE), Vec::new());
    while sent < stretch {
        let piece = PIECE.min(stretch - sent);
        let rate = per_second(piece, send(&office, sent, piece));
        sent += piece;
        storm.extend((piece == PIECE).then_some(rate));
        if (sent - there) / line > (sent - piece - there) / line || sent == stretch {
            println!("    {sent} of {end} letters, {rate:.0}/s");
        }
    }
    let loads: Vec<Load> = (0..pieces).map(|n| Load::new(stretch + n * LAST_PIECE, LAST_PIECE)).collect();
    let behind = indexed(&office);
    let burst = loads.iter().map(|load| per_second(LAST_PIECE, load.send(&office))).collect();
    drop(loads);
    let capturing_mb = peak_mb(Some(office.pid()));
    let lag = indexed(&office).max(behind);
    let after_mb = idle_mb(&office);
    restart::stop(office);
    let before = (storm.len() / 2).max(CALM);
    storm.drain(..before.min(storm.len()));
    Grown { burst, storm, capturing_mb, lag, after_mb }
}
