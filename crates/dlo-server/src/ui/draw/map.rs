//! The map of sources: work queue → consumer → dead-letter queue → office, one road each, with what stands on it.

use super::{Svg, escaped, short};

const WIDTH: u32 = 1140;
const ROW: u32 = 58;
const BOX: (u32, u32) = (234, 40);
/// Where the four boxes of a road begin.
const PLACES: [u32; 4] = [2, 302, 602, 902];
/// Roads in one picture; a list says the rest.
pub(crate) const ROADS: usize = 12;

/// One source on the map.
#[derive(Debug, Clone, Default)]
pub(crate) struct Road {
    pub(crate) queue: String,
    pub(crate) consumer: String,
    pub(crate) dlq: String,
    /// Below the dead-letter queue: how much stands in it.
    pub(crate) waiting: String,
    /// Below the office: how many letters are open.
    pub(crate) open: String,
    /// The office cannot read it right now.
    pub(crate) broken: bool,
}

pub(crate) fn map(roads: &[Road]) -> Svg {
    let shown = &roads[..roads.len().min(ROADS)];
    let height = ROW * u32::try_from(shown.len().max(1)).unwrap_or(1);
    let says = format!("{} sources: queue, consumer, dead-letter queue, office", roads.len());
    let mut svg = Svg::of("chart map", WIDTH, height, &says);
    for (at, road) in shown.iter().enumerate() {
        let y = ROW * u32::try_from(at).unwrap_or(0) + 9;
        for (place, next) in PLACES.iter().zip(&PLACES[1..]) {
            arrow(&mut svg, place + BOX.0, *next, y + BOX.1 / 2);
        }
        node(&mut svg, PLACES[0], y, &road.queue, "work queue", false);
        node(&mut svg, PLACES[1], y, &road.consumer, "consumer", false);
        node(&mut svg, PLACES[2], y, &road.dlq, &road.waiting, road.broken);
        node(&mut svg, PLACES[3], y, "office", &road.open, false);
    }
    svg.done()
}

fn node(svg: &mut Svg, x: u32, y: u32, name: &str, below: &str, bad: bool) {
    let class = if bad { "node bad" } else { "node" };
    let (wide, tall) = BOX;
    svg.push(format_args!("<g><title>{}</title>", escaped(name)));
    svg.push(format_args!(
        "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{wide}\" height=\"{tall}\" rx=\"7\"/>"
    ));
    svg.push(format_args!(
        "<text class=\"strong\" x=\"{}\" y=\"{}\">{}</text>",
        x + 9,
        y + 17,
        short(name, 34)
    ));
    svg.push(format_args!("<text x=\"{}\" y=\"{}\">{}</text></g>", x + 9, y + 32, short(below, 40)));
}

fn arrow(svg: &mut Svg, from: u32, to: u32, y: u32) {
    let tip = to - 2;
    svg.push(format_args!(
        "<line class=\"edge\" x1=\"{}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\"/>",
        from + 3,
        tip - 6
    ));
    svg.push(format_args!("<path class=\"arrow\" d=\"M{tip} {y}l-8 -4v8z\"/>"));
}
