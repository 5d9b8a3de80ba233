//! The hot loops, one a line: what every failure, every dead letter and every stored letter costs.
//!
//! Each takes how many turns to make and how many there could be. It makes the inputs of all, works on as many as it was
//! told, and forgets the rest: two runs that differ in turns differ in work alone. Inputs are functions of their number,
//! times are given, and nothing is drawn at random but the ids that a store gives its letters.

mod frame;
mod headers;
mod insert;
mod rules;
mod texts;

use std::hint::black_box;

pub(crate) struct Loop {
    pub(crate) name: &'static str,
    /// Turns of the shorter run; the longer one makes twice as many. Where inputs take turns, a multiple of their kinds, so
    /// that the further turns are the same mix.
    pub(crate) turns: u64,
    /// Operations of one turn, by which a count is divided.
    pub(crate) operations: u64,
    pub(crate) run: fn(turns: u64, most: u64),
}

pub(crate) const ALL: [Loop; 7] = [
    Loop { name: "decide", turns: 9_000, operations: 1, run: rules::decide_all },
    Loop { name: "classify", turns: 500, operations: 1, run: rules::classify_all },
    Loop { name: "fingerprint", turns: 500, operations: 1, run: texts::fingerprint_all },
    Loop { name: "headers-own", turns: 250, operations: 1, run: headers::own },
    Loop { name: "headers-foreign", turns: 240, operations: 1, run: headers::foreign },
    Loop { name: "frame-to-letter", turns: 280, operations: 1, run: frame::to_letter },
    Loop { name: "batch-insert", turns: 3, operations: insert::LETTERS, run: insert::batches },
];

/// Makes `most` inputs and works on the first `turns` of them.
fn turn<T, R>(turns: u64, most: u64, make: impl Fn(u64) -> T, mut work: impl FnMut(T) -> R) {
    let mut inputs = (0..most).map(make).collect::<Vec<T>>().into_iter();
    for input in inputs.by_ref().take(usize::try_from(turns).unwrap_or(usize::MAX)) {
        black_box(work(black_box(input)));
    }
    std::mem::forget(inputs);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_loop_runs_and_has_a_name_of_its_own() {
        for one in &ALL {
            (one.run)(1, 2);
            assert_eq!(ALL.iter().filter(|other| other.name == one.name).count(), 1, "{}", one.name);
        }
    }

    #[test]
    fn a_turn_works_on_as_many_inputs_as_it_was_told_in_their_order() {
        let mut worked = Vec::new();
        turn(3, 9, |n| n * 10, |input| worked.push(input));
        assert_eq!(worked, [0, 10, 20]);
    }
}
