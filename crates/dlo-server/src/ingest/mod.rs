//! Letters over HTTP: read from the body in chunks, held against the bounds, stored, answered one by one.
//!
//! ```text
//!  body ─▶ lines ─▶ chunks ─▶ item ─▶ admit ─▶ store.insert ─▶ outcomes ─▶ answer
//!                     └── several at once, bounded, results in the order sent ──┘
//! ```
//!
//! A body is never held whole unless it is one JSON document. Reading never waits for the client to read
//! its answer, so a client that writes everything before it reads does not block itself.

pub(crate) mod answer;
pub(crate) mod chunk;
pub(crate) mod headers;
pub(crate) mod item;
pub(crate) mod lines;
pub(crate) mod outcome;
pub(crate) mod text;
