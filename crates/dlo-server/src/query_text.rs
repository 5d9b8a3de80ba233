//! What a request asks for, read from its URL: a page, a query, an id, an author.
//!
//! An unknown parameter is refused: `?query=` for `?q=` would otherwise list everything.

use std::net::SocketAddr;
use std::str::FromStr;

use axum::extract::{ConnectInfo, FromRequestParts, Path, Query as UrlQuery};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use dlo_core::limits;
use dlo_core::query::Query;
use dlo_store::{Cursor, Deed, Page};
use serde::de::DeserializeOwned;

use crate::api::error::{Answer, Problem};
use crate::guard::Proven;
use crate::office::Office;

/// Who does it, unless the client says a name. A name is a claim: it is recorded, not proven.
pub(crate) const AUTHOR: &str = "dlo-author";

/// Parameters of a URL.
#[derive(Debug)]
pub(crate) struct Params<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Answer<Self> {
        Self::of(&parts.uri)
    }
}

impl<T: DeserializeOwned> Params<T> {
    pub(crate) fn of(address: &Uri) -> Answer<Self> {
        UrlQuery::try_from_uri(address).map(|UrlQuery(params)| Self(params)).map_err(|rejection| {
            let text = rejection.body_text();
            let detail =
                text.strip_prefix("Failed to deserialize query string: ").unwrap_or(&text).to_string();
            Problem::bad_request("bad_parameter", detail)
        })
    }
}

/// The id in a path.
#[derive(Debug)]
pub(crate) struct Id<T>(pub(crate) T);

impl<T: FromStr, S: Send + Sync> FromRequestParts<S> for Id<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Answer<Self> {
        let wrong = || Problem::new(StatusCode::NOT_FOUND, "bad_id", "an id is a UUID; this is none");
        let Path(text) = Path::<String>::from_request_parts(parts, state).await.map_err(|_| wrong())?;
        text.parse().map(Self).map_err(|_| wrong())
    }
}

/// A name in a path, such as a source's.
#[derive(Debug)]
pub(crate) struct Name(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Name {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Answer<Self> {
        let wrong = |_| Problem::bad_request("bad_path", "the path is not UTF-8 text after percent-decoding");
        Path::<String>::from_request_parts(parts, state).await.map(|Path(name)| Self(name)).map_err(wrong)
    }
}

/// Who asks.
#[derive(Debug, Clone)]
pub(crate) struct Author(pub(crate) String);

/// Who asks, if a name came with the request: by a token, a header or a cookie.
#[derive(Debug, Clone)]
pub(crate) struct GivenName(pub(crate) Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for GivenName {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Answer<Self> {
        // A token with a name proves who it is; what the client claims beside it is not asked.
        if let Some(Proven(name)) = parts.extensions.get() {
            return Ok(Self(Some(name.clone())));
        }
        if let Some(value) = parts.headers.get(AUTHOR) {
            let name = std::str::from_utf8(value.as_bytes()).unwrap_or_default().trim();
            if !is_name(name) {
                let detail = format!("`{AUTHOR}` is a name of 1 to {} characters", limits::NAME);
                return Err(Problem::bad_request("bad_author", detail).field(AUTHOR));
            }
            return Ok(Self(Some(name.to_string())));
        }
        // A browser that follows a link sends no header of ours; the page's script left the name in a cookie.
        Ok(Self(cookie(&parts.headers, AUTHOR)))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Author {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Answer<Self> {
        if let GivenName(Some(name)) = GivenName::from_request_parts(parts, state).await? {
            return Ok(Self(name));
        }
        let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>();
        Ok(Self(peer.map_or_else(|| "anonymous".to_string(), |peer| format!("anonymous@{}", peer.0.ip()))))
    }
}

impl Author {
    /// A deed that needs no reason, such as looking.
    pub(crate) fn looks(self) -> Deed {
        Deed { author: self.0, reason: None, reference: None }
    }
}

/// What the audit log may be told as a name: not empty, not endless, nothing that a terminal would obey.
pub(crate) fn is_name(text: &str) -> bool {
    !text.trim().is_empty() && text.chars().count() <= limits::NAME && !text.chars().any(char::is_control)
}

/// A cookie that the page's script wrote: percent-encoded text, at most as long as a name. Anything else is none.
pub(crate) fn cookie(headers: &HeaderMap, wanted: &str) -> Option<String> {
    let pairs = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let value = pairs.flat_map(|line| line.split(';')).find_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        (name == wanted).then_some(value)
    })?;
    let decoded = percent_encoding::percent_decode_str(value).decode_utf8().ok()?;
    let name = decoded.trim();
    is_name(name).then(|| name.to_string())
}

/// The page that `limit` and `cursor` ask for.
pub(crate) fn page(limit: Option<usize>, cursor: Option<String>) -> Answer<Page> {
    let limit = limit.unwrap_or(Page::DEFAULT);
    if !(1..=Page::MOST).contains(&limit) {
        let detail = format!("`limit` must be 1 to {}, found {limit}", Page::MOST);
        return Err(Problem::bad_request("bad_limit", detail).field("limit"));
    }
    Ok(Page { limit, cursor: cursor.filter(|cursor| !cursor.is_empty()).map(Cursor) })
}

/// The query that `q` spells, with an error that points at the place.
pub(crate) fn query(text: &str, office: &Office) -> Answer<Query> {
    office
        .query(text)
        .map_err(|error| Problem::bad_request("bad_query", error.to_string()).field("q").at(error.at.start))
}

/// The same for what is done with letters: a term on a masked value is refused, since its negation would mean all of them.
pub(crate) fn query_of_shown(text: &str, office: &Office) -> Answer<Query> {
    let query = query(text, office)?;
    match query.masked_terms().first() {
        Some(why) => {
            let detail = format!("{why}; ask by a value that is shown");
            Err(Problem::unprocessable("masked_value", detail).field("query"))
        }
        None => Ok(query),
    }
}

/// A sentence that a person wrote.
pub(crate) fn note(field: &'static str, text: Option<String>) -> Answer<Option<String>> {
    let text = text.map(|text| text.trim().to_string()).filter(|text| !text.is_empty());
    if let Some(text) = &text
        && (text.chars().count() > limits::NOTE || text.contains('\0'))
    {
        let detail = format!("`{field}` has at most {} characters and no NUL", limits::NOTE);
        return Err(Problem::unprocessable("bad_note", detail).field(field));
    }
    Ok(text)
}
