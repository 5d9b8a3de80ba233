//! `dlo groups`: the causes, with how much each weighs, and where people stand with them.
//!
//! What changes something is shown first and done with `--yes`; `act.rs` does it, `show.rs` tells all of one group.

mod act;
mod show;

use dlo_core::id::GroupId;
use serde_json::{Value, json};

use super::now;
use crate::args::{GroupListArgs, GroupsArgs, GroupsCommand, Order};
use crate::client::{Client, Pages, age_of, text_of};
use crate::exit::{Failure, Outcome};
use crate::output::{Align, Out, Table, Tone, bar, count, cut, say};

pub(super) fn run(args: GroupsArgs) -> Outcome {
    let client = Client::new(&args.client)?;
    let out = Out::new(args.client.json);
    match args.command {
        GroupsCommand::List(args) => list(&client, out, &args),
        GroupsCommand::Show { id } => show::run(&client, out, id),
        GroupsCommand::Ack(args) => act::change(&client, out, &args, &json!({ "do": "acknowledge" })),
        GroupsCommand::Fix(args) => act::change(&client, out, &args, &json!({ "do": "fix" })),
        GroupsCommand::Resolve { change, in_version } => {
            act::change(&client, out, &change, &json!({ "do": "resolve", "in_version": in_version }))
        }
        GroupsCommand::Snooze { change, until, span, letters } => {
            let until = until.or_else(|| span.map(|span| now().plus(span)));
            if until.is_none() && letters.is_none() {
                return Err(Failure::usage("say when it wakes: --until TIME, --for DURATION or --letters N"));
            }
            let snooze = json!({ "do": "snooze", "until": until, "letters": letters });
            act::change(&client, out, &change, &snooze)
        }
        GroupsCommand::Ignore(args) => act::change(&client, out, &args, &json!({ "do": "ignore" })),
        GroupsCommand::Reopen(args) => act::change(&client, out, &args, &json!({ "do": "reopen" })),
        GroupsCommand::Assign { change, to } => {
            act::change(&client, out, &change, &json!({ "do": "assign", "to": to }))
        }
        GroupsCommand::Own { change, team } => {
            act::change(&client, out, &change, &json!({ "do": "own", "team": team }))
        }
        GroupsCommand::Note { id, text, yes } => {
            let text = text.join(" ");
            send(&client, out, (&[id], yes), &format!("note {text}"), (id, "note", json!({ "text": text })))
        }
        GroupsCommand::Merge { head, groups, reason, yes } => {
            let shown: Vec<GroupId> = std::iter::once(head).chain(groups.iter().copied()).collect();
            let body = json!({ "groups": groups, "reason": reason });
            send(&client, out, (&shown, yes), "merge into the first", (head, "merge", body))
        }
        GroupsCommand::Split { id, condition: None, title: _, reason, yes } => {
            let body = json!({ "reason": reason });
            send(&client, out, (&[id], yes), "split off", (id, "split", body))
        }
        GroupsCommand::Split { id, condition: Some(condition), title, reason, yes } => {
            let what = format!("split off letters where {condition}");
            let body = json!({ "where": condition, "title": title, "reason": reason });
            send(&client, out, (&[id], yes), &what, (id, "split", body))
        }
        GroupsCommand::Unsplit { id, reason, yes } => {
            let body = json!({ "reason": reason });
            send(&client, out, (&[id], yes), "join with the one it came from", (id, "unsplit", body))
        }
    }
}

/// Shows these groups, or sends what is to be done with one of them.
fn send(
    client: &Client,
    out: Out,
    (shown, yes): (&[GroupId], bool),
    what: &str,
    (id, verb, body): (GroupId, &str, Value),
) -> Outcome {
    if yes {
        return act::send(client, out, &format!("/api/v1/groups/{id}/{verb}"), &body);
    }
    act::preview(client, out, shown, what)
}

fn list(client: &Client, out: Out, args: &GroupListArgs) -> Outcome {
    let statuses = args.status.iter().map(|status| status.as_str()).collect::<Vec<_>>().join(",");
    let filters = [
        ("source", args.source.as_deref()),
        ("event_type", args.event_type.as_deref()),
        ("error_class", args.error_class.as_deref()),
        ("consumer", args.consumer.as_deref()),
        ("owner", args.owner.as_deref()),
        ("assignee", args.assignee.as_deref()),
        ("holding", args.holding.map(dlo_core::letter::Status::as_str)),
        ("status", Some(statuses.as_str()).filter(|statuses| !statuses.is_empty())),
        ("text", args.text.as_deref()),
        ("order", Some(args.order.as_str()).filter(|_| args.order != Order::LastSeen)),
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
