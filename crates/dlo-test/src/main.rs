//! The test runner behind `./test`: one build, tiers beside each other, one summary.
//!
//! `tiers.rs` is the table of what there is to run. `needs.rs` installs what the chosen tiers need, `build.rs` compiles the
//! workspace once with clippy as the compiler, `schedule.rs` runs the tiers, `report.rs` prints the outcome. The script
//! `./test` starts this program and removes what an interrupted run leaves behind.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "printing is what a test runner is for")]

mod args;
mod build;
mod docs;
mod libtest;
mod needs;
mod process;
mod report;
mod run;
mod schedule;
mod scratch;
mod servers;
mod tiers;

use std::process::ExitCode;

use args::{Request, Wanted};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // Cargo calls this program instead of rustdoc while it runs the examples in the docs.
    if std::env::var_os(docs::AS_RUSTDOC).is_some() {
        return docs::as_rustdoc(&arguments);
    }
    match args::parse(&arguments).and_then(answer) {
        Ok(code) => code,
        Err(why) => {
            eprintln!("test: {why}");
            ExitCode::from(2)
        }
    }
}

fn answer(wanted: Wanted) -> Result<ExitCode, String> {
    match wanted {
        Wanted::Help => print!("{}", args::usage()),
        Wanted::List => print!("{}", report::list()),
        Wanted::Run(request) => return run_all(&request),
    }
    Ok(ExitCode::SUCCESS)
}

fn run_all(request: &Request) -> Result<ExitCode, String> {
    scratch::enter_repository()?;
    let installing = needs::install(request)?;
    if request.prepare_only {
        return installing.finish().map(|()| ExitCode::SUCCESS);
    }
    let summary = schedule::run(request, installing)?;
    Ok(if report::print(&summary) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
