//! `dlo letters import`: NDJSON from a file or a pipe, sent in chunks, each answered item by item.
//!
//! Lines are sent as they are. A chunk carries an idempotency key made of its content and place, so the same file sent
//! again, or a chunk whose answer was lost, makes no second letter. What the office has no room for is sent again; what
//! it refuses is told with its line.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;

use crate::args::ImportArgs;
use crate::client::{Client, text_of};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{Out, Progress, clean, count, cut, letters, say};

/// Lines of one request.
const LINES: usize = 1_000;
/// Bytes after which a request is sent.
const BYTES: usize = 4 * 1024 * 1024;
/// Bytes of one line: the largest payload as base64, and everything around it.
const LINE: u64 = 24 * 1024 * 1024;
/// Refusals that are told one by one; the others are counted.
const TOLD: usize = 20;
/// How often a chunk is sent that the office has no room for.
const TRIES: u32 = 60;

#[derive(Debug, Default)]
struct Tally {
    lines: u64,
    stored: u64,
    duplicate: u64,
    rejected: u64,
    /// The first refusals, with their line numbers.
    told: Vec<(u64, String)>,
}

/// Lines that travel together, each with its number.
#[derive(Debug, Default)]
struct Chunk {
    text: Vec<u8>,
    /// Line number and where the line ends.
    lines: Vec<(u64, usize)>,
}

pub(super) fn run(client: &Client, out: Out, args: &ImportArgs) -> Outcome {
    let mut reader = open(&args.from)?;
    let (mut tally, mut progress) = (Tally::default(), Progress::new());
    let (mut number, mut place) = (0, 0);
    while let Some(chunk) = next_chunk(&mut reader, &mut number)? {
        tally.lines += chunk.lines.len() as u64;
        if args.yes {
            send(client, &chunk, place, &mut tally).inspect_err(|_| progress.end())?;
        } else {
            look(&chunk, &mut tally);
        }
        place += 1;
        progress.at(&format!("{} lines", count(tally.lines)));
    }
    progress.end();
    report(out, args.yes, &tally)
}

fn open(path: &Path) -> Outcome<Box<dyn BufRead>> {
    if path == Path::new("-") {
        return Ok(Box::new(BufReader::new(std::io::stdin())));
    }
    match File::open(path) {
        Ok(file) => Ok(Box::new(BufReader::with_capacity(256 * 1024, file))),
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {
            Err(Failure::new(Exit::NotFound, format!("there is no file {}", path.display())))
        }
        Err(cause) => Err(Failure::failed(format!("{} cannot be read: {cause}", path.display()))),
    }
}

/// The next lines that are not blank; `None` at the end.
fn next_chunk(reader: &mut dyn BufRead, number: &mut u64) -> Outcome<Option<Chunk>> {
    let mut chunk = Chunk::default();
    while chunk.lines.len() < LINES && chunk.text.len() < BYTES {
        let begin = chunk.text.len();
        let got = reader.take(LINE + 1).read_until(b'\n', &mut chunk.text)?;
        if got == 0 {
            break;
        }
        *number += 1;
        if got as u64 > LINE {
            return Err(Failure::failed(format!(
                "line {number} is longer than {LINE} bytes; nothing of it was sent"
            )));
        }
        if chunk.text[begin..].trim_ascii().is_empty() {
            chunk.text.truncate(begin);
            continue;
        }
        if !chunk.text.ends_with(b"\n") {
            chunk.text.push(b'\n');
        }
        chunk.lines.push((*number, chunk.text.len()));
    }
    Ok((!chunk.lines.is_empty()).then_some(chunk))
}

impl Chunk {
    fn line(&self, index: usize) -> &[u8] {
        let begin = index.checked_sub(1).map_or(0, |before| self.lines[before].1);
        &self.text[begin..self.lines[index].1]
    }

    /// The same for the same lines at the same place of a file.
    fn key(&self, place: u64) -> String {
        let mut name = place.to_be_bytes().to_vec();
        name.extend_from_slice(&self.text);
        Uuid::new_v5(&Uuid::NAMESPACE_OID, &name).to_string()
    }
}

/// A dry run: whether each line is a JSON object.
fn look(chunk: &Chunk, tally: &mut Tally) {
    for (index, (number, _)) in chunk.lines.iter().enumerate() {
        match serde_json::from_slice::<serde_json::Map<String, Value>>(chunk.line(index)) {
            Ok(_) => tally.stored += 1,
            Err(bad) => tally.refuse(*number, format!("not a JSON object: {bad}")),
        }
    }
}

impl Tally {
    fn refuse(&mut self, line: u64, why: String) {
        self.rejected += 1;
        if self.told.len() < TOLD {
            self.told.push((line, why));
        }
    }
}

