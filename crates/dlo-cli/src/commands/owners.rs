//! `dlo owners`: teams and what waits for them, and an owners file tried before it is used.

use std::path::Path;

use dlo_core::owners::{OwnerRule, Owners, Subject, file};
use serde_json::{Value, json};

use super::now;
use crate::args::{OwnersArgs, OwnersCommand};
use crate::client::{Client, Pages, age_of, text_of};
use crate::exit::{Failure, Outcome};
use crate::output::{Align, Out, Table, clean, count, cut, say};

/// Groups that are held against a file.
const GROUPS: u64 = 100_000;

pub(super) fn run(args: OwnersArgs) -> Outcome {
    let out = Out::new(args.client.json);
    match args.command {
        OwnersCommand::List => list(&Client::new(&args.client)?, out),
        OwnersCommand::Check { file, offline } => {
            let rules = read(&file)?;
            if offline {
                return out.line(format!("{}: {} rules, nothing is wrong", file.display(), rules.len()));
            }
            check(&Client::new(&args.client)?, out, rules)
        }
    }
}

fn list(client: &Client, out: Out) -> Outcome {
    let answer = client.get("/api/v1/owners", &[])?;
    if out.json {
        return out.value(&answer);
    }
    let mut table = Table::new(&[
        ("OWNER", Align::Left),
        ("GROUPS", Align::Right),
        ("OPEN", Align::Right),
        ("OLDEST", Align::Right),
        ("SLA", Align::Left),
        ("CONTACT", Align::Left),
    ]);
    let now = now();
    for line in answer.get("owners").and_then(Value::as_array).into_iter().flatten() {
        let number = |key: &str| line.get(key).and_then(Value::as_u64);
        let owner = line.get("owner").and_then(Value::as_str);
        let overdue = line.get("overdue").and_then(Value::as_bool).unwrap_or(false);
        let sla = match (number("sla_seconds"), overdue) {
            (None, _) => String::new(),
            (Some(_), true) => "over".to_string(),
            (Some(_), false) => "within".to_string(),
        };
        table.row([
            owner.map_or("(nobody)".to_string(), |owner| cut(owner, 40)),
            count(number("groups").unwrap_or(0)),
            count(number("open").unwrap_or(0)),
            age_of(line, "oldest_open", now),
            sla,
            cut(&text_of(line, "contact"), 60),
        ]);
    }
    out.table(&table)
}

fn read(path: &Path) -> Outcome<Vec<OwnerRule>> {
    let unread = |cause: std::io::Error| Failure::usage(format!("{}: {cause}", path.display()));
    let length = std::fs::metadata(path).map_err(unread)?.len();
    if length > file::LARGEST as u64 {
        return Err(Failure::usage(format!(
            "{}: has {length} bytes, at most {}",
            path.display(),
            file::LARGEST
        )));
    }
    let text = std::fs::read_to_string(path).map_err(unread)?;
    file::read(&text).map_err(|bad| {
        let lines: Vec<String> = bad.iter().map(|line| format!("{}: {line}", path.display())).collect();
        Failure::usage(lines.join("\n"))
    })
}

/// Which groups of the office the file would give to somebody else.
fn check(client: &Client, out: Out, rules: Vec<OwnerRule>) -> Outcome {
    let owners = Owners::compile(rules).map_err(|bad| Failure::usage(bad.to_string()))?;
    let groups =
        Pages { path: "/api/v1/groups", list: "groups", query: &[], cursor: None }.up_to(client, GROUPS)?;
    let mut table = Table::new(&[
        ("ID", Align::Left),
        ("NOW", Align::Left),
        ("THEN", Align::Left),
        ("CAUSE", Align::Left),
    ]);
    let mut changes = Vec::new();
    for group in &groups.items {
        let text = |key: &str| group.get(key).and_then(Value::as_str);
        let subject = Subject {
            source: text("source").unwrap_or_default(),
            queue: text("queue").unwrap_or_default(),
            event_type: text("event_type"),
            consumer: text("consumer"),
            class: text("error_class"),
        };
        let by_hand = group.get("owner_by_hand").and_then(Value::as_bool).unwrap_or(false);
        let (before, after) = (text("owner"), owners.owner_of(&subject));
        if before != after && !by_hand {
            let named = |owner: Option<&str>| owner.map_or("(nobody)".to_string(), |owner| cut(owner, 40));
            table.row([text_of(group, "id"), named(before), named(after), cut(&text_of(group, "title"), 60)]);
            changes.push(json!({ "id": text_of(group, "id"), "now": before, "then": after }));
        }
    }
    if out.json {
        return out.value(&json!({ "groups": groups.items.len(), "changes": changes }));
    }
    if changes.is_empty() {
        return out.line(clean("every group would keep its owner by this file alone"));
    }
    out.table(&table)?;
    say(format!(
        "{} of {} groups would change hands by this file alone; nothing was changed",
        count(changes.len() as u64),
        count(groups.items.len() as u64)
    ));
    Ok(())
}
