//! Postings of a new segment, gathered block by block and put into the order of their terms without comparing any two.
//!
//! What is indexed in one turn has few blocks, so that a posting fits into four bytes: its term above, its block below. Blocks
//! come one behind the other, each with every term once; so only terms have to be brought into order, digit by digit from the
//! lowest on, and what came first stays first. A million postings are a turn, and comparing them took three times as long.

use crate::grams::{EXACT_BITS, GRAM_BITS, GRAMS, Term};
use crate::postings::Posting;

/// Blocks that may be gathered.
pub(crate) const MOST: usize = 1 << BLOCK_BITS;
const BLOCK_BITS: u32 = 8;
/// Bits of a term by which postings are dealt out at once: a thousand heaps, whose ends a processor keeps at hand.
const DIGIT: u32 = 10;

/// Grams and exact values apart: a bit more would not fit.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    grams: Vec<u32>,
    exact: Vec<u32>,
}

impl Gathered {
    /// A term of the block with this number, which is no smaller than those before, and smaller than [`MOST`].
    pub(crate) fn add(&mut self, term: Term, block: usize) {
        debug_assert!(block < MOST, "block {block} of a turn");
        let block = block as u32 & (MOST as u32 - 1);
        match term.checked_sub(GRAMS) {
            None => self.grams.push((term << BLOCK_BITS) | block),
            Some(exact) => self.exact.push((exact << BLOCK_BITS) | block),
        }
    }

    /// All of them, ascending.
    pub(crate) fn in_order(self) -> impl Iterator<Item = Posting> {
        let posting = |first: Term| {
            move |packed: u32| {
                let (term, block) = (first + (packed >> BLOCK_BITS), packed as usize & (MOST - 1));
                Posting::new(term, block)
            }
        };
        let grams = by_term(self.grams, GRAM_BITS).into_iter().map(posting(0));
        grams.chain(by_term(self.exact, EXACT_BITS).into_iter().map(posting(GRAMS)))
    }
}

/// Deals out by one digit after the other, the lowest first.
fn by_term(mut from: Vec<u32>, term_bits: u32) -> Vec<u32> {
    let mut to = vec![0; from.len()];
    for low in (0..term_bits).step_by(DIGIT as usize) {
        let heap = |packed: u32| (packed >> (BLOCK_BITS + low)) as usize & ((1 << DIGIT) - 1);
        let mut next = [0_usize; 1 << DIGIT];
        from.iter().for_each(|packed| next[heap(*packed)] += 1);
        let mut begin = 0;
        for heap in &mut next {
            begin += std::mem::replace(heap, begin);
        }
        for packed in &from {
            let at = &mut next[heap(*packed)];
            to[*at] = *packed;
            *at += 1;
        }
        std::mem::swap(&mut from, &mut to);
    }
    from
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn whatever_is_gathered_comes_back_as_comparing_would_order_it(
            blocks in proptest::collection::vec(
                proptest::collection::btree_set(prop_oneof![0..GRAMS, 0_u32..1 << 25, Just(GRAMS - 1), Just(GRAMS)], 0..40),
                0..MOST,
            ),
        ) {
            let mut gathered = Gathered::default();
            let mut expected = BTreeSet::new();
            for (block, terms) in blocks.iter().enumerate() {
                // In a text they come in any order.
                for term in terms.iter().rev() {
                    let term = (*term).min(GRAMS + (1 << EXACT_BITS) - 1);
                    gathered.add(term, block);
                    expected.insert(Posting::new(term, block));
                }
            }
            let ordered: Vec<Posting> = gathered.in_order().collect();
            prop_assert!(ordered.is_sorted());
            prop_assert_eq!(ordered.into_iter().collect::<BTreeSet<_>>(), expected);
        }
    }

    #[test]
    fn the_largest_term_and_the_last_block_fit() {
        let last = GRAMS + (1 << EXACT_BITS) - 1;
        let mut gathered = Gathered::default();
        [(last, 0), (0, 0), (last, MOST - 1), (GRAMS - 1, MOST - 1)]
            .into_iter()
            .for_each(|(term, block)| gathered.add(term, block));
        let expected = [(0, 0), (GRAMS - 1, MOST - 1), (last, 0), (last, MOST - 1)];
        assert_eq!(
            gathered.in_order().collect::<Vec<_>>(),
            expected.map(|(term, block)| Posting::new(term, block))
        );
    }
}
