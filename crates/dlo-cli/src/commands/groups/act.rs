//! Changes of groups from the command line: shown first, made with `--yes`.

use dlo_core::id::GroupId;
use serde_json::{Map, Value, json};

use crate::args::ChangeGroupArgs;
use crate::client::{Client, text_of};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{Align, Out, Table, clean, count, cut, say};

/// Groups of one request.
const BATCH: usize = 500;

/// Makes one change for all of these groups, or shows where they stand and what it would be.
pub(super) fn change(client: &Client, out: Out, args: &ChangeGroupArgs, change: &Value) -> Outcome {
    if !args.yes {
        return preview(client, out, &args.ids, &describe(change));
    }
    let mut results = Vec::new();
    for ids in args.ids.chunks(BATCH) {
        let body = json!({ "ids": ids, "change": change, "reason": args.reason });
        let answer = client.post("/api/v1/groups/change", &body)?;
        results.extend(answer.get("results").and_then(Value::as_array).cloned().unwrap_or_default());
    }
    if out.json {
        out.value(&json!({ "results": results }))?;
    } else {
        out.table(&told(&results))?;
    }
    let refused = results.iter().filter(|one| text_of(one, "result") != "changed").count();
    if refused == 0 {
        return Ok(());
    }
    let missing = results.iter().all(|one| text_of(one, "result") == "missing");
    let exit = if missing { Exit::NotFound } else { Exit::Refused };
    Err(Failure::new(exit, format!("{refused} of {} were not changed", results.len())))
}

fn told(results: &[Value]) -> Table {
    let mut table = Table::new(&[
        ("ID", Align::Left),
        ("RESULT", Align::Left),
        ("STATUS", Align::Left),
        ("", Align::Left),
    ]);
    for one in results {
        table.row(["id", "result", "status", "detail"].map(|key| clean(&text_of(one, key))));
    }
    table
}

/// A change in words: `resolve in_version=2.3.1`.
fn describe(change: &Value) -> String {
    let empty = Map::new();
    let fields = change.as_object().unwrap_or(&empty);
    let what = fields.get("do").and_then(Value::as_str).unwrap_or_default();
    let given = fields.iter().filter(|(key, value)| *key != "do" && !value.is_null());
    let shown = given
        .map(|(key, value)| format!(" {key}={}", value.as_str().map_or(value.to_string(), String::from)));
    format!("{what}{}", shown.collect::<String>())
}

/// Where these groups stand, and that nothing was done.
pub(super) fn preview(client: &Client, out: Out, ids: &[GroupId], what: &str) -> Outcome {
    let mut groups = Vec::new();
    for id in ids {
        groups.push(client.get(&format!("/api/v1/groups/{id}"), &[])?);
    }
    if out.json {
        return out.value(&json!({ "dry_run": true, "change": what, "groups": groups }));
    }
    let mut table = Table::new(&[
        ("ID", Align::Left),
        ("STATUS", Align::Left),
        ("OPEN", Align::Right),
        ("OWNER", Align::Left),
        ("ASSIGNEE", Align::Left),
        ("CAUSE", Align::Left),
    ]);
    for group in &groups {
        let open = group.get("open").and_then(Value::as_u64).unwrap_or(0);
        let text = |key| cut(&text_of(group, key), 60);
        let cells = [text("id"), text("status"), count(open), text("owner"), text("assignee"), text("title")];
        table.row(cells);
    }
    out.table(&table)?;
    say(format!("nothing was changed; with --yes: {}", clean(what)));
    Ok(())
}

/// Sends one change that is no step of the life cycle, and shows the group that it made.
pub(super) fn send(client: &Client, out: Out, path: &str, body: &Value) -> Outcome {
    let answer = client.post(path, body)?;
    if out.json {
        return out.value(&answer);
    }
    match answer.get("title") {
        Some(_) => out.line(format!(
            "{}: {} open of {}",
            clean(&text_of(&answer, "title")),
            count(answer.get("open").and_then(Value::as_u64).unwrap_or(0)),
            count(answer.get("total").and_then(Value::as_u64).unwrap_or(0)),
        )),
        None => out.line("done"),
    }
}
