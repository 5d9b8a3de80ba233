//! A trend: columns over time, stacked by cause, with marks where something was deployed.

use super::{Svg, escaped, scaled};

const WIDTH: u32 = 1140;
const HEIGHT: u32 = 200;
const LEFT: f64 = 44.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 24.0;
/// Colours that the sheet has; the last is for the rest.
const COLOURS: usize = 6;

/// One colour of the stack, from old to new.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layer {
    pub(crate) name: String,
    pub(crate) points: Vec<u64>,
}

/// Something that happened at a column.
#[derive(Debug, Clone)]
pub(crate) struct Mark {
    pub(crate) at: usize,
    pub(crate) text: String,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Trend {
    /// What the whole picture shows, in words.
    pub(crate) says: String,
    /// When each column begins, as people read it.
    pub(crate) columns: Vec<String>,
    pub(crate) layers: Vec<Layer>,
    pub(crate) marks: Vec<Mark>,
}

/// The class of a layer's colour.
pub(crate) fn legend_class(at: usize) -> String {
    format!("s{}", at.min(COLOURS - 1) + 1)
}

pub(crate) fn trend(trend: &Trend) -> Svg {
    let mut svg = Svg::of("chart", WIDTH, HEIGHT, &trend.says);
    let columns = trend.columns.len().max(1);
    let sum =
        |at: usize| trend.layers.iter().map(|layer| layer.points.get(at).copied().unwrap_or(0)).sum::<u64>();
    let top = nice((0..columns).map(sum).max().unwrap_or(0));
    let (width, height) = (f64::from(WIDTH) - LEFT - 4.0, f64::from(HEIGHT) - TOP - BOTTOM);
    let ground = TOP + height;
    let step = width / columns as f64;
    axis(&mut svg, top, height, ground);
    for at in 0..columns {
        let x = LEFT + at as f64 * step;
        let mut y = ground;
        for (index, layer) in trend.layers.iter().enumerate() {
            let count = layer.points.get(at).copied().unwrap_or(0);
            if count == 0 {
                continue;
            }
            let tall = scaled(count, top, height);
            y -= tall;
            let (class, wide) = (legend_class(index), (step - 1.0).max(1.0));
            svg.push(format_args!(
                "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{wide:.1}\" height=\"{tall:.1}\"><title>{}: {count}, {}</title></rect>",
                escaped(&layer.name),
                escaped(&trend.columns[at]),
            ));
        }
    }
    labels(&mut svg, &trend.columns, step);
    for mark in &trend.marks {
        let x = LEFT + (mark.at as f64 + 0.5) * step;
        let text = escaped(&mark.text);
        svg.push(format_args!("<line class=\"mark\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{ground}\"><title>{text}</title></line>"));
        let anchor = if mark.at * 3 > columns * 2 { "end" } else { "start" };
        svg.push(format_args!(
            "<text x=\"{x:.1}\" y=\"10\" text-anchor=\"{anchor}\">{}</text>",
            super::short(&mark.text, 28)
        ));
    }
    svg.done()
}

fn axis(svg: &mut Svg, top: u64, height: f64, ground: f64) {
    for (value, y) in [(0, ground), (top / 2, ground - height / 2.0), (top, ground - height)] {
        svg.push(format_args!(
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"
        ));
        if value > 0 || y == ground {
            let x = LEFT - 6.0;
            svg.push(format_args!("<text x=\"{x}\" y=\"{:.1}\" text-anchor=\"end\">{value}</text>", y + 4.0));
        }
    }
}

/// Five times along the axis are enough to know where one is.
fn labels(svg: &mut Svg, columns: &[String], step: f64) {
    let every = columns.len().div_ceil(5).max(1);
    let y = HEIGHT - 6;
    for (at, column) in columns.iter().enumerate().step_by(every) {
        let x = LEFT + at as f64 * step;
        svg.push(format_args!("<text x=\"{x:.1}\" y=\"{y}\">{}</text>", escaped(column)));
    }
}

/// The next number above that reads well and can be halved.
fn nice(top: u64) -> u64 {
    let mut unit: u64 = 1;
    loop {
        for step in [2, 4, 10] {
            let candidate = unit.saturating_mul(step);
            if candidate >= top {
                return candidate;
            }
        }
        unit = unit.saturating_mul(10);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_ends_at_a_number_that_reads_well() {
        assert_eq!([0, 1, 3, 5, 41, 999, 41_000].map(nice), [2, 2, 4, 10, 100, 1_000, 100_000]);
        assert!(nice(u64::MAX) == u64::MAX);
    }

    #[test]
    fn a_trend_of_nothing_is_still_a_picture() {
        assert!(trend(&Trend::default()).to_string().ends_with("</svg>"));
    }
}
