//! `dlo export prometheus-rules`: alert rules for the sources that are there, ready to load.
//!
//! Names of sources are user text: they are quoted for PromQL, then for YAML, and never stand in an annotation, where
//! Prometheus would read `{{` as a template. What an alert says about its source comes from the labels.

use std::path::Path;
use std::time::Duration;

use dlo_core::units::HumanDuration;

use crate::args::PrometheusArgs;
use crate::config::{Config, Source};
use crate::exit::Outcome;
use crate::output::Out;

pub(super) fn export(args: &PrometheusArgs, config: Option<&Path>) -> Outcome {
    let config = Config::load(config)?;
    let out = Out::new(false);
    out.bytes(rules(&config.sources, args).as_bytes())
}

/// One alert before it is written down.
struct Alert<'a> {
    name: &'a str,
    expr: String,
    lasting: &'a str,
    severity: &'a str,
    owner: Option<&'a str>,
    summary: &'a str,
    description: String,
}

fn rules(sources: &[Source], args: &PrometheusArgs) -> String {
    let mut text = String::from(
        "# Alert rules for Dead Letter Office, written by `dlo export prometheus-rules`.\n# Write them anew when sources change.\ngroups:\n",
    );
    if sources.is_empty() {
        group(&mut text, "dlo-sources", &of_source(None, args));
    }
    for source in sources {
        group(&mut text, &format!("dlo-source-{}", source.name), &of_source(Some(source), args));
    }
    group(&mut text, "dlo-office", &of_office());
    text
}

/// The five alerts of a source, or of every source at once.
fn of_source<'a>(source: Option<&'a Source>, args: &PrometheusArgs) -> Vec<Alert<'a>> {
    let only = source.map(|source| format!("source={}", quoted(&source.name)));
    let with = |more: Option<&str>| {
        let labels: Vec<&str> = only.as_deref().into_iter().chain(more).collect();
        if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) }
    };
    let open = format!("sum by (source) (dlo_letters{})", with(Some("status=\"open\"")));
    let oldest = format!("max by (source) (dlo_oldest_open_age_seconds{})", with(None));
    let growth = format!("sum by (source) (rate(dlo_letters_captured_total{}[5m])) * 60", with(None));
    let critical = source.is_some_and(|source| source.critical);
    let owner = source.and_then(|source| source.owner.as_deref());
    let alert = |name, expr, lasting, severity, summary, description| Alert {
        name,
        expr,
        lasting,
        severity,
        owner,
        summary,
        description,
    };
    let (depth, worst) = (args.depth, args.depth.saturating_mul(5));
    vec![
        alert(
            "DeadLetterArrived",
            format!("{open} > 0"),
            "0s",
            if critical { "warning" } else { "info" },
            "{{ $labels.source }} has dead letters",
            "{{ $value }} letters of {{ $labels.source }} are open. See `dlo groups list`.".to_string(),
        ),
        alert(
            "DeadLettersDeep",
            format!("{open} > {depth}"),
            "5m",
            "warning",
            "{{ $labels.source }} has too many dead letters",
            format!("{{{{ $value }}}} letters of {{{{ $labels.source }}}} are open; the limit is {depth}."),
        ),
        alert(
            "DeadLettersVeryDeep",
            format!("{open} > {worst}"),
            "1m",
            "critical",
            "{{ $labels.source }} has far too many dead letters",
            format!(
                "{{{{ $value }}}} letters of {{{{ $labels.source }}}} are open, five times the limit of {depth}."
            ),
        ),
        alert(
            "DeadLettersGrowing",
            format!("{growth} > {}", args.growth),
            "5m",
            "warning",
            "{{ $labels.source }} gains dead letters fast",
            "{{ $labels.source }} gained {{ $value | humanize }} letters a minute over five minutes."
                .to_string(),
        ),
        alert(
            "DeadLetterOld",
            format!("{oldest} > {}", args.oldest.as_secs()),
            "5m",
            if critical { "critical" } else { "warning" },
            "{{ $labels.source }} has a dead letter that waits too long",
            format!(
                "The oldest open letter of {{{{ $labels.source }}}} failed {{{{ $value | humanizeDuration }}}} ago; the limit is {}.",
                HumanDuration(Duration::from_secs(args.oldest.as_secs()))
            ),
        ),
    ]
}

fn of_office() -> Vec<Alert<'static>> {
    let alert = |name, expr: &str, lasting, severity, summary, description: &str| Alert {
        name,
        expr: expr.to_string(),
        lasting,
        severity,
        owner: None,
        summary,
        description: description.to_string(),
    };
    vec![
        alert(
            "DeadLettersUnowned",
            "sum(dlo_letters_unowned) > 0",
            "15m",
            "warning",
            "dead letters have no owner",
            "{{ $value }} open letters belong to nobody. Add a rule to `[[rules.owners]]`; see `dlo groups list --owner none`.",
        ),
        alert(
            "DeadLetterOfficeTrouble",
            "sum by (kind) (dlo_troubles) > 0",
            "2m",
            "warning",
            "the dead letter office reports {{ $labels.kind }}",
            "{{ $value }} things of the kind {{ $labels.kind }} do not work. `dlo status` says which, why, and what to do.",
        ),
        alert(
            "DeadLetterOfficeAbsent",
            "absent(dlo_letters_unowned)",
            "5m",
            "critical",
            "the dead letter office is out of reach",
            "No metrics came from `dlo serve` for five minutes: dead letters may be waiting unseen.",
        ),
    ]
}

fn group(text: &mut String, name: &str, alerts: &[Alert<'_>]) {
    text.push_str(&format!("  - name: {}\n    rules:\n", quoted(name)));
    for alert in alerts {
        let owner =
            alert.owner.map_or(String::new(), |owner| format!("          owner: {}\n", quoted(owner)));
        text.push_str(&format!(
            "      - alert: {}\n        expr: {}\n        for: {}\n        labels:\n          severity: {}\n{owner}        annotations:\n          summary: {}\n          description: {}\n",
            alert.name,
            quoted(&alert.expr),
            alert.lasting,
            alert.severity,
            quoted(alert.summary),
            quoted(&alert.description),
        ));
    }
}

/// In double quotes, with the escapes that YAML, PromQL and JSON have in common.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_quoted_for_the_language_around_it() {
        assert_eq!(quoted("a\"b\\c\nd\u{1}"), "\"a\\\"b\\\\c\\nd\\u0001\"");
    }
}