/// Sends a chunk until every line has its answer. The whole chunk is sent again under its key when lines are left
/// over: what is stored by then is a duplicate there, so no answer that was lost makes a second letter.
fn send(client: &Client, chunk: &Chunk, place: u64, tally: &mut Tally) -> Outcome {
    let key = chunk.key(place);
    let mut waiting: Vec<usize> = (0..chunk.lines.len()).collect();
    for _ in 0..TRIES {
        if let Some(results) = post(client, chunk, &key)? {
            waiting.retain(|&index| !settled(&results[index], chunk.lines[index].0, tally));
        }
        if waiting.is_empty() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    for index in waiting {
        tally.refuse(chunk.lines[index].0, format!("the office had no room for it, {TRIES} times"));
    }
    Ok(())
}

/// One answer a line; `None`: there was no room for the chunk.
fn post(client: &Client, chunk: &Chunk, key: &str) -> Outcome<Option<Vec<Value>>> {
    let mut body = chunk.text.as_slice();
    let headers = [("idempotency-key", key)];
    let body = ureq::SendBody::from_reader(&mut body);
    let mut answer = match client.post_raw("/api/v1/letters", &[], "application/x-ndjson", &headers, body) {
        Ok(answer) => client.json(answer)?,
        Err(failure) if failure.busy => return Ok(None),
        Err(failure) => return Err(failure),
    };
    match answer.get_mut("results").map(Value::take) {
        Some(Value::Array(results)) if results.len() == chunk.lines.len() => Ok(Some(results)),
        _ => Err(Failure::failed("the office did not answer every line; run the import again")),
    }
}

/// Counts one answer; `false` if the line should be sent again.
fn settled(result: &Value, line: u64, tally: &mut Tally) -> bool {
    match (text_of(result, "status").as_str(), result.get("error")) {
        ("stored" | "died_again", _) => tally.stored += 1,
        ("duplicate", _) => tally.duplicate += 1,
        (_, Some(error)) if matches!(text_of(error, "code").as_str(), "overloaded" | "disk_full") => {
            return false;
        }
        (_, Some(error)) => tally.refuse(line, refusal(error)),
        (_, None) => tally.refuse(line, "the office gave no reason".to_string()),
    }
    true
}

fn refusal(error: &Value) -> String {
    let detail = cut(&clean(&text_of(error, "detail")), 200);
    match text_of(error, "field").as_str() {
        "-" => detail,
        field => format!("`{}`: {detail}", cut(&clean(field), 64)),
    }
}

fn report(out: Out, sent: bool, tally: &Tally) -> Outcome {
    if out.json {
        let refused: Vec<Value> =
            tally.told.iter().map(|(line, why)| json!({"line": line, "detail": why})).collect();
        let stored = if sent { "stored" } else { "would_send" };
        out.value(&json!({
            "lines": tally.lines, stored: tally.stored, "duplicate": tally.duplicate,
            "rejected": tally.rejected, "first_rejected": refused,
        }))?;
    } else if sent {
        let (stored, duplicate) = (count(tally.stored), count(tally.duplicate));
        out.line(format!("{stored} stored, {duplicate} here already, {} refused", count(tally.rejected)))?;
    } else {
        out.line(format!("{} would be sent; nothing was: --yes sends them", letters(tally.stored)))?;
    }
    for (line, why) in tally.told.iter().filter(|_| !out.json) {
        say(format!("  line {line}: {why}"));
    }
    let untold = tally.rejected.saturating_sub(tally.told.len() as u64);
    if untold > 0 {
        say(format!("  … and {} more", count(untold)));
    }
    if tally.rejected == 0 {
        return Ok(());
    }
    Err(Failure::failed(format!("{} of {} lines were refused", count(tally.rejected), count(tally.lines))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(text: &str) -> Vec<Vec<(u64, String)>> {
        let (mut reader, mut number) = (text.as_bytes(), 0);
        let mut chunks = Vec::new();
        while let Some(chunk) = next_chunk(&mut reader, &mut number).unwrap() {
            let line = |index: usize| String::from_utf8_lossy(chunk.line(index)).trim_end().to_string();
            chunks.push(chunk.lines.iter().enumerate().map(|(index, (n, _))| (*n, line(index))).collect());
        }
        chunks
    }

    #[test]
    fn lines_keep_their_numbers_over_blank_ones() {
        let found = chunks("{\"a\":1}\n\n  \r\n{\"b\":2}");
        assert_eq!(found, [vec![(1, "{\"a\":1}".to_string()), (4, "{\"b\":2}".to_string())]]);
        assert!(chunks("\n\n").is_empty());
    }

    #[test]
    fn a_long_file_travels_in_chunks() {
        let found = chunks(&"{}\n".repeat(2_500));
        assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), [1_000, 1_000, 500]);
        assert_eq!(found[2][0].0, 2_001);
    }

    #[test]
    fn the_key_of_a_chunk_depends_on_its_lines_and_its_place() {
        let chunk = |text: &str| next_chunk(&mut text.as_bytes(), &mut 0).unwrap().unwrap();
        assert_eq!(chunk("{}\n{}").key(0), chunk("{}\n{}\n").key(0));
        assert_ne!(chunk("{}").key(0), chunk("{}").key(1));
        assert_ne!(chunk("{}").key(0), chunk("[]").key(0));
    }

    #[test]
    fn a_dry_run_names_the_lines_that_are_no_letters() {
        let mut tally = Tally::default();
        look(&next_chunk(&mut &b"{\"source\":\"a\"}\n[]\nnope\n"[..], &mut 0).unwrap().unwrap(), &mut tally);
        assert_eq!((tally.stored, tally.rejected), (1, 2));
        assert_eq!(tally.told.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [2, 3]);
    }
}
