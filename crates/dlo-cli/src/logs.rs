//! Logs of the office: to stderr, as text for a person who looks and as JSON for a machine that collects.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::args::{LogArgs, LogFormat};
use crate::config::{Log, LogStyle};
use crate::exit::{Failure, Outcome};

/// RabbitMQ's client warns of a message that came back by showing all of it, and no payload byte is logged here.
const WITHOUT_PAYLOADS: &str = "lapin::returned_messages=off";

/// What is wrong with a filter, if anything is.
pub(crate) fn check_filter(filter: &str) -> Result<(), String> {
    parse(filter).map(drop)
}

fn parse(filter: &str) -> Result<EnvFilter, String> {
    let parsed = EnvFilter::try_new(filter).map_err(|_| {
        let shown: String = filter.chars().take(64).collect();
        format!("expected error, warn, info, debug, trace, or a filter such as \"dlo_server=debug,warn\", found \"{shown}\"")
    })?;
    Ok(match WITHOUT_PAYLOADS.parse() {
        Ok(directive) => parsed.add_directive(directive),
        Err(_) => parsed,
    })
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
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_span_events(FmtSpan::NONE)
        .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none());
    let begun = if is_json(log.style) {
        builder.json().flatten_event(true).try_init()
    } else {
        builder.with_target(false).try_init()
    };
    begun.map_err(|cause| Failure::failed(format!("logging could not begin: {cause}")))
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
}
