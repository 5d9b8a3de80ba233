//! Where a message is published, and how it gets there.

use std::time::Duration;

use crate::message::Message;

/// A message on its way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    pub to: Destination,
    pub message: Message,
    /// Visible to consumers not before this is over. Only up to `Capabilities::delayed_publish`.
    pub delay: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Destination {
    pub queue: String,
    /// Explicit where the origin had one: clients hash keys differently.
    pub partition: Option<i32>,
    /// How it gets there on a broker that routes; elsewhere it is ignored. `None`: straight to the queue.
    pub route: Option<Box<Route>>,
}

/// How a message is published through an exchange (AMQP 0-9-1).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Route {
    /// Empty is the default exchange, which routes to the queue that the routing key names.
    pub exchange: String,
    pub routing_key: String,
    /// Further routing keys, as the producer's `CC`.
    pub copies: Vec<String>,
}

impl Destination {
    pub fn queue(queue: impl Into<String>) -> Self {
        Self { queue: queue.into(), partition: None, route: None }
    }
}
