//! The banner on top of every page: what does not work, since when, why, and what to do.
//!
//! It is part of the page that the office draws, so it is seen without a script. With one, `assets/troubles.js` fetches it
//! again every second, by itself.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use dlo_core::time::Timestamp;
use dlo_core::trouble::{Trouble, TroubleScope};

use super::show::{When, age, clock};
use super::{Shell, encoded, render};
use crate::office::Office;

/// Troubles that are shown at once, and those that a fold shows. `dlo status` lists all.
const FIRST: usize = 3;
const MOST: usize = 100;

/// What does not work, ready to be drawn.
#[derive(Debug, Clone, Default)]
pub(crate) struct Banner {
    pub(crate) first: Vec<BannerLine>,
    pub(crate) folded: Vec<BannerLine>,
    /// Troubles of sources: what is captured is not all there is.
    pub(crate) sources: usize,
    /// Not shown.
    pub(crate) more: usize,
}

/// One trouble.
#[derive(Debug, Clone)]
pub(crate) struct BannerLine {
    pub(crate) title: String,
    /// `19 Nov 18:02`, and how long ago that is.
    pub(crate) since: (String, When),
    pub(crate) why: String,
    /// What to do, in pieces of text and of code.
    pub(crate) action: Vec<(String, bool)>,
    /// The page that tells more.
    pub(crate) page: Option<String>,
}

impl Banner {
    pub(crate) fn of(office: &Office) -> Self {
        let troubles = office.troubles();
        let sources = troubles.iter().filter(|trouble| trouble.scope == TroubleScope::Source).count();
        let more = troubles.len().saturating_sub(MOST);
        let now = office.now();
        let mut first: Vec<BannerLine> =
            troubles.into_iter().take(MOST).map(|trouble| line(trouble, now)).collect();
        let folded = first.split_off(first.len().min(FIRST));
        Self { first, folded, sources, more }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// How many are behind the fold.
    pub(crate) fn behind(&self) -> usize {
        self.folded.len() + self.more
    }
}

fn line(trouble: Trouble, now: Timestamp) -> BannerLine {
    let lasts = When { exact: trouble.since.to_string(), ago: age(trouble.since, now) };
    let since = (clock(trouble.since), lasts);
    let page = match trouble.scope {
        TroubleScope::Source => Some(format!("/sources/{}", encoded(&trouble.name))),
        TroubleScope::Replay => Some(format!("/replays/{}", encoded(&trouble.name))),
        TroubleScope::Consumer | TroubleScope::Store | TroubleScope::Disk => None,
    };
    BannerLine { page, since, action: pieces(&trouble.action), title: trouble.title, why: trouble.why }
}

/// Every second piece between backticks is code.
fn pieces(text: &str) -> Vec<(String, bool)> {
    let parts = text.split('`').enumerate().map(|(at, part)| (part.to_owned(), at % 2 == 1));
    parts.filter(|(part, _)| !part.is_empty()).collect()
}

#[derive(Template)]
#[template(path = "banner.html")]
struct Fragment {
    shell: Shell,
}

/// The banner alone, for the script that follows it.
pub(crate) async fn fragment(State(_): State<Arc<Office>>, shell: Shell) -> Response {
    render(&Fragment { shell })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_apart_from_words() {
        let piece = |text: &str, code| (text.to_owned(), code);
        let expected = [piece("Run ", false), piece("dlo check", true), piece(".", false)];
        assert_eq!(pieces("Run `dlo check`."), expected);
    }
}
