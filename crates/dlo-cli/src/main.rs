//! `dlo`, the front door of Dead Letter Office: parse, run, exit code.

mod args;
mod block_on;
mod client;
mod clock;
mod commands;
mod config;
mod demo;
mod exit;
mod features;
mod logs;
mod output;
mod schemas;
mod wire;

use std::process::ExitCode;

fn main() -> ExitCode {
    match commands::run(args::Args::read()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.is_silent() {
                output::say(format!("error: {failure}"));
            }
            ExitCode::from(failure.exit as u8)
        }
    }
}
