//! `dlo`, the front door of Dead Letter Office: parse, run, exit code.

mod args;
mod block_on;
mod client;
mod commands;
mod config;
mod demo;
mod exit;
mod logs;
mod output;
mod schemas;
mod wire;

use std::process::ExitCode;

use clap::Parser;
use tikv_jemallocator::Jemalloc;

/// Letters are many small texts that one thread makes and another frees, which glibc's allocator is slow at.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    match commands::run(args::Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.is_silent() {
                output::say(format!("error: {failure}"));
            }
            ExitCode::from(failure.exit as u8)
        }
    }
}
