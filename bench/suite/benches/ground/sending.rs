//! Letters on their way to an office: bodies are made before the clock starts, and sent over two connections.

use std::time::{Duration, Instant};

use crate::letters;
use crate::office::Office;

const CONNECTIONS: u64 = 2;

/// Letters that are ready to be sent.
pub(crate) struct Load {
    count: u64,
    /// For each connection, chunks of a hundred letters.
    bodies: Vec<Vec<Vec<u8>>>,
}

impl Load {
    pub(crate) fn new(first: u64, count: u64) -> Self {
        let share = count.div_ceil(CONNECTIONS);
        let end = first + count;
        let bodies = (0..CONNECTIONS)
            .map(|c| chunks((first + c * share).min(end), (first + (c + 1) * share).min(end)))
            .collect();
        Self { count, bodies }
    }

    /// The clock runs from the first byte to the last answer. Every letter must be stored, none of them twice.
    pub(crate) fn send(&self, office: &Office) -> Duration {
        let start = Instant::now();
        let stored: u64 = std::thread::scope(|scope| {
            let senders: Vec<_> =
                self.bodies.iter().map(|chunks| scope.spawn(|| office.send(chunks))).collect();
            senders.into_iter().map(|sender| sender.join().expect("a sender")).sum()
        });
        let spent = start.elapsed();
        assert_eq!(stored, self.count, "every letter is stored once");
        spent
    }
}

/// Sends letters from `first` on.
pub(crate) fn send(office: &Office, first: u64, count: u64) -> Duration {
    Load::new(first, count).send(office)
}

/// Letters of these numbers, a hundred a chunk.
pub(crate) fn chunks(from: u64, to: u64) -> Vec<Vec<u8>> {
    let numbers: Vec<u64> = (from..to).collect();
    numbers
        .chunks(100)
        .map(|hundred| {
            let mut body = Vec::new();
            hundred.iter().for_each(|n| letters::ndjson(*n, &mut body));
            body
        })
        .collect()
}
