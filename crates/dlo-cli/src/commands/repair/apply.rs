//! `dlo repair apply`: a dry run over every letter, then the same letters and no others.
//!
//! The query is resolved to ids before anything is changed: the number that was shown is the number that is repaired.

use serde_json::{Map, Value, json};

use super::{What, change, post, what};
use crate::args::ApplyRepairArgs;
use crate::client::{Client, Pages, text_of};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{Out, Progress, clean, letters, say};

/// Letters of one request.
const BATCH: usize = 500;
/// Letters of one repair; more should be made in parts.
const MOST: usize = 1_000_000;
/// Failures that are told; the others are counted.
const TOLD: usize = 20;

const PATH: &str = "/api/v1/repairs";

/// What became of the letters, or would.
#[derive(Debug, Default)]
struct Applied {
    repaired: u64,
    unchanged: u64,
    taken_back: u64,
    failed: u64,
    skipped: u64,
    missing: u64,
    failures: Vec<Value>,
}

pub(super) fn run(client: &Client, out: Out, args: &ApplyRepairArgs) -> Outcome {
    let change = change(&args.change)?;
    let ids = match what(&args.change.what)? {
        What::Ids(ids) => ids.iter().map(ToString::to_string).collect(),
        What::Query(query) => resolve(client, &query)?,
    };
    let mut applied = Applied::default();
    let mut progress = Progress::new();
    for batch in ids.chunks(BATCH) {
        let mut body: Map<String, Value> = change.clone();
        body.insert("ids".to_string(), json!(batch));
        body.insert("reason".to_string(), json!(args.reason));
        body.insert("dry_run".to_string(), json!(!args.yes));
        let answer = post(client, PATH, body, &args.change).inspect_err(|_| {
            progress.end();
            if args.yes {
                say(format!("{} repaired before this", letters(applied.repaired)));
            }
        })?;
        applied.add(&answer);
        progress.at(&letters(applied.total()));
    }
    progress.end();
    report(out, args, &applied)
}

/// The ids of everything that matches; the office tells which of them are open.
fn resolve(client: &Client, query: &str) -> Outcome<Vec<String>> {
    let mut pages = Pages { path: "/api/v1/letters", list: "letters", query: &[("q", query)], cursor: None };
    let (mut ids, mut progress) = (Vec::new(), Progress::new());
    loop {
        let (found, next) = pages.next(client, BATCH as u64)?;
        ids.extend(found.iter().map(|letter| text_of(letter, "id")));
        progress.at(&letters(ids.len() as u64));
        if ids.len() > MOST {
            let words = format!("more than {} match; repair in parts", letters(MOST as u64));
            return Err(Failure::new(Exit::Refused, words));
        }
        if next.is_none() {
            progress.end();
            return Ok(ids);
        }
    }
}

impl Applied {
    fn add(&mut self, answer: &Value) {
        let number = |key: &str| answer.get(key).and_then(Value::as_u64).unwrap_or(0);
        self.repaired += number("repaired");
        self.unchanged += number("unchanged");
        self.taken_back += number("taken_back");
        self.failed += number("failed");
        self.skipped += number("skipped");
        self.missing += number("missing");
        let failures = answer.get("failures").and_then(Value::as_array).into_iter().flatten();
        let room = TOLD.saturating_sub(self.failures.len());
        self.failures.extend(failures.take(room).cloned());
    }

    const fn total(&self) -> u64 {
        self.repaired + self.unchanged + self.taken_back + self.failed + self.skipped + self.missing
    }
}

fn report(out: Out, args: &ApplyRepairArgs, applied: &Applied) -> Outcome {
    if out.json {
        out.value(&json!({
            "dry_run": !args.yes, "matched": applied.total(), "repaired": applied.repaired,
            "unchanged": applied.unchanged, "taken_back": applied.taken_back, "failed": applied.failed, "skipped": applied.skipped,
            "missing": applied.missing, "failures": applied.failures,
        }))?;
    } else {
        for failure in &applied.failures {
            out.line(format!("{}  {}", text_of(failure, "id"), clean(&text_of(failure, "error"))))?;
        }
        for (many, words) in [
            (applied.failed, "the change cannot be made"),
            (applied.unchanged, "the change makes no difference"),
            (applied.taken_back, "the change makes no difference, and an earlier repair is taken back"),
            (applied.skipped, "left as they are, not being open"),
            (applied.missing, "not there"),
        ] {
            if many > 0 {
                out.line(format!("{words}: {}", letters(many)))?;
            }
        }
        if args.yes {
            out.line(format!("{} repaired: {}", letters(applied.repaired), clean(&args.reason)))?;
        } else {
            out.line(format!("{} would be repaired: {}", letters(applied.repaired), clean(&args.reason)))?;
            out.line("nothing was changed; --yes does it")?;
        }
    }
    if applied.repaired + applied.taken_back == 0 && applied.failed + applied.skipped + applied.missing > 0 {
        return Err(Failure::new(Exit::Refused, "no letter could be repaired"));
    }
    Ok(())
}
