//! What the core promises to everyone outside it: golden files, and properties of every parser.

mod foreign_bytes;
mod query;
mod templates;
