//! The page's own style and scripts, compiled in. A browser asks again each time and is told that nothing changed, so an
//! upgrade is never met by yesterday's script.

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::api::layers::no_such_path;
use crate::query_text::Name;

struct Asset {
    name: &'static str,
    kind: &'static str,
    text: &'static str,
}

const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";

const ASSETS: &[Asset] = &[
    Asset {
        name: "office.css",
        kind: CSS,
        text: concat!(include_str!("../../assets/office.css"), include_str!("../../assets/desk.css")),
    },
    Asset { name: "icon.svg", kind: "image/svg+xml", text: include_str!("../../assets/icon.svg") },
    Asset { name: "early.js", kind: JS, text: include_str!("../../assets/early.js") },
    Asset { name: "office.js", kind: JS, text: include_str!("../../assets/office.js") },
    Asset { name: "forms.js", kind: JS, text: include_str!("../../assets/forms.js") },
    Asset { name: "undone.js", kind: JS, text: include_str!("../../assets/undone.js") },
    Asset { name: "dialog.js", kind: JS, text: include_str!("../../assets/dialog.js") },
    Asset { name: "live.js", kind: JS, text: include_str!("../../assets/live.js") },
    Asset { name: "troubles.js", kind: JS, text: include_str!("../../assets/troubles.js") },
    Asset { name: "ages.js", kind: JS, text: include_str!("../../assets/ages.js") },
    Asset { name: "menu.js", kind: JS, text: include_str!("../../assets/menu.js") },
    Asset { name: "keys.js", kind: JS, text: include_str!("../../assets/keys.js") },
    Asset { name: "select.js", kind: JS, text: include_str!("../../assets/select.js") },
    Asset { name: "complete.js", kind: JS, text: include_str!("../../assets/complete.js") },
    Asset { name: "letter.js", kind: JS, text: include_str!("../../assets/letter.js") },
    Asset { name: "replay.js", kind: JS, text: include_str!("../../assets/replay.js") },
    Asset { name: "trial.js", kind: JS, text: include_str!("../../assets/trial.js") },
    Asset { name: "reader.js", kind: JS, text: include_str!("../../assets/reader.js") },
];

pub(crate) async fn serve(Name(name): Name, headers: HeaderMap) -> Response {
    let Some(asset) = ASSETS.iter().find(|asset| asset.name == name) else {
        return no_such_path().await.into_response();
    };
    let tag = format!("\"{:016x}\"", fnv(asset.text.as_bytes()));
    let same = headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut response =
        if same { StatusCode::NOT_MODIFIED.into_response() } else { asset.text.into_response() };
    let out = response.headers_mut();
    out.insert(header::CONTENT_TYPE, HeaderValue::from_static(asset.kind));
    out.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        out.insert(header::ETAG, tag);
    }
    response
}

/// FNV-1a: tells versions of our own files apart, nothing more.
fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
