//! Secrets that are known by their shape.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::MASK;
use crate::codes::coded;

coded! {
    /// A kind of secret that is found wherever it stands.
    pub enum Detector as "detector" {
        /// Payment card numbers: 13 to 19 digits, blanks and dashes between, with a valid check digit.
        Card = 1 => "card",
        Email = 2 => "email",
        /// `Bearer …` and `Basic …` credentials, and JSON web tokens.
        Bearer = 3 => "bearer",
    }
}

// The three expressions are constants that a test compiles; `ok()` keeps masking free of panics all the same.
static CARD: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\d(?:[ -]?\d){12,18}").ok());
static EMAIL: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"[\p{L}\p{N}._%+'-]+@[\p{L}\p{N}-]+(?:\.[\p{L}\p{N}-]+)+").ok());
static BEARER: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:bearer|basic)\s+[a-z0-9._~+/=-]{8,}|\beyj[a-z0-9_-]+\.[a-z0-9_-]+\.[a-z0-9_-]*")
        .ok()
});

impl Detector {
    /// The text with every secret of this kind hidden.
    pub(super) fn mask<'a>(self, text: &'a str) -> Cow<'a, str> {
        match self {
            Self::Card => replace(&CARD, text, is_card),
            Self::Email => replace(&EMAIL, text, |_| true),
            Self::Bearer => replace(&BEARER, text, |_| true),
        }
    }
}

fn replace<'a>(regex: &Option<Regex>, text: &'a str, is_secret: impl Fn(&str) -> bool) -> Cow<'a, str> {
    let Some(regex) = regex else { return Cow::Borrowed(MASK) };
    let found_any = regex.find_iter(text).any(|found| is_secret(found.as_str()));
    if !found_any {
        return Cow::Borrowed(text);
    }
    regex.replace_all(
        text,
        |found: &Captures<'_>| {
            if is_secret(&found[0]) { MASK.to_owned() } else { found[0].to_owned() }
        },
    )
}

/// Luhn's check: every second digit from the right is doubled, and the sum of digits ends in zero.
fn is_card(text: &str) -> bool {
    let digits = text.bytes().rev().filter(u8::is_ascii_digit).map(|byte| u32::from(byte - b'0'));
    let sum: u32 = digits
        .enumerate()
        .map(|(at, digit)| match (at % 2, digit) {
            (0, digit) => digit,
            (_, digit) if digit > 4 => digit * 2 - 9,
            (_, digit) => digit * 2,
        })
        .sum();
    sum.is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_expressions_compile() {
        assert!(CARD.is_some() && EMAIL.is_some() && BEARER.is_some());
    }

    #[test]
    fn a_card_number_is_known_by_its_check_digit() {
        assert_eq!(Detector::Card.mask("paid with 4111 1111 1111 1111 today"), "paid with *** today");
        assert_eq!(Detector::Card.mask("5500-0000-0000-0004"), "***");
        let order = "order 4111 1111 1111 1112";
        assert!(matches!(Detector::Card.mask(order), Cow::Borrowed(text) if text == order));
    }

    #[test]
    fn addresses_and_tokens_are_hidden_and_the_words_around_stay() {
        assert_eq!(Detector::Email.mask("mail to jane.doe+x@shop.example.com failed"), "mail to *** failed");
        assert_eq!(Detector::Bearer.mask("Authorization: Bearer abcdef.123-456"), "Authorization: ***");
        assert_eq!(Detector::Bearer.mask("token eyJhbGci.eyJzdWIi.c2ln expired"), "token *** expired");
        assert_eq!(Detector::Bearer.mask("the bearer of this"), "the bearer of this");
    }
}
