//! Damage to the file, past SQLite.

use std::ops::Range;

use rand::RngExt;
use rand::rngs::StdRng;

use super::Kind;

const PAGE: usize = 4_096;
const TEXTS: [&str; 4] = [
    "no backup at all",
    "{\"letters\": []}\n",
    "-- a dump\nCREATE TABLE letters (id TEXT);\nINSERT INTO letters VALUES ('x');\n",
    "SQLite format 3",
];

pub(super) fn change(kind: Kind, bytes: &mut Vec<u8>, random: &mut StdRng) -> String {
    let pages = bytes.len() / PAGE;
    match kind {
        Kind::WriteAheadLog => {
            bytes[18..20].copy_from_slice(&[2, 2]);
            "the header says that there is a write-ahead log".to_owned()
        }
        Kind::Cut => {
            let length = match random.random_range(0..3) {
                0 => random.random_range(1..100),
                1 => random.random_range(1..pages) * PAGE,
                _ => random.random_range(100..bytes.len()),
            };
            bytes.truncate(length);
            format!("cut to {length} bytes")
        }
        Kind::NoDatabase => {
            let text = TEXTS[random.random_range(0..TEXTS.len())];
            *bytes = text.repeat(random.random_range(1..200)).into_bytes();
            format!("the text {text:?}, {} bytes", bytes.len())
        }
        Kind::ZeroPage => {
            let page = random.random_range(1..pages);
            bytes[page * PAGE..(page + 1) * PAGE].fill(0);
            format!("page {} is all zero", page + 1)
        }
        Kind::SwapPages => {
            let (one, other) = (random.random_range(1..pages), random.random_range(1..pages));
            let kept = bytes[one * PAGE..(one + 1) * PAGE].to_vec();
            bytes.copy_within(other * PAGE..(other + 1) * PAGE, one * PAGE);
            bytes[other * PAGE..(other + 1) * PAGE].copy_from_slice(&kept);
            format!("the pages {} and {} changed places", one + 1, other + 1)
        }
        _ => {
            bytes.clear();
            "an empty file".to_owned()
        }
    }
}

/// Flips some bits in a part of the file.
pub(super) fn flip(kind: Kind, bytes: &mut [u8], random: &mut StdRng) -> String {
    let length = bytes.len();
    let range: Range<usize> = match kind {
        Kind::FlipHeader => 0..100,
        Kind::FlipFirstPage => 100..PAGE,
        Kind::FlipMiddle => length / 4..length / 4 * 3,
        Kind::FlipEnd => length / 4 * 3..length,
        _ => 0..length,
    };
    let mut flipped = Vec::new();
    for _ in 0..random.random_range(1..=8) {
        let (at, bit) = (random.random_range(range.clone()), random.random_range(0..8));
        bytes[at] ^= 1 << bit;
        flipped.push(format!("{at}.{bit}"));
    }
    format!("bits {} are flipped", flipped.join(", "))
}
