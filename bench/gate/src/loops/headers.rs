//! Reading what stands on a dead letter: our own headers, version 1, and what others write.

use dlo_core::conventions::{self, Found};
use dlo_core::envelope;

use super::turn;
use crate::golden;

pub(super) fn own(turns: u64, most: u64) {
    let headers = golden::own();
    turn(
        turns,
        most,
        |_| headers.clone(),
        |headers| {
            let story = envelope::decode(&headers);
            // Forgotten, as whoever reads a letter keeps its headers.
            std::mem::forget(headers);
            story
        },
    );
}

pub(super) fn foreign(turns: u64, most: u64) {
    let letters = golden::foreign();
    let letter = |n: u64| &letters[n as usize % letters.len()];
    turn(turns, most, letter, |letter| {
        conventions::read(&letter.message, Found { broker: letter.broker, queue: &letter.queue })
    });
}
