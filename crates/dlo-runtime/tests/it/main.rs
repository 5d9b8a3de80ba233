//! The loop on the memory broker, under paused time: scripted failures in, letters and settlements out.

#![expect(clippy::unwrap_used, clippy::panic, reason = "in tests, to stop is how a failure is told")]

mod handlers;
mod mass;
mod ordering;
mod outages;
mod parking;
#[cfg(all(test, feature = "push"))]
mod push;
mod receipts;
mod retrying;
mod shop;
mod sim;
mod spooling;
mod stopping;
