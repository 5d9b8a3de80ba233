//! `dlo letters discard` and `compensate`: a dry run, then the same letters and no others.
//!
//! The query is resolved to ids before anything is changed. What arrives in between is not part of it: the number
//! that was shown is the number that is decided on.

use std::collections::BTreeMap;

use dlo_core::id::LetterId;
use dlo_core::letter::{Status, Step};
use serde_json::{Value, json};

use super::super::query_text;
use crate::args::DecideArgs;
use crate::client::{Client, Pages, text_of};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{Align, Out, Progress, Table, clean, count, letters, say};

/// Letters of one request.
const BATCH: usize = 500;
/// Letters of one decision; more is a decision about a source, and should be made in parts.
const MOST: usize = 1_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    Discard,
    Compensate,
}

impl Decision {
    const fn path(self) -> &'static str {
        match self {
            Self::Discard => "/api/v1/letters/discard",
            Self::Compensate => "/api/v1/letters/compensate",
        }
    }

    const fn done(self) -> &'static str {
        match self {
            Self::Discard => "discarded",
            Self::Compensate => "compensated",
        }
    }

    const fn step(self) -> Step {
        match self {
            Self::Discard => Step::Discard,
            Self::Compensate => Step::Compensate,
        }
    }
}

/// Letters by what they are, and the ids of those on which the decision is legal.
#[derive(Debug, Default)]
struct Chosen {
    ids: Vec<String>,
    /// Source and error class, of those.
    kinds: BTreeMap<(String, String), u64>,
    /// Why not, of the others.
    left_out: BTreeMap<String, u64>,
}

pub(super) fn run(client: &Client, out: Out, decision: Decision, args: &DecideArgs) -> Outcome {
    if decision == Decision::Compensate && args.reference.is_none() {
        let words = "compensate needs --reference: the ticket, refund or booking that makes the letter good";
        return Err(Failure::usage(words));
    }
    let chosen = choose(client, decision, &args.what)?;
    if !args.yes {
        return preview(out, decision, args, &chosen);
    }
    let decided = decide(client, decision, args, &chosen.ids)?;
    report(out, decision, &chosen, &decided)
}

fn choose(client: &Client, decision: Decision, what: &[String]) -> Outcome<Chosen> {
    let mut chosen = Chosen::default();
    let ids: Result<Vec<LetterId>, _> = what.iter().map(|word| word.parse()).collect();
    if let Ok(ids) = ids {
        for id in ids {
            let letter = client.get(&format!("/api/v1/letters/{id}"), &[])?;
            chosen.take(decision, &letter);
        }
        return Ok(chosen);
    }
    let query = query_text(what)?;
    if query.trim().is_empty() {
        return Err(Failure::usage("an empty query means every letter; say which ones"));
    }
    let mut pages = Pages { path: "/api/v1/letters", list: "letters", query: &[("q", &query)], cursor: None };
    let mut progress = Progress::new();
    loop {
        let (found, next) = pages.next(client, BATCH as u64)?;
        found.iter().for_each(|letter| chosen.take(decision, letter));
        progress.at(&letters(chosen.ids.len() as u64));
        if chosen.ids.len() > MOST {
            let words = format!("more than {} match; decide in parts", letters(MOST as u64));
            return Err(Failure::new(Exit::Refused, words));
        }
        if next.is_none() {
            progress.end();
            return Ok(chosen);
        }
    }
}

impl Chosen {
    fn take(&mut self, decision: Decision, letter: &Value) {
        let status = text_of(letter, "status");
        let legal = status.parse::<Status>().is_ok_and(|from| decision.step().apply(from).is_ok());
        if legal {
            self.ids.push(text_of(letter, "id"));
            let kind = (text_of(letter, "source"), text_of(letter, "error_class"));
            *self.kinds.entry(kind).or_default() += 1;
        } else {
            *self.left_out.entry(status).or_default() += 1;
        }
    }
}

fn preview(out: Out, decision: Decision, args: &DecideArgs, chosen: &Chosen) -> Outcome {
    if out.json {
        let kinds = chosen.kinds.iter().map(
            |((source, class), many)| json!({ "source": source, "error_class": class, "letters": many }),
        );
        return out.value(&json!({
            "dry_run": true, "letters": chosen.ids.len(), "reason": args.reason,
            "by_cause": kinds.collect::<Vec<_>>(), "left_out": chosen.left_out,
        }));
    }
    let mut table = Table::new(&[("LETTERS", Align::Right), ("SOURCE", Align::Left), ("CLASS", Align::Left)]);
    for ((source, class), many) in &chosen.kinds {
        table.row([&count(*many), source, class]);
    }
    if !table.is_empty() {
        out.table(&table)?;
    }
    left_out(out, chosen)?;
    let many = letters(chosen.ids.len() as u64);
    out.line(format!("{many} would be {}: {}", decision.done(), clean(&args.reason)))?;
    out.line("nothing was changed; --yes does it")
}

/// What became of the letters.
#[derive(Debug, Default)]
struct Decided {
    moved: u64,
    /// Somebody else decided in between.
    skipped: u64,
    missing: u64,
}

/// Decides on the letters, batch by batch.
fn decide(client: &Client, decision: Decision, args: &DecideArgs, ids: &[String]) -> Outcome<Decided> {
    let (mut decided, mut progress) = (Decided::default(), Progress::new());
    for batch in ids.chunks(BATCH) {
        let body =
            json!({ "ids": batch, "reason": args.reason, "reference": args.reference, "dry_run": false });
        let answer = client.post(decision.path(), &body).inspect_err(|_| {
            progress.end();
            say(format!("{} {} before this", letters(decided.moved), decision.done()));
        })?;
        let number = |key| answer.get(key).and_then(Value::as_u64).unwrap_or(0);
        decided.moved += number("moved");
        decided.skipped += number("skipped");
        decided.missing += number("missing");
        progress.at(&letters(decided.moved));
    }
    progress.end();
    Ok(decided)
}

fn report(out: Out, decision: Decision, chosen: &Chosen, decided: &Decided) -> Outcome {
    if out.json {
        out.value(&json!({
            decision.done(): decided.moved, "left_out": chosen.left_out,
            "skipped": decided.skipped, "missing": decided.missing,
        }))?;
    } else {
        out.line(format!("{} {}", letters(decided.moved), decision.done()))?;
        left_out(out, chosen)?;
    }
    let otherwise = decided.skipped + decided.missing;
    if otherwise > 0 {
        let words = format!("{} decided on by somebody else in between", letters(otherwise));
        return Err(Failure::new(Exit::Refused, words));
    }
    if decided.moved == 0 && !chosen.left_out.is_empty() {
        let words = format!("no letter could be {}: only open ones can", decision.done());
        return Err(Failure::new(Exit::Refused, words));
    }
    Ok(())
}

fn left_out(out: Out, chosen: &Chosen) -> Outcome {
    for (status, many) in &chosen.left_out {
        out.line(format!("left as they are, being {}: {}", clean(status), letters(*many)))?;
    }
    Ok(())
}
