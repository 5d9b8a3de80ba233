//! One suite, two engines: what `Store` promises is proven once and run on SQLite and on a real PostgreSQL.
//!
//! `conformance/` holds the promises, `model.rs` the simplest store that could keep them, `property.rs` compares
//! the two at random; `sqlite.rs` and `postgres.rs` run them and prove what is the engine's own.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "in tests, to stop is how a failure is told"
)]

mod conformance;
mod letters;
mod model;
mod postgres;
mod property;
mod replay_stories;
mod replaying;
mod sqlite;
