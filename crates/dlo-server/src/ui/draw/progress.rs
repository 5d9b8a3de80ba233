//! How far a replay is, as one bar: a piece for each outcome, as wide as its share. Words stand beside it, never colour alone.

use dlo_core::replay::{ItemCounts, ItemState};

use super::Svg;
use crate::ui::words;

/// Units of the picture's width.
const WIDTH: u32 = 1_000;
const HEIGHT: u32 = 24;
/// What is there is seen, however few they are.
const LEAST: u32 = 4;

/// What is certain comes first, what is still to come last.
pub(crate) const OUTCOMES: [ItemState; 15] = [
    ItemState::Confirmed,
    ItemState::Passed,
    ItemState::Presumed,
    ItemState::Routed,
    ItemState::Sent,
    ItemState::Unknown,
    ItemState::Returned,
    ItemState::SuspectedReturn,
    ItemState::InDoubt,
    ItemState::Refused,
    ItemState::Short,
    ItemState::Released,
    ItemState::Intended,
    ItemState::Claimed,
    ItemState::Frozen,
];

pub(crate) fn progress(counts: &ItemCounts) -> Svg {
    let there: Vec<(ItemState, u64)> =
        OUTCOMES.iter().map(|state| (*state, counts.get(*state))).filter(|(_, count)| *count > 0).collect();
    let says = |(state, count): &(ItemState, u64)| {
        format!("{} {}", words::number(*count), words::phrase(state.as_str()))
    };
    let all: Vec<String> = there.iter().map(says).collect();
    let label = if all.is_empty() { "no letters".to_string() } else { all.join(", ") };
    // Numbers and words of ours, so nothing is to be escaped; the bar is as wide as its place.
    let mut svg = Svg(format!(
        r#"<svg class="progress" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" aria-label="{label}">"#
    ));
    let mut at = 0;
    for (width, piece) in widths(&there, counts.total()).into_iter().zip(&there) {
        let state = piece.0;
        svg.push(format_args!(
            r#"<rect class="o-{state}" x="{at}" y="0" width="{width}" height="{HEIGHT}"><title>{}</title></rect>"#,
            says(piece)
        ));
        at += width;
    }
    svg.done()
}

/// A width for each piece, the whole bar together: small ones get the least, the widest pays for it.
fn widths(there: &[(ItemState, u64)], total: u64) -> Vec<u32> {
    let exact = |count: u64| u32::try_from(u128::from(count) * u128::from(WIDTH) / u128::from(total.max(1)));
    let mut widths: Vec<u32> =
        there.iter().map(|(_, count)| exact(*count).unwrap_or(WIDTH).max(LEAST)).collect();
    let sum: u32 = widths.iter().sum();
    if let Some(widest) = widths.iter_mut().max() {
        *widest = (*widest + WIDTH).saturating_sub(sum);
    }
    widths
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_bar_says_in_words_what_it_shows() {
        let mut counts = ItemCounts::default();
        counts.set(ItemState::Confirmed, 40_000);
        counts.set(ItemState::Returned, 1);
        let svg = progress(&counts).to_string();
        assert!(svg.contains(r#"aria-label="40,000 confirmed, 1 returned""#), "{svg}");
        assert!(svg.contains(r#"class="o-returned" x="996" y="0" width="4""#), "{svg}");
        assert!(progress(&ItemCounts::default()).to_string().contains("no letters"));
    }

    proptest! {
        #[test]
        fn every_piece_is_seen_and_together_they_fill_the_bar(
            all in proptest::collection::vec(0_u64..u64::MAX / 16, 12..=12)
        ) {
            let mut counts = ItemCounts::default();
            for (state, count) in OUTCOMES.iter().zip(&all) {
                counts.set(*state, *count);
            }
            let there: Vec<(ItemState, u64)> =
                OUTCOMES.iter().map(|state| (*state, counts.get(*state))).filter(|(_, count)| *count > 0).collect();
            let widths = widths(&there, counts.total());
            prop_assert!(widths.iter().all(|width| *width >= LEAST));
            prop_assert_eq!(widths.iter().sum::<u32>(), if there.is_empty() { 0 } else { WIDTH });
        }
    }
}
