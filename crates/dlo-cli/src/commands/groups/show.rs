//! `dlo groups show`: the cause, what it usually means, who has it, what people wrote, and its newest letters.

use dlo_core::id::GroupId;
use serde_json::{Value, json};

use super::super::now;
use super::number;
use crate::client::{Client, Pages, age_of, text_of};
use crate::exit::Outcome;
use crate::output::{Out, Tone, clean, clean_lines, count};

/// Letters shown with a group.
const SAMPLES: u64 = 10;

pub(super) fn run(client: &Client, out: Out, id: GroupId) -> Outcome {
    let group = client.get(&format!("/api/v1/groups/{id}"), &[])?;
    let query = format!("group:{id}");
    let letters = Pages { path: "/api/v1/letters", list: "letters", query: &[("q", &query)], cursor: None }
        .up_to(client, SAMPLES)?;
    if out.json {
        return out.value(&json!({ "group": group, "newest": letters.items }));
    }
    out.line(out.paint(&clean(&text_of(&group, "title")), Tone::Strong))?;
    out.line("")?;
    facts(out, &group)?;
    meaning(out, &group)?;
    words(out, &group)?;
    out.line("")?;
    out.table(&super::super::letters::table(&letters.items))
}

fn facts(out: Out, group: &Value) -> Outcome {
    let now = now();
    for (name, key) in [
        ("group", "id"),
        ("status", "status"),
        ("resolved in", "resolved_in"),
        ("owner", "owner"),
        ("assignee", "assignee"),
        ("source", "source"),
        ("queue", "queue"),
        ("consumer", "consumer"),
        ("event", "event_type"),
        ("class", "error_class"),
        ("template", "template"),
    ] {
        // Most groups were never resolved in a version; the other lines are always there.
        if key != "resolved_in" || group.get(key).is_some_and(Value::is_string) {
            out.line(format!("  {name:<11} {}", clean(&text_of(group, key))))?;
        }
    }
    let (open, total) = (count(number(group, "open")), count(number(group, "total")));
    out.line(format!("  {:<11} {open} of {total}", "open"))?;
    for (name, key) in
        [("first seen", "first_seen"), ("last seen", "last_seen"), ("regressed", "regressed_at")]
    {
        if group.get(key).is_some_and(Value::is_string) {
            out.line(format!("  {name:<11} {} ({})", text_of(group, key), age_of(group, key, now)))?;
        }
    }
    if let Some(split) = group.get("split").filter(|split| !split.is_null()) {
        out.line(format!("  {:<11} {}", "where", clean(&text_of(split, "condition"))))?;
        out.line(format!("  {:<11} {}", "split from", clean(&text_of(split, "from"))))?;
    }
    for split in group.get("splits").and_then(Value::as_array).into_iter().flatten() {
        let made = split.get("group").unwrap_or(&Value::Null);
        let moving = split.get("moving").and_then(Value::as_bool).unwrap_or(false);
        let still = if moving { ", still moving" } else { "" };
        let letters = count(number(made, "total"));
        let (id, title) = (clean(&text_of(made, "id")), clean(&text_of(made, "title")));
        out.line(format!("  {:<11} {id} {title} ({letters} letters{still})", "split into"))?;
    }
    if number(group, "members") > 0 {
        out.line(format!("  {:<11} {} groups", "merged", number(group, "members")))?;
    }
    Ok(())
}

fn meaning(out: Out, group: &Value) -> Outcome {
    if let Some(began) = group.get("began_after").filter(|began| !began.is_null()) {
        let deploy = began.get("deploy").unwrap_or(&Value::Null);
        let own = began.get("own").and_then(Value::as_bool).unwrap_or(false);
        let which = if own { "deployment" } else { "deployment of something else" };
        out.line(format!("  {:<11} {which} {}", "began after", clean(&text_of(deploy, "version"))))?;
    }
    if let Some(known) = group.get("known").filter(|known| !known.is_null()) {
        out.line("")?;
        out.line(format!("  {} ({})", clean(&text_of(known, "cause")), clean(&text_of(known, "name"))))?;
        out.line(format!("  {}", clean(&text_of(known, "fix"))))?;
    }
    Ok(())
}

fn words(out: Out, group: &Value) -> Outcome {
    let list = |key: &str| group.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let (notes, links) = (list("notes"), list("links"));
    if !notes.is_empty() || !links.is_empty() {
        out.line("")?;
    }
    for note in &notes {
        let (at, author) = (text_of(note, "at"), clean(&text_of(note, "author")));
        out.line(format!(
            "  {at} {author}: {}",
            clean_lines(&text_of(note, "text")).replace('\n', "\n    ")
        ))?;
    }
    for link in &links {
        out.line(format!("  {} {}", clean(&text_of(link, "title")), clean(&text_of(link, "url"))))?;
    }
    if let Some(runbook) = group.get("runbook").filter(|runbook| !runbook.is_null()) {
        out.line("")?;
        out.line(clean_lines(&text_of(runbook, "text")))?;
    }
    Ok(())
}
