//! Pictures, drawn as SVG on the server: they are there without a script, take their colours from the sheet by class,
//! and say in words what they show. Nothing here knows what the numbers mean.

mod bars;
mod map;
mod progress;
mod spark;
mod trend;

pub(crate) use bars::{Bar, bars, meter};
pub(crate) use map::{ROADS, Road, map};
pub(crate) use progress::{OUTCOMES, progress};
pub(crate) use spark::spark;
pub(crate) use trend::{Layer, Mark, Trend, legend_class, trend};

use std::fmt;

/// A finished picture. Text in it was escaped when it was drawn, so templates print it as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Svg(String);

impl Svg {
    /// An empty picture of this size; `says` is what it shows, for those who do not see it.
    fn of(class: &str, width: u32, height: u32, says: &str) -> Self {
        let says = escaped(says);
        Self(format!(
            "<svg class=\"{class}\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{says}\">"
        ))
    }

    fn push(&mut self, part: fmt::Arguments<'_>) {
        use fmt::Write;
        // Writing to a `String` does not fail.
        let _ = self.0.write_fmt(part);
    }

    fn done(mut self) -> Self {
        self.0.push_str("</svg>");
        self
    }
}

impl fmt::Display for Svg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl askama::filters::HtmlSafe for Svg {}

/// Text for an attribute or an element.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// At most so many characters, with a sign that there were more.
fn short(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return escaped(text);
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    escaped(&kept) + "…"
}

/// `part` of `whole` on a scale of `length`; something that is there is seen.
fn scaled(part: u64, whole: u64, length: f64) -> f64 {
    if part == 0 || whole == 0 {
        return 0.0;
    }
    (part as f64 / whole as f64 * length).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_into_a_picture_stays_text() {
        let road = Road { queue: "<script>".into(), ..Road::default() };
        let svg = map(&[road]).to_string();
        assert!(svg.contains("&lt;script&gt;") && !svg.contains("<script"), "{svg}");
        assert!(!bars("\"><b>", &[]).to_string().contains("<b>"));
    }

    #[test]
    fn what_is_there_is_seen_and_what_is_not_is_not() {
        assert_eq!((scaled(0, 10, 50.0), scaled(1, 1_000_000, 50.0), scaled(5, 10, 50.0)), (0.0, 1.0, 25.0));
        assert_eq!(scaled(3, 0, 50.0), 0.0);
    }
}
