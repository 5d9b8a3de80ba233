//! `dlo repair`: preview here, every other verb in a file of its own.

mod apply;
mod list;

use std::io::Read;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use dlo_core::id::LetterId;
use dlo_core::limits;
use serde_json::{Map, Value, json};

use super::query_text;
use crate::args::{ChangeArgs, PreviewArgs, RepairArgs, RepairCommand};
use crate::client::{Client, text_of};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{Out, Tone, clean, clean_lines, letters, say};

pub(super) fn run(args: RepairArgs) -> Outcome {
    let client = Client::new(&args.client)?;
    let out = Out::new(args.client.json);
    match args.command {
        RepairCommand::Preview(args) => preview(&client, out, &args),
        RepairCommand::Apply(args) => apply::run(&client, out, &args),
        RepairCommand::List { id } => list::run(&client, out, id),
    }
}

/// Which letters are meant.
enum What {
    Ids(Vec<LetterId>),
    Query(String),
}

fn what(words: &[String]) -> Outcome<What> {
    let ids: Result<Vec<LetterId>, _> = words.iter().map(|word| word.parse()).collect();
    if let Ok(ids) = ids {
        return Ok(What::Ids(ids));
    }
    let query = query_text(words)?;
    if query.trim().is_empty() {
        return Err(Failure::usage("an empty query means every letter; say which ones"));
    }
    Ok(What::Query(query))
}

/// The change as the API takes it.
fn change(args: &ChangeArgs) -> Outcome<Map<String, Value>> {
    let mut body = Map::new();
    match (&args.jq, &args.payload) {
        (Some(expression), _) => {
            body.insert("expression".to_string(), json!(expression));
        }
        (None, Some(path)) => {
            body.insert("payload_base64".to_string(), json!(STANDARD.encode(payload(path)?)));
        }
        (None, None) => return Err(Failure::usage("say what to change, by --jq or --payload")),
    }
    Ok(body)
}

fn payload(path: &Path) -> Outcome<Vec<u8>> {
    let fail = |cause: std::io::Error| Failure::failed(format!("{} cannot be read: {cause}", path.display()));
    let mut bytes = Vec::new();
    let most = limits::PAYLOAD as u64 + 1;
    if path == Path::new("-") {
        std::io::stdin().lock().take(most).read_to_end(&mut bytes).map_err(fail)?;
    } else {
        std::fs::File::open(path).map_err(fail)?.take(most).read_to_end(&mut bytes).map_err(fail)?;
    }
    if bytes.len() > limits::PAYLOAD {
        return Err(Failure::usage(format!("a payload has at most {} bytes", limits::PAYLOAD)));
    }
    Ok(bytes)
}

/// A mistake in the expression is shown at its place.
fn post(client: &Client, path: &str, body: Map<String, Value>, args: &ChangeArgs) -> Outcome<Value> {
    client.post(path, &Value::Object(body)).map_err(|failure| match (&args.jq, failure.position) {
        (Some(expression), Some(at)) => pointing(expression, at, &failure.words),
        _ => failure,
    })
}

fn pointing(expression: &str, at: usize, words: &str) -> Failure {
    let before = &expression[..expression.floor_char_boundary(at)];
    let (lines, column) = match before.rfind('\n') {
        Some(start) => (start + 1, before[start + 1..].chars().count()),
        None => (0, before.chars().count()),
    };
    let line = expression[lines..].lines().next().unwrap_or_default();
    let place = format!("  {}\n  {}^", clean(line), " ".repeat(column));
    Failure::usage(format!("the expression is not understood: {words}\n\n{place}\n"))
}

fn preview(client: &Client, out: Out, args: &PreviewArgs) -> Outcome {
    let mut body = change(&args.change)?;
    match what(&args.change.what)? {
        What::Ids(ids) => body.insert("ids".to_string(), json!(ids)),
        What::Query(query) => body.insert("query".to_string(), json!(query)),
    };
    body.insert("sample".to_string(), json!(args.sample));
    let answer = post(client, "/api/v1/repairs/preview", body, &args.change)?;
    if out.json {
        return out.value(&answer);
    }
    let number = |key: &str| answer.get(key).and_then(Value::as_u64).unwrap_or(0);
    if number("matched") == 0 {
        say("no open letter matches");
        return Ok(());
    }
    for letter in answer.get("letters").and_then(Value::as_array).into_iter().flatten() {
        show(out, letter)?;
    }
    let (changed, unchanged, failed) = (number("changed"), number("unchanged"), number("failed"));
    let sampled = changed + unchanged + failed;
    out.line(format!(
        "{changed} changed, {unchanged} unchanged, {failed} failed of {} shown; {} meant",
        letters(sampled),
        letters(number("matched"))
    ))?;
    out.line("nothing was stored; `dlo repair apply` does it")?;
    if failed > 0 && failed == sampled {
        return Err(Failure::new(Exit::Refused, "the change works on none of them"));
    }
    Ok(())
}

fn show(out: Out, letter: &Value) -> Outcome {
    let (id, source) = (text_of(letter, "id"), clean(&text_of(letter, "source")));
    let kind = clean(&text_of(letter, "event_type"));
    let outcome = text_of(letter, "outcome");
    let schema = letter.get("schema").and_then(Value::as_bool).unwrap_or(false);
    let fits = if schema { ", fits its schema" } else { "" };
    out.line(format!("{id}  {source}  {kind}  {outcome}{fits}"))?;
    if let Some(error) = letter.get("error").and_then(Value::as_str) {
        out.line(format!("  {}", out.paint(&clean(error), Tone::Warn)))?;
    }
    difference(out, letter)?;
    out.line("")
}

/// The diff, with what goes and what comes in their colours.
fn difference(out: Out, shown: &Value) -> Outcome {
    for line in shown.get("diff").and_then(Value::as_str).unwrap_or_default().lines() {
        let text = clean_lines(line);
        let painted = match line.as_bytes().first() {
            Some(b'-') => out.paint(&text, Tone::Bad),
            Some(b'+') => out.paint(&text, Tone::Good),
            Some(b'@') => out.paint(&text, Tone::Quiet),
            _ => text,
        };
        out.line(format!("  {painted}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_shown_at_its_place() {
        let failure = pointing(".a |\n  nosuch", 7, "there is no filter `nosuch`");
        assert!(failure.words.ends_with("\n\n    nosuch\n    ^\n"), "{}", failure.words);
        assert!(pointing(".é", 1_000, "x").words.contains("\n    ^"));
    }
}
