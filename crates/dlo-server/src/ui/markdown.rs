//! Runbooks are Markdown that people wrote. HTML in it is shown as text, and links go nowhere but to `http`, `https` and
//! our own pages; images are named, not fetched.

use std::fmt;

use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd};

/// Markdown as HTML that may be shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Prose(String);

impl fmt::Display for Prose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl askama::filters::HtmlSafe for Prose {}

impl Prose {
    pub(crate) fn of(markdown: &str) -> Self {
        let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
        let safe = Parser::new_ext(markdown, options).filter_map(harmless);
        let mut html = String::with_capacity(markdown.len() * 2);
        pulldown_cmark::html::push_html(&mut html, safe);
        Self(html)
    }
}

fn harmless(event: Event<'_>) -> Option<Event<'_>> {
    Some(match event {
        Event::Html(html) | Event::InlineHtml(html) => Event::Text(html),
        Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
            let dest_url = if is_harmless(&dest_url) { dest_url } else { CowStr::Borrowed("#") };
            Event::Start(Tag::Link { link_type, dest_url, title, id })
        }
        // Its description follows as text.
        Event::Start(Tag::Image { .. }) | Event::End(TagEnd::Image) => return None,
        // The page has headings of its own above.
        Event::Start(Tag::Heading { .. }) => Event::Start(Tag::Heading {
            level: pulldown_cmark::HeadingLevel::H3,
            id: None,
            classes: Vec::new(),
            attrs: Vec::new(),
        }),
        Event::End(TagEnd::Heading(_)) => Event::End(TagEnd::Heading(pulldown_cmark::HeadingLevel::H3)),
        other => other,
    })
}

fn is_harmless(url: &str) -> bool {
    let own = url.starts_with('/') && !url.starts_with("//");
    let lower = url.to_ascii_lowercase();
    own || lower.starts_with("https://") || lower.starts_with("http://")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runbook_is_shown_as_it_was_meant() {
        let html =
            Prose::of("# First\n\n- look at the [dashboard](https://grafana.example/d/1)\n- **then** replay")
                .to_string();
        assert!(html.contains("<h3>First</h3>") && html.contains("<strong>then</strong>"), "{html}");
        assert!(html.contains("href=\"https://grafana.example/d/1\""), "{html}");
    }

    #[test]
    fn nothing_in_a_runbook_is_run_or_fetched() {
        let nasty = "<script>alert(1)</script> <img src=x onerror=alert(2)>\n\n[a](javascript:alert(3)) [b](JaVaScRiPt:x) [c](//evil.example) ![d](https://evil.example/p.png) [e](data:text/html,x)";
        let html = Prose::of(nasty).to_string();
        for bad in ["<script", "<img", "javascript:", "evil.example", "data:"] {
            assert!(!html.to_lowercase().contains(bad), "{bad} in {html}");
        }
    }
}
