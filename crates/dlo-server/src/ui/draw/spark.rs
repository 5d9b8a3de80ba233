//! A sparkline: how a number went, as small as a word.

use super::{Svg, scaled};

const WIDTH: u32 = 110;
const HEIGHT: u32 = 26;

/// Points from old to new.
pub(crate) fn spark(says: &str, points: &[u64]) -> Svg {
    let top = points.iter().copied().max().unwrap_or(0);
    let mut svg = Svg::of("sparkline", WIDTH, HEIGHT, says);
    let room = f64::from(HEIGHT) - 3.0;
    let step = f64::from(WIDTH) / (points.len().max(2) - 1) as f64;
    let line: Vec<String> = points
        .iter()
        .enumerate()
        .map(|(at, point)| {
            format!(
                "{:.1},{:.1}",
                at as f64 * step,
                f64::from(HEIGHT) - 1.5 - scaled(*point, top, room - 1.0)
            )
        })
        .collect();
    let line = line.join(" ");
    svg.push(format_args!("<polygon class=\"under\" points=\"0,{HEIGHT} {line} {WIDTH},{HEIGHT}\"/>"));
    svg.push(format_args!("<polyline class=\"spark\" points=\"{line}\"/>"));
    svg.done()
}
