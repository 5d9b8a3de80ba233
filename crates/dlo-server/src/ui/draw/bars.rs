//! Bars: a histogram with a word under each, and a single bar that shows a share.

use super::{Svg, escaped, scaled};

const WIDTH: u32 = 420;
const HEIGHT: u32 = 160;
const BOTTOM: f64 = 22.0;

/// One bar.
#[derive(Debug, Clone)]
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) count: u64,
}

pub(crate) fn bars(says: &str, all: &[Bar]) -> Svg {
    let mut svg = Svg::of("chart", WIDTH, HEIGHT, says);
    let top = all.iter().map(|bar| bar.count).max().unwrap_or(0);
    let step = f64::from(WIDTH) / all.len().max(1) as f64;
    let ground = f64::from(HEIGHT) - BOTTOM;
    for (at, bar) in all.iter().enumerate() {
        let x = at as f64 * step;
        let middle = x + step / 2.0;
        let tall = scaled(bar.count, top, ground - 18.0);
        let (y, wide, name) = (ground - tall, step - 6.0, escaped(&bar.name));
        svg.push(format_args!(
            "<rect class=\"s1\" x=\"{:.1}\" y=\"{y:.1}\" width=\"{wide:.1}\" height=\"{tall:.1}\"><title>{name}: {}</title></rect>",
            x + 3.0,
            bar.count
        ));
        svg.push(format_args!(
            "<text class=\"strong\" x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            y - 4.0,
            bar.count
        ));
        svg.push(format_args!(
            "<text x=\"{middle:.1}\" y=\"{}\" text-anchor=\"middle\">{name}</text>",
            HEIGHT - 6
        ));
    }
    svg.push(format_args!("<line class=\"axis\" x1=\"0\" x2=\"{WIDTH}\" y1=\"{ground}\" y2=\"{ground}\"/>"));
    svg.done()
}

/// A share of a whole as one bar, `colour` being one of the sheet's.
pub(crate) fn meter(says: &str, part: u64, whole: u64, colour: usize) -> Svg {
    let mut svg = Svg::of("share", 200, 10, says);
    let class = super::legend_class(colour);
    svg.push(format_args!("<rect class=\"node\" x=\"0\" y=\"0\" width=\"200\" height=\"10\" rx=\"3\"/>"));
    let wide = scaled(part, whole, 200.0);
    svg.push(format_args!(
        "<rect class=\"{class}\" x=\"0\" y=\"0\" width=\"{wide:.1}\" height=\"10\" rx=\"3\"/>"
    ));
    svg.done()
}
