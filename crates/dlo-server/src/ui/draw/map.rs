//! The map of sources: work queue → consumer → dead-letter queue → office, one road each, with what stands on it.
//!
//! It is drawn twice, lying and standing; the sheet shows the one that fits the screen.

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
    /// The consumer holds messages back.
    pub(crate) paused: bool,
}

pub(crate) fn map(roads: &[Road]) -> Svg {
    let shown = &roads[..roads.len().min(ROADS)];
    let says = format!("{} sources: queue, consumer, dead-letter queue, office", roads.len());
    Svg(format!("{}{}", lying(shown, &says), standing(shown, &says)))
}

fn lying(shown: &[Road], says: &str) -> Svg {
    let height = ROW * u32::try_from(shown.len().max(1)).unwrap_or(1);
    let mut svg = Svg::of("chart map lying", WIDTH, height, says);
    for (at, road) in shown.iter().enumerate() {
        let y = ROW * u32::try_from(at).unwrap_or(0) + 9;
        for (place, next) in PLACES.iter().zip(&PLACES[1..]) {
            arrow(&mut svg, place + BOX.0, *next, y + BOX.1 / 2);
        }
        for (place, (name, below, bad)) in PLACES.iter().zip(stations(road)) {
            node(&mut svg, *place, y, name, below, bad);
        }
    }
    svg.done()
}

fn standing(shown: &[Road], says: &str) -> Svg {
    let road_height = 4 * ROW;
    let height = road_height * u32::try_from(shown.len().max(1)).unwrap_or(1);
    let mut svg = Svg::of("chart map standing", BOX.0 + 4, height, says);
    let mut y = 9;
    for road in shown {
        for (at, (name, below, bad)) in stations(road).into_iter().enumerate() {
            node(&mut svg, PLACES[0], y, name, below, bad);
            if at < 3 {
                let (x, top) = (PLACES[0] + BOX.0 / 2, y + BOX.1);
                svg.push(format_args!("<path class=\"arrow\" d=\"M{x} {}l-5 -9h10z\"/>", top + 14));
            }
            y += ROW;
        }
    }
    svg.done()
}

/// The four boxes of a road: name, what stands below it, and whether something is wrong.
fn stations(road: &Road) -> [(&str, &str, bool); 4] {
    [
        (&road.queue, "work queue", false),
        (&road.consumer, if road.paused { "consumer, paused" } else { "consumer" }, road.paused),
        (&road.dlq, &road.waiting, road.broken),
        ("office", &road.open, false),
    ]
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
