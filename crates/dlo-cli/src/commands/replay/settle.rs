//! Letters in doubt: the evidence first, then the decision of a person on all of them or on some.

use dlo_core::id::ReplayId;
use serde_json::{Value, json};

use super::{number, path};
use crate::args::SettleArgs;
use crate::client::{Client, text_of};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{Out, Tone, clean, count, letters};

pub(super) fn run(client: &Client, out: Out, args: &SettleArgs) -> Outcome {
    if !args.yes {
        return dry_run(client, out, args);
    }
    let mut body = json!({ "outcome": args.outcome.word(), "reason": args.reason });
    if !args.letters.is_empty() {
        body["letters"] = json!(args.letters);
    }
    let answer = client.post(&path(args.id, "/settle"), &body)?;
    if out.json {
        return out.value(&answer);
    }
    let settled = number(&answer, "settled");
    out.line(format!("{} settled as {}", letters(settled), args.outcome.word()))?;
    if settled == 0 {
        return Err(Failure::new(Exit::Refused, "no such letter of this replay is in doubt"));
    }
    let left = number(&answer, "in_doubt");
    if left > 0 {
        out.line(format!("{} are still in doubt", letters(left)))?;
    }
    Ok(())
}

fn dry_run(client: &Client, out: Out, args: &SettleArgs) -> Outcome {
    let doubts = client.get(&path(args.id, "/doubts"), &[])?;
    if out.json {
        return out.value(&doubts);
    }
    print(out, args.id, &doubts)?;
    let meant = if args.letters.is_empty() { number(&doubts, "in_doubt") } else { args.letters.len() as u64 };
    out.line(format!("{} would be settled as {}", letters(meant), args.outcome.word()))?;
    out.line("nothing was changed; --yes does it")
}

/// What is known around the doubts, for each part that has some.
fn print(out: Out, id: ReplayId, doubts: &Value) -> Outcome {
    for part in doubts["evidence"].as_array().into_iter().flatten() {
        let replay = text_of(part, "replay");
        let of = if replay == id.to_string() { String::new() } else { format!("part {replay}: ") };
        let line = format!(
            "{of}{} in doubt, intended from {} to {}",
            letters(number(part, "in_doubt")),
            text_of(part, "first_at"),
            text_of(part, "last_at"),
        );
        out.line(out.paint(&line, Tone::Warn))?;
        for queue in part["queues"].as_array().into_iter().flatten() {
            out.line(format!("  {}", of_queue(queue)))?;
        }
        out.line(format!(
            "  of this replay {} confirmed by a consumer, {} came back, {} of these since the first doubt",
            count(number(part, "confirmed")),
            count(number(part, "came_back")),
            count(number(part, "came_back_since")),
        ))?;
    }
    Ok(())
}

/// `orders, group pricing: 12 wait, 3 with consumers, 2 consumers, position 0: 4,711`.
fn of_queue(queue: &Value) -> String {
    let mut name = clean(&text_of(queue, "queue"));
    if let Some(group) = queue["group"].as_str() {
        name = format!("{name}, group {}", clean(group));
    }
    if let Some(problem) = queue["problem"].as_str() {
        return format!("{name}: the broker did not say ({})", clean(problem));
    }
    let mut facts = Vec::new();
    for (key, words) in [("depth", "wait"), ("in_flight", "with consumers"), ("consumers", "consumers")] {
        if let Some(many) = queue[key].as_u64() {
            facts.push(format!("{} {words}", count(many)));
        }
    }
    if let Some(oldest) = queue["oldest"].as_str() {
        facts.push(format!("the oldest of {oldest}"));
    }
    for (partition, next) in queue["positions"].as_object().into_iter().flatten() {
        facts.push(format!("position {partition}: {}", count(next.as_u64().unwrap_or(0))));
    }
    if facts.is_empty() {
        facts.push("the broker tells nothing of it".to_owned());
    }
    format!("{name}: {}", facts.join(", "))
}
