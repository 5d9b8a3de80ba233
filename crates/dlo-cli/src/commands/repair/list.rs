//! `dlo repair list`: what stands beside one letter.

use dlo_core::id::LetterId;
use serde_json::Value;

use super::super::now;
use super::difference;
use crate::client::{Client, age_of, text_of};
use crate::exit::Outcome;
use crate::output::{Out, clean, say};

pub(super) fn run(client: &Client, out: Out, id: LetterId) -> Outcome {
    let answer = client.get(&format!("/api/v1/letters/{id}/repairs"), &[])?;
    if out.json {
        return out.value(&answer);
    }
    let repairs = answer.get("repairs").and_then(Value::as_array).cloned().unwrap_or_default();
    if repairs.is_empty() {
        say("the letter is as it was captured");
    }
    for repair in &repairs {
        let active = repair.get("active").and_then(Value::as_bool).unwrap_or(false);
        let state = if active { "a replay sends this one" } else { "replaced by a later one" };
        let (number, author) = (text_of(repair, "number"), clean(&text_of(repair, "author")));
        out.line(format!("{number}  {} ago by {author}, {state}", age_of(repair, "at", now())))?;
        out.line(format!("  reason: {}", clean(&text_of(repair, "reason"))))?;
        match repair.get("expression").and_then(Value::as_str) {
            Some(expression) => out.line(format!("  jq: {}", clean(expression)))?,
            None => out.line("  edited by hand")?,
        }
        difference(out, repair)?;
    }
    Ok(())
}
