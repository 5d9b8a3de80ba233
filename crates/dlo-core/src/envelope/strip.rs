//! What is taken off a message before it is replayed: our own story of a failure, and that of other conventions.
//!
//! A consumer that met the old story again would take it for its own: Spring counts attempts by such headers, RabbitMQ
//! drops a message whose `x-death` shows a cycle. All of it stays in the letter's history. The names stand with each
//! convention; those that an application may use for itself (`attempts`, `source`) are left alone.

use super::names;
use crate::conventions;
use crate::message::Headers;

/// Takes the story of every failure off, ours and others'. The mark of a replay stays; see [`super::mark_replayed`].
pub fn strip_for_replay(headers: &mut Headers) {
    headers.remove_where(|name| is_ours(name) || conventions::tells_of_a_failure(name));
}

/// By prefix, not by list: what a newer version writes about a failure must not travel on either.
fn is_ours(name: &str) -> bool {
    let ours = name.get(..names::PREFIX.len()).is_some_and(|head| head.eq_ignore_ascii_case(names::PREFIX));
    ours && !names::is_one_of(name, names::OF_A_REPLAY)
}
