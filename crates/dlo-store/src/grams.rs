//! Terms: the numbers under which an index keeps the grams of texts and the exact values of fields.
//!
//! A gram's number begins with that of its first three characters, so that whatever begins with three given characters
//! stands in one range. Two grams may share a number: an index may promise too much, and hits are verified. The numbers
//! are on disk; they never change.
//!
//! People look for `CUST-1234`. Some thirty letters share a block, and in their ids, times and amounts nearly any three digits
//! stand somewhere; but few have them right behind `cust`. So where a number follows a word, there is a term for both.

use std::ops::RangeInclusive;

use dlo_core::words::{self, SHORTEST, Wanted};

pub(crate) type Term = u32;

/// Bits for the first three characters of a gram, and for the rest of it.
const REGION_BITS: u32 = 12;
const REST_BITS: u32 = 8;
pub(crate) const GRAM_BITS: u32 = REGION_BITS + REST_BITS;
/// Exact values stand behind the grams.
pub(crate) const GRAMS: Term = 1 << GRAM_BITS;
pub(crate) const EXACT_BITS: u32 = 24;
/// Bits of any term.
pub(crate) const TERM_BITS: u32 = 25;
/// Borders of one text that are looked up; the rest is left to verification.
const BORDERS: usize = 8;

/// Calls `visit` with the terms of a folded text, repeated as they come.
pub(crate) fn of_text(folded: &str, visit: &mut impl FnMut(Term)) {
    // Words are short: to look for their ends byte by byte is quicker than to have them searched for.
    for word in folded.as_bytes().split(|byte| *byte == b' ') {
        if word.is_ascii() {
            for at in 0..(word.len() + 1).saturating_sub(SHORTEST) {
                let end = word.len().min(at + words::GRAM);
                visit(number(&word[at..at + SHORTEST], &word[at + SHORTEST..end]));
            }
        } else if let Ok(word) = std::str::from_utf8(word) {
            words::grams(word).filter_map(gram).for_each(&mut *visit);
        }
    }
    borders(folded).filter_map(gram).for_each(visit);
}

/// Where a number follows a word: the last character of the word, the space, and the first three of the number.
fn borders(folded: &str) -> impl Iterator<Item = &str> {
    let spaces = folded.bytes().enumerate().filter(|(_, byte)| *byte == b' ');
    spaces.filter_map(|(space, _)| {
        let end = space + 1 + SHORTEST;
        let number = folded.as_bytes().get(space + 1..end)?;
        let known = number[0].is_ascii_digit() && number.iter().all(u8::is_ascii_alphanumeric);
        let (last, _) = folded[..space].char_indices().next_back()?;
        known.then(|| &folded[last..end])
    })
}

/// The term of an exact value, by its hash.
pub(crate) fn exact(hash: u64) -> Term {
    GRAMS + ((hash ^ (hash >> 32)) as u32 & ((1 << EXACT_BITS) - 1))
}

/// Ranges of which every text has a term in each in which this folded text stands.
pub(crate) fn wanted(folded: &str) -> impl Iterator<Item = RangeInclusive<Term>> + '_ {
    let borders = borders(folded).take(BORDERS).map(Wanted::Gram);
    borders.chain(words::wanted(folded)).filter_map(|wanted| match wanted {
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
            let expected: Vec<_> = words::grams(text).chain(borders(text)).filter_map(gram).collect();
            assert_eq!(terms(text), expected, "{text}");
        }
    }

    #[test]
    fn a_number_is_known_with_what_stands_before_it() {
        let found = |text| borders(text).collect::<Vec<_>>();
        assert_eq!(found("cust 1234 zür 5a6 x 12 9 abc"), ["t 123", "r 5a6"]);
        assert_eq!(found("12 34ü 345"), ["ü 345"]);
        let whole = terms("ord 88812 cust 4711");
        let has = |part| wanted(part).all(|range| whole.iter().any(|term| range.contains(term)));
        assert!(has("cust 471") && has("t 4711") && has("ord 88812 cu"));
        assert!(!has("cust 888"), "both words are there, but not behind each other");
    }

    #[test]
    fn the_numbers_never_change() {
        assert_eq!(terms("t 123"), [486_396, 339_703]);
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
