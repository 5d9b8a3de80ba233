//! Replays on the memory broker and the embedded store: capture, plan, send, outcome, by the office as it runs.

mod allowed;
mod runs;
mod shop;
