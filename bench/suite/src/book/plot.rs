//! Pictures: figures as multiples of their bars, and growth curves, as plain SVG with logarithmic axes.
//!
//! No scripts, no fonts of their own. Colours follow the reader's choice of light or dark; nothing is said by colour alone.

use std::fmt::Write;

use super::words::{number, with_unit};
use super::{Curve, Row};

const STYLE: &str = "<style>
  .paper { fill: #ffffff } .ink { fill: #1f2328 } .faint { fill: #59636e }
  .grid { stroke: #d1d9e0 } .line { stroke: #1f2328 } .good { fill: #1a7f37 } .bad { fill: #cf222e }
  .curve { stroke: #0969da; fill: none; stroke-width: 2 } .dot { fill: #0969da } .spread { stroke: #59636e; stroke-width: 2 }
  text { font: 12px system-ui, sans-serif } .small { font-size: 11px }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #0d1117 } .ink { fill: #f0f6fc } .faint { fill: #9198a1 }
    .grid { stroke: #3d444d } .line { stroke: #f0f6fc } .good { fill: #3fb950 } .bad { fill: #f85149 }
    .curve { stroke: #4493f8 } .dot { fill: #4493f8 } .spread { stroke: #9198a1 }
  }
</style>
";

/// A logarithmic axis between two places.
#[derive(Debug, Clone, Copy)]
struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// Whole powers of ten around some values.
    fn around(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| *value > 0.0 && value.is_finite()) {
            low = low.min(value.log10().floor());
            high = high.max(value.log10().ceil());
        }
        let (low, high) = if low.is_finite() { (low, high.max(low + 1.0)) } else { (0.0, 1.0) };
        Self { low, high, from, to }
    }

    fn at(&self, value: f64) -> f64 {
        let share = ((value.log10() - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        self.from + share * (self.to - self.from)
    }

    /// Powers of ten, with the values between them where there is room.
    fn ticks(&self) -> Vec<f64> {
        let decades = (self.high - self.low) as i32;
        let steps: &[f64] = match decades {
            0 | 1 => &[1.0, 2.0, 3.0, 5.0],
            2 | 3 => &[1.0, 3.0],
            _ => &[1.0],
        };
        let mut ticks = Vec::new();
        for power in self.low as i32..=self.high as i32 {
            ticks.extend(steps.iter().map(|step| step * 10f64.powi(power)));
        }
        ticks.retain(|tick| tick.log10() <= self.high + 1e-9);
        ticks
    }
}

/// Text as SVG has it.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn open(width: f64, height: f64, title: &str) -> String {
    let title = escaped(title);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\" aria-label=\"{title}\">\n\
         <title>{title}</title>\n{STYLE}<rect class=\"paper\" width=\"{width}\" height=\"{height}\"/>\n"
    )
}

fn text(svg: &mut String, class: &str, anchor: &str, x: f64, y: f64, words: &str) {
    let words = escaped(words);
    let _ = writeln!(
        svg,
        "<text class=\"{class}\" text-anchor=\"{anchor}\" x=\"{x:.1}\" y=\"{y:.1}\">{words}</text>"
    );
}

fn line(svg: &mut String, class: &str, from: (f64, f64), to: (f64, f64)) {
    let ((x1, y1), (x2, y2)) = (from, to);
    let _ = writeln!(
        svg,
        "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
    );
}

/// Every figure that has a bar, as a multiple of it: to the right of the line is passed. Nothing if there is none.
pub(super) fn bars(rows: &[Row]) -> Option<String> {
    const ROW: f64 = 34.0;
    const TOP: f64 = 40.0;
    const WIDTH: f64 = 860.0;
    let drawn: Vec<Multiple<'_>> = rows.iter().filter_map(Multiple::of).collect();
    if drawn.is_empty() {
        return None;
    }
    let height = TOP + ROW * drawn.len() as f64 + 16.0;
    let values = drawn.iter().flat_map(|row| [Some(row.middle), row.goal]).flatten();
    // The bar itself is always in the picture, with room on both sides.
    let axis = Axis::around(values.chain([0.9, 1.1]), 16.0, WIDTH - 130.0);
    let mut svg = open(WIDTH, height, "Every figure as a multiple of its bar");
    text(&mut svg, "faint small", "start", 16.0, 16.0, "times as good as demanded (logarithmic)");
    for tick in axis.ticks() {
        let x = axis.at(tick);
        line(&mut svg, "grid", (x, TOP - 6.0), (x, height - 10.0));
        text(&mut svg, "faint small", "middle", x, TOP - 10.0, &number(tick));
    }
    for (at, row) in drawn.iter().enumerate() {
        row.draw(&mut svg, &axis, TOP + ROW * at as f64);
        // The verdicts stand in a column of their own: a bar may end anywhere.
        text(&mut svg, "ink small", "end", WIDTH - 12.0, TOP + ROW * at as f64 + 24.0, &row.verdict());
    }
    svg.push_str("</svg>\n");
    Some(svg)
}

/// A figure as a multiple of its bar; more is better.
struct Multiple<'a> {
    row: &'a Row,
    middle: f64,
    low: f64,
    high: f64,
    goal: Option<f64>,
}

impl<'a> Multiple<'a> {
    /// Nothing where there is no multiple: no figure, no bar, or a bar of zero.
    fn of(row: &'a Row) -> Option<Self> {
        let (taken, bar) = (row.taken?, row.bar?);
        let drawable = |value: f64| (value.is_finite() && value > 0.0).then_some(value);
        let [one, other] = [taken.low, taken.high].map(|value| bar.ratio(value));
        Some(Self {
            row,
            middle: drawable(bar.ratio(taken.middle))?,
            low: drawable(one.min(other))?,
            high: drawable(one.max(other))?,
            goal: row.goal.and_then(|goal| drawable(bar.ratio(goal.value()))),
        })
    }

    fn draw(&self, svg: &mut String, axis: &Axis, y: f64) {
        let (one, end) = (axis.at(1.0), axis.at(self.middle));
        let class = if self.middle >= 1.0 { "good" } else { "bad" };
        text(svg, "ink", "start", 16.0, y + 10.0, &format!("{} {}", self.row.workload, self.row.words));
        let (from, width) = (one.min(end), (end - one).abs().max(1.0));
        let top = y + 15.0;
        let _ = writeln!(
            svg,
            "<rect class=\"{class}\" x=\"{from:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"10\"/>"
        );
        if self.high > self.low {
            line(svg, "spread", (axis.at(self.low), y + 20.0), (axis.at(self.high), y + 20.0));
        }
        if let Some(goal) = self.goal {
            let x = axis.at(goal);
            line(svg, "line", (x, y + 13.0), (x, y + 27.0));
        }
        line(svg, "line", (one, y + 11.0), (one, y + 29.0));
    }

    fn verdict(&self) -> String {
        let word = if self.middle >= 1.0 { "passed" } else { "not passed" };
        format!("{}x, {word}", number(self.middle))
    }
}

/// A growth curve over the number of letters.
pub(super) fn curve(curve: &Curve) -> String {
    const WIDTH: f64 = 640.0;
    const HEIGHT: f64 = 320.0;
    let drawable = |(x, y): &&(f64, f64)| *x > 0.0 && *y > 0.0;
    let points: Vec<&(f64, f64)> = curve.points.iter().filter(drawable).collect();
    let across = Axis::around(points.iter().map(|point| point.0), 70.0, WIDTH - 40.0);
    let up = Axis::around(points.iter().map(|point| point.1), HEIGHT - 44.0, 44.0);
    let title =
        if curve.unit.is_empty() { curve.words.clone() } else { format!("{}, {}", curve.words, curve.unit) };
    let mut svg = open(WIDTH, HEIGHT, &title);
    text(&mut svg, "ink", "start", 16.0, 22.0, &title);
    for tick in across.ticks() {
        let x = across.at(tick);
        line(&mut svg, "grid", (x, up.from), (x, up.to));
        text(&mut svg, "faint small", "middle", x, up.from + 16.0, &number(tick));
    }
    for tick in up.ticks() {
        let y = up.at(tick);
        line(&mut svg, "grid", (across.from, y), (across.to, y));
        text(&mut svg, "faint small", "end", across.from - 6.0, y + 4.0, &number(tick));
    }
    text(&mut svg, "faint small", "end", across.to, HEIGHT - 8.0, "letters in the store");
    let places: Vec<(f64, f64)> = points.iter().map(|(x, y)| (across.at(*x), up.at(*y))).collect();
    let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let _ = writeln!(svg, "<polyline class=\"curve\" points=\"{}\"/>", path.join(" "));
    for ((x, y), (_, value)) in places.iter().zip(points) {
        let _ = writeln!(svg, "<circle class=\"dot\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>");
        text(&mut svg, "ink small", "middle", *x, y - 9.0, &with_unit(*value, &curve.unit));
    }
    svg.push_str("</svg>\n");
    svg
}
