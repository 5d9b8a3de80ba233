//! Terms: the numbers under which an index keeps the grams of texts and the exact values of fields.
//!
//! A gram's number begins with that of its first three characters, so that whatever begins with three given characters
//! stands in one range. Two grams may share a number: an index may promise too much, and hits are verified. The numbers
//! are on disk; they never change.

use std::ops::RangeInclusive;

use dlo_core::words::{self, SHORTEST, Wanted};

pub(crate) type Term = u32;

/// Bits for the first three characters of a gram, and for the rest of it.
const REGION_BITS: u32 = 12;
const REST_BITS: u32 = 8;
/// Exact values stand behind the grams.
pub(crate) const GRAMS: Term = 1 << (REGION_BITS + REST_BITS);
const EXACT_BITS: u32 = 24;
/// Bits of any term.
pub(crate) const TERM_BITS: u32 = 25;

/// Calls `visit` with the terms of a folded text, repeated as they come.
pub(crate) fn of_text(folded: &str, visit: &mut impl FnMut(Term)) {
    for word in folded.split(' ') {
        if word.is_ascii() {
            let bytes = word.as_bytes();
            for at in 0..(bytes.len() + 1).saturating_sub(SHORTEST) {
                let end = bytes.len().min(at + words::GRAM);
                visit(number(&bytes[at..at + SHORTEST], &bytes[at + SHORTEST..end]));
            }
        } else {
            words::grams(word).filter_map(gram).for_each(&mut *visit);
        }
    }
}

/// The term of an exact value, by its hash.
pub(crate) fn exact(hash: u64) -> Term {
    GRAMS + ((hash ^ (hash >> 32)) as u32 & ((1 << EXACT_BITS) - 1))
}

/// Ranges of which every text has a term in each in which this folded text stands.
pub(crate) fn wanted(folded: &str) -> impl Iterator<Item = RangeInclusive<Term>> + '_ {
    words::wanted(folded).into_iter().filter_map(|wanted| match wanted {
        Wanted::Gram(text) => gram(text).map(|term| term..=term),
        Wanted::Beginning(text) => {
            let (first, _) = split(text)?;
            let low = hash(first.as_bytes(), REGION_BITS) << REST_BITS;
            Some(low..=low + (1 << REST_BITS) - 1)
        }
    })
}

/// The term of one gram; `None` if it is too short to be looked for.
fn gram(gram: &str) -> Option<Term> {
    let (first, rest) = split(gram)?;
    Some(number(first.as_bytes(), rest.as_bytes()))
}

fn split(gram: &str) -> Option<(&str, &str)> {
    let end = gram.char_indices().nth(SHORTEST - 1).map(|(at, last)| at + last.len_utf8())?;
    gram.split_at_checked(end)
}

fn number(first: &[u8], rest: &[u8]) -> Term {
    (hash(first, REGION_BITS) << REST_BITS) | hash(rest, REST_BITS)
}

/// FNV-1a, folded to so many bits.
fn hash(bytes: &[u8], bits: u32) -> u32 {
    let mut hash: u32 = 0x811c_9dc5;
    for byte in bytes {
        hash = (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    }
    (hash ^ (hash >> 15)) & ((1 << bits) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(folded: &str) -> Vec<Term> {
        let mut terms = Vec::new();
        of_text(folded, &mut |term| terms.push(term));
        terms
    }

    #[test]
    fn plain_words_take_a_shorter_way_to_the_same_numbers() {
        for text in ["pin 560001 not in tax table", "a bc def ghij klmno", ""] {
            assert_eq!(terms(text), words::grams(text).filter_map(gram).collect::<Vec<_>>(), "{text}");
        }
    }

    #[test]
    fn the_numbers_never_change() {
        assert_eq!(terms("taxes straße"), [185_437, 112_026, 1_005_308, 329_641, 163_315, 2_296, 325_628]);
        assert_eq!(exact(0x1234_5678_9abc_def0), 9_996_424);
    }

    #[test]
    fn what_is_wanted_of_a_part_is_among_the_terms_of_the_whole() {
        let whole = terms("order ord 88812 zürich");
        for part in ["888", "8881", "88812", "ord 888", "rich", "zür", "züric"] {
            for range in wanted(part) {
                assert!(whole.iter().any(|term| range.contains(term)), "{part}");
            }
            assert!(wanted(part).next().is_some(), "{part}");
        }
        assert!(wanted("889").any(|range| !whole.iter().any(|term| range.contains(term))));
    }
}
