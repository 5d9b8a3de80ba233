//! `dlo letters`: the list here, every other verb in a file of its own.

mod decide;
mod export;
mod import;
mod payload;
mod show;

use serde_json::Value;

use super::{now, query_text};
use crate::args::{LettersArgs, LettersCommand, ListArgs};
use crate::client::{Client, Pages, age_of, text_of};
use crate::exit::Outcome;
use crate::output::{Align, Out, Table, Tone, cut, say};

pub(super) fn run(args: LettersArgs) -> Outcome {
    let client = Client::new(&args.client)?;
    let out = Out::new(args.client.json);
    match args.command {
        LettersCommand::List(args) => list(&client, out, args),
        LettersCommand::Show(args) => show::run(&client, out, args.id),
        LettersCommand::Payload(args) => payload::run(&client, out, &args),
        LettersCommand::Discard(args) => decide::run(&client, out, decide::Decision::Discard, &args),
        LettersCommand::Compensate(args) => decide::run(&client, out, decide::Decision::Compensate, &args),
        LettersCommand::Export(args) => export::run(&client, &args),
        LettersCommand::Import(args) => import::run(&client, out, &args),
    }
}

fn list(client: &Client, out: Out, args: ListArgs) -> Outcome {
    let query = query_text(&args.query)?;
    let page =
        Pages { path: "/api/v1/letters", list: "letters", query: &[("q", &query)], cursor: args.cursor }
            .up_to(client, args.limit)?;
    if out.json {
        return out.value(&page.whole());
    }
    if page.items.is_empty() {
        say(if query.is_empty() { "there are no letters" } else { "no letter matches" });
        return Ok(());
    }
    out.table(&table(&page.items))?;
    if let Some(cursor) = &page.next {
        say(format!("… the newest {}; more by --limit, or --cursor {cursor}", page.items.len()));
    }
    Ok(())
}

/// Letters as a table, in the order given.
pub(super) fn table(letters: &[Value]) -> Table {
    let mut table = Table::new(&[
        ("ID", Align::Left),
        ("FAILED", Align::Right),
        ("STATUS", Align::Left),
        ("SOURCE", Align::Left),
        ("TYPE", Align::Left),
        ("CONSUMER", Align::Left),
        ("OWNER", Align::Left),
        ("ERROR", Align::Left),
    ]);
    let now = now();
    for letter in letters {
        let text = |key| cut(&text_of(letter, key), 40);
        let mut status = text("status");
        let tone = tone(&status);
        if let Some(kind) = letter.pointer("/suspect/kind").and_then(Value::as_str) {
            status = format!("{status}, {}", kind.replace('_', " "));
        }
        table.row([
            text_of(letter, "id"),
            age_of(letter, "failed_at", now),
            status,
            text("source"),
            text("event_type"),
            text("consumer"),
            text("owner"),
            error_line(letter, 72),
        ]);
        table.tone(0, Tone::Quiet);
        table.tone(2, tone);
    }
    table
}

/// Class and message on one line.
fn error_line(letter: &Value, most: usize) -> String {
    let (class, message) = (text_of(letter, "error_class"), text_of(letter, "error_message"));
    let line = match (class.as_str(), message.as_str()) {
        ("-", message) => message.to_string(),
        (class, "-" | "") => class.to_string(),
        (class, message) => format!("{class}: {message}"),
    };
    cut(&line, most)
}

fn tone(status: &str) -> Tone {
    match status {
        "open" | "in_doubt" => Tone::Warn,
        "recovered" => Tone::Good,
        _ => Tone::Quiet,
    }
}
