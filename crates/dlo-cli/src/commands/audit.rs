//! `dlo audit`: what was done, by whom and why; and the proof that the books balance.

use serde_json::Value;

use super::now;
use crate::args::{AuditArgs, AuditCommand};
use crate::client::{Client, Pages};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{Align, Out, Table, Tone, clean, count, cut, letters, say};

pub(super) fn run(args: AuditArgs) -> Outcome {
    let client = Client::new(&args.client)?;
    let out = Out::new(args.client.json);
    match args.command {
        AuditCommand::List { limit } => list(&client, out, limit),
        AuditCommand::Verify => verify(&client, out),
    }
}

fn list(client: &Client, out: Out, limit: u64) -> Outcome {
    let page =
        Pages { path: "/api/v1/audit", list: "entries", query: &[], cursor: None }.up_to(client, limit)?;
    if out.json {
        return out.value(&page.whole());
    }
    let mut table = Table::new(&[
        ("SEQ", Align::Right),
        ("WHEN", Align::Left),
        ("WHAT", Align::Left),
        ("N", Align::Right),
        ("WHO", Align::Left),
        ("SOURCE", Align::Left),
        ("LETTER", Align::Left),
        ("WHY", Align::Left),
    ]);
    let now = now();
    for entry in &page.items {
        let text = |key: &str| field(entry, key);
        let why = match (text("reason"), text("reference")) {
            (reason, reference) if reference == "-" => reason,
            (reason, reference) => format!("{reason} ({reference})"),
        };
        table.row([
            text("seq"),
            crate::client::age_of(entry, "at", now),
            text("what"),
            count(entry.get("count").and_then(Value::as_u64).unwrap_or(1)),
            text("author"),
            text("source"),
            text("letter"),
            cut(&why, 80),
        ]);
    }
    if table.is_empty() {
        say("the audit log is empty");
        return Ok(());
    }
    out.table(&table)?;
    page.say_more("entries");
    Ok(())
}

fn verify(client: &Client, out: Out) -> Outcome {
    let report = client.post_empty("/api/v1/audit/verify")?;
    let problems: Vec<String> = report
        .get("problems")
        .and_then(Value::as_array)
        .map(|list| list.iter().filter_map(Value::as_str).map(clean).collect())
        .unwrap_or_default();
    if out.json {
        out.value(&report)?;
    } else {
        balance(out, &report)?;
        for problem in &problems {
            out.line(format!("{} {problem}", out.paint("✗", Tone::Bad)))?;
        }
        if problems.is_empty() {
            let letters = letters(report.get("letters").and_then(Value::as_u64).unwrap_or(0));
            out.line(format!("{} conservation holds for {letters}", out.paint("✓", Tone::Good)))?;
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(Failure::new(Exit::Failed, "conservation does not hold")) }
}

/// Per source: what was captured, and where it stands now.
fn balance(out: Out, report: &Value) -> Outcome {
    let statuses = dlo_core::letter::Status::WORDS;
    let mut columns = vec![("SOURCE", Align::Left), ("CAPTURED", Align::Right)];
    columns.extend(statuses.iter().map(|word| (*word, Align::Right)));
    let mut table = Table::new(&columns);
    for source in report.get("sources").and_then(Value::as_array).into_iter().flatten() {
        let number = |value: Option<&Value>| count(value.and_then(Value::as_u64).unwrap_or(0));
        let mut row = vec![field(source, "source"), number(source.get("captured"))];
        row.extend(statuses.iter().map(|word| number(source.get("counted").and_then(|all| all.get(*word)))));
        table.row(row);
    }
    if table.is_empty() { Ok(()) } else { out.table(&table) }
}

/// A field as text; `-` if it is not there.
fn field(value: &Value, key: &str) -> String {
    crate::client::text_of(value, key)
}
