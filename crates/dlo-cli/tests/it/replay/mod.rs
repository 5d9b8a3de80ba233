//! The worked stories of replay, end to end: a real broker, a consumer on the real runtime, an office, and the CLI.
//!
//! `shop.rs` is what they have in common. Each story waits for facts, and prints what happened.

mod breaker;
mod canary;
mod copies;
mod demo;
mod doubts;
mod kill;
mod operators;
mod outage;
mod parks_again;
mod pill;
mod produced;
mod refused;
mod repair;
mod restored;
mod routed;
mod rules;
mod shop;
