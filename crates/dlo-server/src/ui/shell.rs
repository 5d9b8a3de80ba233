//! What frames every page: what does not work, the rooms of the office, who looks, and in which light.
//!
//! The last two are cookies that the page's own script writes, so that the first paint is right and reading needs no script.
//! Neither proves anything: a name that counts comes with a token (`guard.rs`).

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::banner::Banner;
use crate::guard::Proven;
use crate::office::Office;
use crate::query_text::cookie;

/// The rooms in the order in which an incident is worked through.
const ROOMS: [(&str, &str); 8] = [
    ("/", "Overview"),
    ("/groups", "Groups"),
    ("/letters", "Letters"),
    ("/replays", "Replays"),
    ("/sources", "Sources"),
    ("/rules", "Rules"),
    ("/owners", "Owners"),
    ("/audit", "Audit"),
];

#[derive(Debug, Clone, Default)]
pub(crate) struct Shell {
    /// What the reader chose; without a choice the system's own setting counts.
    pub(crate) theme: Option<&'static str>,
    /// Who looks, as far as it is known.
    pub(crate) who: String,
    /// The name came with a token and cannot be changed here.
    pub(crate) proven: bool,
    /// What does not work now.
    pub(crate) banner: Banner,
    path: String,
}

impl Shell {
    /// Of a request to this office.
    pub(crate) fn of(office: &Office, parts: &Parts) -> Self {
        let theme = match cookie(&parts.headers, "dlo-theme").as_deref() {
            Some("dark") => Some("dark"),
            Some("light") => Some("light"),
            _ => None,
        };
        let proven = parts.extensions.get::<Proven>().map(|Proven(name)| name.clone());
        Self {
            theme,
            proven: proven.is_some(),
            who: proven.or_else(|| cookie(&parts.headers, "dlo-author")).unwrap_or_default(),
            banner: Banner::of(office),
            path: parts.uri.path().to_string(),
        }
    }

    pub(crate) fn rooms(&self) -> [(&'static str, &'static str); 8] {
        ROOMS
    }

    /// Whether the page stands in this room.
    pub(crate) fn is_in(&self, room: &str) -> bool {
        let rest = self.path.strip_prefix(room);
        if room == "/" {
            self.path == "/"
        } else {
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        }
    }
}

impl FromRequestParts<Arc<Office>> for Shell {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, office: &Arc<Office>) -> Result<Self, Infallible> {
        Ok(Self::of(office, parts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_knows_its_room() {
        let at = |path: &str| {
            let shell = Shell { path: path.into(), ..Shell::default() };
            ROOMS.iter().filter(|(room, _)| shell.is_in(room)).map(|(_, name)| *name).collect::<Vec<_>>()
        };
        assert_eq!(at("/"), ["Overview"]);
        assert_eq!(at("/letters/01"), ["Letters"]);
        assert_eq!(at("/lettersandmore"), Vec::<&str>::new());
    }
}
