//! Logs of the office: to stderr, as text for a person who looks and as JSON for a machine that collects.

use std::io::IsTerminal;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::args::{LogArgs, LogFormat};
use crate::config::{Log, LogStyle};
use crate::exit::{Failure, Outcome};

mod repeats;

use repeats::Repeats;

/// Lines that were repeated, until their summary is written.
static REPEATS: OnceLock<Repeats> = OnceLock::new();
/// How often it is looked whether a summary is due.
const LOOK: Duration = Duration::from_secs(5);

/// RabbitMQ's client warns of a message that came back by showing all of it, and no payload byte is logged here.
const WITHOUT_PAYLOADS: &str = "lapin::returned_messages=off";
/// What else it logs is in the errors of our adapter, once instead of five times. A filter that names it shows it.
const WITHOUT_ECHO: &str = "lapin=off";

/// What is wrong with a filter, if anything is.
pub(crate) fn check_filter(filter: &str) -> Result<(), String> {
    parse(filter).map(drop)
}

fn parse(filter: &str) -> Result<EnvFilter, String> {
    let parsed = EnvFilter::try_new(filter).map_err(|_| {
        let shown: String = filter.chars().take(64).collect();
        format!("expected error, warn, info, debug, trace, or a filter such as \"dlo_server=debug,warn\", found \"{shown}\"")
    })?;
    let unwanted = [WITHOUT_PAYLOADS].into_iter().chain((!filter.contains("lapin")).then_some(WITHOUT_ECHO));
    Ok(unwanted.filter_map(|directive| directive.parse().ok()).fold(parsed, EnvFilter::add_directive))
}

/// Lays the flags over what the config says.
pub(crate) fn lay_over(log: &mut Log, args: LogArgs) -> Outcome {
    if let Some(format) = args.log_format {
        log.style = match format {
            LogFormat::Auto => LogStyle::Auto,
            LogFormat::Text => LogStyle::Text,
            LogFormat::Json => LogStyle::Json,
        };
    }
    if let Some(filter) = args.log_level {
        check_filter(&filter).map_err(|what| Failure::usage(format!("--log-level {what}")))?;
        log.filter = filter;
    }
    Ok(())
}

/// Whether lines are JSON.
pub(crate) fn is_json(style: LogStyle) -> bool {
    match style {
        LogStyle::Json => true,
        LogStyle::Text => false,
        LogStyle::Auto => !std::io::stderr().is_terminal(),
    }
}

/// Begins to log. Called once, by the commands that run the office.
pub(crate) fn init(log: &Log) -> Outcome {
    let filter = parse(&log.filter).map_err(|what| Failure::usage(format!("`log.level` {what}")))?;
    let failed = |cause: String| Failure::failed(format!("logging could not begin: {cause}"));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none());
    let lines = if is_json(log.style) {
        lines.json().flatten_event(true).boxed()
    } else {
        lines.with_target(false).boxed()
    };
    let repeats = REPEATS.get_or_init(Repeats::default);
    let registry = tracing_subscriber::registry().with(filter).with(repeats.clone()).with(lines);
    registry.try_init().map_err(|cause| failed(cause.to_string()))?;
    std::panic::set_hook(Box::new(log_panic));
    let summing = std::thread::Builder::new().name("dlo-log".into());
    let summing = summing.spawn(|| {
        loop {
            std::thread::sleep(LOOK);
            write_summaries(false);
        }
    });
    summing.map(drop).map_err(|cause| failed(cause.to_string()))
}

/// Writes how often lines were repeated that were not written. Called before the process ends.
pub(crate) fn finish() {
    write_summaries(true);
}

fn write_summaries(all: bool) {
    let due = REPEATS.get().map(|repeats| repeats.summaries(Instant::now(), all));
    for summary in due.into_iter().flatten() {
        summary.write();
    }
}

/// A panic is a line of the log like any other, with its text. Who runs the task adds what it worked on.
fn log_panic(panic: &std::panic::PanicHookInfo<'_>) {
    let at = panic.location().map(ToString::to_string).unwrap_or_default();
    let current = std::thread::current();
    let (text, thread) =
        (panic.payload_as_str().unwrap_or("it has no text"), current.name().unwrap_or("unnamed"));
    tracing::error!(text, at, thread, "a task panicked");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_filter_lets_a_client_show_messages() {
        for filter in ["trace", "lapin=trace", "dlo_server=debug,warn"] {
            assert!(parse(filter).unwrap().to_string().contains(WITHOUT_PAYLOADS), "{filter}");
        }
    }

    #[test]
    fn a_client_whose_errors_we_report_is_silent_unless_it_is_asked_for() {
        assert!(parse("info").unwrap().to_string().contains(WITHOUT_ECHO));
        assert!(!parse("info,lapin=warn").unwrap().to_string().contains(WITHOUT_ECHO));
    }
}
