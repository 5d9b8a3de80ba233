//! Every screen on one store: its three figures, and what is said of them at one size and at two.

use std::path::Path;

use dlo_bench::bars;
use dlo_bench::record::Parts;

use crate::asked;
use crate::browser::{self, Seen};
use crate::office::Office;
use crate::percentile;

/// What is demanded of each screen at a million letters: the office's time, the first paint, the weight.
const FIGURES: [(&str, &str, &str); 3] = [
    ("screens.answered", "p99", "ms"),
    ("screens.painted", "first paint", "ms"),
    ("screens.weight", "compressed", "kB"),
];

/// One screen.
pub(crate) struct Measured {
    what: &'static str,
    /// In the order of [`FIGURES`].
    figures: [f64; 3],
}

/// Asks every screen over HTTP, then looks at each in a browser.
pub(crate) fn all(store: &Path, rounds: u64) -> Vec<Measured> {
    let office = Office::start(store);
    let (letters, screens) = asked::screens(&office);
    println!("screens: {letters} letters, each screen asked {rounds} times over HTTP");
    let mut answered = Vec::new();
    for screen in &screens {
        let mut times: Vec<f64> = (0..rounds).map(|n| screen.time(&office, n)).collect();
        let (middle, slow) = (percentile(&mut times, 0.5), percentile(&mut times, 0.99));
        println!("  {}: p50 {middle:.2} ms, p99 {slow:.2} ms", screen.what);
        answered.push(slow);
    }
    let seen = browser::look(&office, &screens);
    let each = screens.iter().zip(answered).zip(seen);
    each.map(|((screen, answered), Seen { painted, weight })| Measured {
        what: screen.what,
        figures: [answered, painted, weight],
    })
    .collect()
}

/// At one size: each figure of the worst screen.
pub(crate) fn record(screens: &[Measured]) {
    for (at, (id, what, unit)) in FIGURES.into_iter().enumerate() {
        let mut parts = Parts::new(id, unit);
        for screen in screens {
            parts.part(&format!("{}, {what}", screen.what), screen.figures[at]);
        }
        parts.worst();
    }
}

/// At a larger size: each figure to what is demanded of it at a million letters, the worst of the three for each screen.
/// What it was on the smaller store stands beside it.
pub(crate) fn record_growth(small: &[Measured], large: &[Measured]) {
    println!("growth: each screen on the larger store (on the smaller one)");
    let demanded = FIGURES
        .map(|(id, ..)| bars::all().of(id).and_then(|entry| entry.bar()).expect("a bar of a screen").value());
    let mut parts = Parts::new("screens.growth", "x");
    for (before, screen) in small.iter().zip(large) {
        assert_eq!(before.what, screen.what, "the same screens on both");
        let ([answered, painted, weight], [was_answered, was_painted, was_weight]) =
            (screen.figures, before.figures);
        println!(
            "  {}: p99 {answered:.2} ms ({was_answered:.2}), painted after {painted:.0} ms ({was_painted:.0}), \
             {weight:.1} kB ({was_weight:.1})",
            screen.what
        );
        let ratios = screen.figures.into_iter().zip(demanded).map(|(figure, demanded)| figure / demanded);
        let worst = ratios.fold(0.0, f64::max);
        parts.part(&format!("{}, to what is demanded at a million", screen.what), worst);
    }
    parts.worst();
}
