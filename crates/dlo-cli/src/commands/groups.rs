//! `dlo groups`: the causes, with how much each weighs.

use dlo_core::id::GroupId;
use serde_json::{Value, json};

use super::now;
use crate::args::{GroupListArgs, GroupsArgs, GroupsCommand};
use crate::client::{Client, Pages, age_of, text_of};
use crate::exit::Outcome;
use crate::output::{Align, Out, Table, Tone, bar, clean, count, cut, say};

/// Letters shown with a group.
const SAMPLES: u64 = 10;

pub(super) fn run(args: GroupsArgs) -> Outcome {
    let client = Client::new(&args.client)?;
    let out = Out::new(args.client.json);
    match args.command {
        GroupsCommand::List(args) => list(&client, out, &args),
        GroupsCommand::Show { id } => show(&client, out, id),
    }
}

fn list(client: &Client, out: Out, args: &GroupListArgs) -> Outcome {
    let filters = [
        ("source", args.source.as_deref()),
        ("event_type", args.event_type.as_deref()),
        ("error_class", args.error_class.as_deref()),
        ("consumer", args.consumer.as_deref()),
        ("owner", args.owner.as_deref()),
        ("holding", args.holding.map(dlo_core::letter::Status::as_str)),
    ];
    let query: Vec<(&str, &str)> =
        filters.iter().filter_map(|(key, value)| Some((*key, (*value)?))).collect();
    let page = Pages { path: "/api/v1/groups", list: "groups", query: &query, cursor: None }
        .up_to(client, args.limit)?;
    if out.json {
        return out.value(&page.whole());
    }
    if page.items.is_empty() {
        say(if query.is_empty() { "there are no groups" } else { "no group matches" });
        return Ok(());
    }
    out.table(&table(&page.items))?;
    page.say_more("groups");
    Ok(())
}

fn table(groups: &[Value]) -> Table {
    let mut table = Table::new(&[
        ("ID", Align::Left),
        ("LAST SEEN", Align::Right),
        ("OPEN", Align::Right),
        ("", Align::Left),
        ("TOTAL", Align::Right),
        ("STATUS", Align::Left),
        ("SOURCE", Align::Left),
        ("OWNER", Align::Left),
        ("CAUSE", Align::Left),
    ]);
    let largest = groups.iter().map(|group| number(group, "open")).max().unwrap_or(0);
    let now = now();
    for group in groups {
        let text = |key| cut(&text_of(group, key), 40);
        let open = number(group, "open");
        table.row([
            text_of(group, "id"),
            age_of(group, "last_seen", now),
            count(open),
            bar(open, largest),
            count(number(group, "total")),
            text("status"),
            text("source"),
            text("owner"),
            cut(&text_of(group, "title"), 80),
        ]);
        table.tone(0, Tone::Quiet);
        table.tone(3, Tone::Warn);
    }
    table
}

fn number(value: &Value, key: &str) -> u64 {
    value.get(key).and_then(Value::as_u64).unwrap_or(0)
}

fn show(client: &Client, out: Out, id: GroupId) -> Outcome {
    let group = client.get(&format!("/api/v1/groups/{id}"), &[])?;
    let query = format!("group:{id}");
    let letters = Pages { path: "/api/v1/letters", list: "letters", query: &[("q", &query)], cursor: None }
        .up_to(client, SAMPLES)?;
    if out.json {
        return out.value(&json!({ "group": group, "newest": letters.items }));
    }
    let now = now();
    out.line(out.paint(&clean(&text_of(&group, "title")), Tone::Strong))?;
    out.line("")?;
    for (name, key) in [
        ("group", "id"),
        ("status", "status"),
        ("owner", "owner"),
        ("source", "source"),
        ("queue", "queue"),
        ("consumer", "consumer"),
        ("event", "event_type"),
        ("class", "error_class"),
        ("template", "template"),
    ] {
        out.line(format!("  {name:<10} {}", clean(&text_of(&group, key))))?;
    }
    out.line(format!(
        "  {:<10} {} of {}",
        "open",
        count(number(&group, "open")),
        count(number(&group, "total"))
    ))?;
    for (name, key) in [("first seen", "first_seen"), ("last seen", "last_seen")] {
        out.line(format!("  {name:<10} {} ({})", text_of(&group, key), age_of(&group, key, now)))?;
    }
    out.line("")?;
    out.table(&super::letters::table(&letters.items))
}
