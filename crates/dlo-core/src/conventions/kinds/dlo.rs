//! Our own headers, version 1: read by the envelope, which wrote them. A retry hop that died on its way tells its origin
//! and its attempts.

use super::super::Reading;
use super::super::catalogue::{Convention, Mark, Writer};
use super::super::view::View;
use crate::envelope::{self, Envelope, Published, RetryHop};
use crate::message::Headers;
use crate::origin::BrokerKind;

pub(in super::super) const CONVENTION: Convention = Convention {
    id: "dlo",
    writer: Writer::Client,
    marks: &[Mark::Name("dlo-version"), Mark::Name("dlo-attempt")],
    // Taken off by the envelope's own list, which keeps the mark of a replay.
    strip: &[],
    read,
};

fn read(view: &View<'_>) -> Option<Reading> {
    let headers = &view.message.headers;
    let route = |reading| match view.found.broker {
        BrokerKind::Rabbitmq => with_route(reading, headers),
        _ => reading,
    };
    envelope::decode(headers)
        .map(|story| route(death(story)))
        .or_else(|| envelope::decode_hop(headers).map(hop))
}

fn death(story: Envelope) -> Reading {
    Reading {
        origin: story.origin.origin(),
        consumer: story.consumer_group,
        consumer_id: story.consumer_id,
        consumer_version: story.consumer_version,
        error_class: story.error_class,
        error_message: story.error_message,
        error_stack: story.error_stack,
        error_code: story.error_code,
        reason: story.reason,
        attempts: story.attempts,
        history: story.history,
        published_at: story.origin.timestamp,
        first_failed_at: story.first_failed_at,
        failed_at: story.dead_at.or(story.last_failed_at),
        ..Reading::default()
    }
}

/// RabbitMQ: how its producer had published it.
fn with_route(reading: Reading, headers: &Headers) -> Reading {
    let short = |text: &String| text.len() <= crate::limits::NAME;
    let published = Published::of(headers);
    let copies = published.copies.and_then(|list| serde_json::from_str::<Vec<String>>(&list).ok());
    Reading {
        exchange: published.exchange.filter(short),
        routing_key: published.routing_key.filter(short),
        copies: copies.unwrap_or_default(),
        expiration: published.expiration.filter(short),
        ..reading
    }
}

/// The hop names the attempt that never came to an end; those before it failed.
fn hop(hop: RetryHop) -> Reading {
    Reading {
        origin: hop.origin.origin(),
        attempts: Some(hop.attempt.number().saturating_sub(1)),
        failed_at: hop.history.records().last().map(|record| record.at),
        history: hop.history,
        published_at: hop.origin.timestamp,
        first_failed_at: hop.first_failed_at,
        ..Reading::default()
    }
}
