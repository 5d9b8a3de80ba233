//! Dead-letter queues become letters: durable first, then settled; a second delivery is known; nothing is lost whatever
//! fails in between.

mod lab;
mod log;
mod queue;
mod servers;
mod stories;
