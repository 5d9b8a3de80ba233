//! Redis entries without a payload field: their fields are the message, and a failing consumer adds its own to them.

use super::super::Reading;
use super::super::added::Judged;
use super::super::body::Body;
use super::super::view::View;
use super::fields::Draft;
use super::{Mapper, builtin};
use crate::message::{Headers, Message};
use crate::origin::BrokerKind;

const LAYOUT: &str = "layout";

/// Whether the payload is made of the fields of an entry.
fn is_flat(headers: &Headers) -> bool {
    headers.transport(BrokerKind::Redis, LAYOUT) == Some("object")
}

/// The same for a letter that was found on Redis. Every letter is checked, so the broker comes first: it costs nothing.
fn is_flat_entry(view: &View<'_>) -> bool {
    view.found.broker == BrokerKind::Redis && is_flat(&view.message.headers)
}

/// What the fields that a failing consumer added tell.
pub(super) fn read(mapper: &Mapper, view: &View<'_>) -> Option<Reading> {
    let body = is_flat_entry(view).then(|| view.body()).flatten()?;
    let judged = Judged::of(body.fields().map(|(name, _)| name), mapper, true);
    let mut draft = Draft::default();
    let added: Vec<_> = body.fields().enumerate().filter(|(at, _)| judged.is_added(*at)).collect();
    for (_, (name, value)) in added.into_iter().rev() {
        if let Some((_, field)) = builtin::known(&snake_case(name)) {
            draft.put(field, &view.raw(Some(value)));
        }
    }
    draft.finish(view)
}

/// `errorMessage` as `error_message`.
fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    for c in name.chars() {
        if c.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

/// Whether an entry is a copy with the fields of the message: more than one of them, or one that is no JSON.
pub(super) fn is_copy(view: &View<'_>) -> bool {
    if !is_flat_entry(view) {
        return false;
    }
    let Some(body) = view.body() else { return false };
    let judged = Judged::of(body.fields().map(|(name, _)| name), &Mapper::default(), true);
    let mut own = body.fields().enumerate().filter(|(at, _)| !judged.is_added(*at));
    let is_json = |text: &[u8]| text.trim_ascii_start().starts_with(b"{");
    match (own.next(), own.next()) {
        (Some((_, (name, _))), None) => !is_json(view.field(name).bytes().unwrap_or_default()),
        (None | Some(_), _) => true,
    }
}

/// What comes out of a flat entry is flat again only if it is an object of texts. Anything else was a payload.
pub(super) fn settle_layout(message: &mut Message) {
    if !is_flat(&message.headers) {
        return;
    }
    let is_text = |body: &Body<'_>| body.fields().all(|(_, value)| value.get().starts_with('"'));
    if !Body::open(&message.payload.0).is_some_and(|body| is_text(&body)) {
        message.headers.remove_where(|name| name == "redis:layout");
    }
}
