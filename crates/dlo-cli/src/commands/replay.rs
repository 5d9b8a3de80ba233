//! `dlo replay`: a plan that is read before anything is sent, and a run that is steered and watched from here.
//!
//! The work is done by the office. What this prints is what the office keeps: closing the terminal changes nothing.

mod items;
mod plan;
mod settle;
mod show;
mod watch;

use dlo_core::id::ReplayId;
use serde_json::{Map, Value, json};

use super::now;
use crate::args::{PaceArgs, ReplayArgs, ReplayCommand, StartArgs};
use crate::client::{Client, Pages, age_of, text_of};
use crate::exit::{Failure, Outcome};
use crate::output::{Align, Out, Table, Tone, bar, clean, count, cut, letters, say};

pub(super) fn run(args: ReplayArgs) -> Outcome {
    let client = Client::new(&args.client)?;
    let out = Out::new(args.client.json);
    match args.command {
        ReplayCommand::Plan(args) => plan::run(&client, out, &args),
        ReplayCommand::Start(args) => start(&client, out, &args),
        ReplayCommand::Watch { id } => watch::run(&client, out, id),
        ReplayCommand::List { state, limit } => {
            list(&client, out, state.map(dlo_core::replay::ReplayState::as_str), limit)
        }
        ReplayCommand::Show { id } => show::run(&client, out, id),
        ReplayCommand::Items { id, state, limit } => items::run(&client, out, id, state, limit),
        ReplayCommand::Pause { id } => steer(&client, out, id, "pause"),
        ReplayCommand::Resume { id } => steer(&client, out, id, "resume"),
        ReplayCommand::Cancel { id, yes } => cancel(&client, out, id, yes),
        ReplayCommand::Approve { id } => approve(&client, out, id),
        ReplayCommand::Pace { id, pace } => {
            let mut body = Map::new();
            pace_of(pace, &mut body);
            if body.is_empty() {
                return Err(Failure::usage("say one of --rate, --share and --max"));
            }
            told(out, &client.post(&path(id, "/pace"), &Value::Object(body))?)
        }
        ReplayCommand::Settle(args) => settle::run(&client, out, &args),
    }
}

fn path(id: ReplayId, tail: &str) -> String {
    format!("/api/v1/replays/{id}{tail}")
}

/// The pace that was asked for, as the API takes it.
fn pace_of(pace: PaceArgs, body: &mut Map<String, Value>) {
    if let Some(rate) = pace.rate {
        body.insert("rate".into(), json!(rate));
    }
    if let Some(share) = pace.share {
        body.insert("share".into(), json!(share));
    }
    if pace.max {
        body.insert("max".into(), json!(true));
    }
}

fn number(value: &Value, key: &str) -> u64 {
    value.get(key).and_then(Value::as_u64).unwrap_or(0)
}

fn start(client: &Client, out: Out, args: &StartArgs) -> Outcome {
    if !args.yes {
        let replay = client.get(&path(args.id, ""), &[])?;
        if out.json {
            return out.value(&replay);
        }
        show::plan(out, &replay)?;
        return out.line("nothing was sent; --yes starts it");
    }
    let replay = client.post_empty(&path(args.id, "/start"))?;
    if args.wait {
        return watch::run(client, out, args.id);
    }
    if !out.json {
        say(format!("follow it by: dlo replay watch {}", args.id));
    }
    told(out, &replay)
}

fn steer(client: &Client, out: Out, id: ReplayId, how: &str) -> Outcome {
    told(out, &client.post_empty(&path(id, &format!("/{how}")))?)
}

fn cancel(client: &Client, out: Out, id: ReplayId, yes: bool) -> Outcome {
    if yes {
        return steer(client, out, id, "cancel");
    }
    let replay = client.get(&path(id, ""), &[])?;
    if out.json {
        return out.value(&replay);
    }
    out.line(format!(
        "{} would be open again; {} were sent and stay sent",
        letters(number(&replay, "waiting")),
        count(number(&replay, "sent"))
    ))?;
    out.line("nothing was changed; --yes cancels it")
}

fn approve(client: &Client, out: Out, id: ReplayId) -> Outcome {
    let replay = client.post_empty(&path(id, "/approve"))?;
    if out.json {
        return out.value(&replay);
    }
    let given = replay.get("approvals").and_then(Value::as_array).map_or(0, Vec::len);
    out.line(format!("approved: {given} of {}", number(&replay, "approvals_needed")))?;
    out.line(format!("start it by: dlo replay start {id} --yes"))
}

/// Where the replay stands, in one line.
fn told(out: Out, replay: &Value) -> Outcome {
    if out.json {
        return out.value(replay);
    }
    out.line(format!("{}  {}", text_of(replay, "id"), show::standing(replay)))
}

fn list(client: &Client, out: Out, state: Option<&str>, limit: u64) -> Outcome {
    let query: Vec<(&str, &str)> = state.map(|state| ("state", state)).into_iter().collect();
    let page = Pages { path: "/api/v1/replays", list: "replays", query: &query, cursor: None }
        .up_to(client, limit)?;
    if out.json {
        return out.value(&page.whole());
    }
    if page.items.is_empty() {
        say("there are no replays; `dlo replay plan 'class:…'` makes one");
        return Ok(());
    }
    let mut table = Table::new(&[
        ("ID", Align::Left),
        ("PLANNED", Align::Right),
        ("STATE", Align::Left),
        ("LETTERS", Align::Right),
        ("SENT", Align::Right),
        ("", Align::Left),
        ("BACK", Align::Right),
        ("BY", Align::Left),
        ("WHAT", Align::Left),
    ]);
    let now = now();
    for replay in &page.items {
        table.row([
            text_of(replay, "id"),
            age_of(replay, "created_at", now),
            text_of(replay, "state"),
            count(number(replay, "total")),
            count(number(replay, "sent")),
            bar(number(replay, "sent"), number(replay, "total")),
            count(number(replay, "returned") + number(replay, "suspected_return")),
            cut(&clean(&text_of(replay, "author")), 20),
            cut(&clean(&text_of(replay, "query")), 60),
        ]);
        table.tone(0, Tone::Quiet);
    }
    out.table(&table)?;
    page.say_more("replays");
    Ok(())
}
