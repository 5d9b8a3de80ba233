//! The `dlo` command from outside: real processes, real files, real sockets.
//!
//! The modules are marked as test code, so that clippy lets their helpers unwrap.

#[cfg(test)]
mod brokers;
#[cfg(test)]
mod check;
#[cfg(test)]
mod client;
#[cfg(test)]
mod clock_jumps;
#[cfg(test)]
mod consume;
#[cfg(test)]
mod dead_wires;
#[cfg(test)]
mod demo;
#[cfg(test)]
mod disk;
#[cfg(test)]
mod drain;
#[cfg(test)]
mod exit_codes;
#[cfg(test)]
mod guard;
#[cfg(test)]
mod help;
#[cfg(test)]
mod import;
#[cfg(test)]
mod kill;
#[cfg(test)]
mod log_lines;
#[cfg(test)]
mod office;
#[cfg(test)]
mod postgres;
#[cfg(test)]
mod prometheus;
#[cfg(test)]
mod python;
#[cfg(test)]
mod repair;
#[cfg(test)]
mod replay;
#[cfg(test)]
mod serve;
#[cfg(test)]
mod status;
#[cfg(test)]
mod stories;
#[cfg(test)]
mod trouble;
