//! The consumer loop that services embed: it decides, when a message fails, whether to try again, park it or discard it.
//!
//! ```text
//!  receive ─▶ lane ─▶ breaker, brake (pause, free) ─▶ budget (wait, free) ─▶ journal ─▶ handler, with a deadline
//!          ─▶ classify ─▶ decide ─▶ act: done · again later · park · discard ─▶ settle
//! ```
//! What to do is decided in `dlo-core`, as pure functions. Here it is done, in the safe order: the new place confirms
//! before the old one is told. A crash between any two steps leaves at worst a duplicate.
//!
//! ```
//! use std::sync::Arc;
//! use dlo_brokers::memory::{MemoryBroker, MemoryConfig, QueueOptions};
//! use dlo_core::{broker::Broker, message::Message};
//! use dlo_runtime::{Consumer, Policy, SystemClock};
//!
//! async fn price(order: Message) -> Result<(), String> {
//!     if order.payload.0.is_empty() { Err("an order has a body".into()) } else { Ok(()) }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let broker = MemoryBroker::new(MemoryConfig::default(), Arc::new(SystemClock));
//! broker.declare("orders", QueueOptions::default());
//! broker.declare("orders.dlq", QueueOptions::default());
//!
//! let consumer = Consumer::builder(broker.source("orders", "pricing").await?, broker.publisher())
//!     .group("pricing")
//!     .policy(Policy::default())
//!     .handler(|order: Message| async move { price(order).await })
//!     .build()?;
//! let shutdown = async { /* a signal */ };
//! consumer.run(shutdown).await?;
//! # Ok(())
//! # }
//! ```

mod act;
mod attempts;
mod builder;
mod clock;
mod config;
mod consumer;
mod controls;
mod crc32;
mod delay;
mod drain;
mod events;
mod gates;
mod handler;
mod journal;
mod lanes;
mod large;
mod letters;
mod metrics;
mod outbox;
mod pills;
mod private;
#[cfg(feature = "push")]
pub mod push;
mod receipts;
mod receiving;
mod room;
mod settling;
mod shared;
mod spool;
mod story;
mod telling;

pub use builder::{BuildError, ConsumerBuilder, Policy, WhenOpen};
pub use clock::SystemClock;
pub use config::{Behind, ConsumerConfig, DlqRule, OrderBy};
pub use consumer::Consumer;
pub use controls::{Controls, UnderWay};
pub use events::{DeadLettered, Event, Watch};
pub use handler::{Context, Handler, IntoFailure, Unhandled, describe};
pub use large::{Kept, LargeLetter, LargeLetters};
pub use metrics::{Metrics, Snapshot, Tally, Timed};
pub use receipts::{Pause, Receipt, Receipts, Standing};

/// Words of the core that every handler needs.
pub use dlo_core::{failure::Failure, message::Message};
