//! What the core promises to everyone outside it: golden files, and properties of every parser.
//!
//! Modules say `cfg(test)` so that clippy knows helpers here as test code, which may unwrap.

#[cfg(test)]
mod completion;
#[cfg(test)]
mod conventions;
#[cfg(test)]
mod conventions_any;
#[cfg(test)]
mod envelope;
#[cfg(test)]
mod foreign_bytes;
#[cfg(test)]
mod produced;
#[cfg(test)]
mod query;
