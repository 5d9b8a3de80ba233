//! The bench book: `book begin FILE TIME WORDS…` opens a record with the facts of this machine, `book write DIRECTORY FILE…` makes
//! pages and pictures of records; what was measured before and not anew is taken from the book that stands there. `bench/run`
//! calls both.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command that says what it did")]

use std::path::Path;
use std::process::ExitCode;

use dlo_bench::book::Book;
use dlo_bench::lines::Line;
use dlo_bench::{bars, machine, record};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["begin", file, at, ref asked @ ..] => {
            record::append(Path::new(file), &Line::Run(machine::run(at, &asked.join(" "))));
            Ok(())
        }
        ["write", directory, ref records @ ..] => write(Path::new(directory), records),
        _ => Err("usage: book begin FILE TIME WORDS… | book write DIRECTORY FILE…".to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("book: {why}");
            ExitCode::FAILURE
        }
    }
}

fn write(directory: &Path, records: &[&str]) -> Result<(), String> {
    let read = |name: &&str| -> Result<(String, String), String> {
        let text = std::fs::read_to_string(name).map_err(|why| format!("{name}: {why}"))?;
        Ok((name.to_string(), text))
    };
    let records = records.iter().map(read).collect::<Result<Vec<_>, String>>()?;
    let results = directory.join("results.json");
    let name = results.display().to_string();
    // What cannot be read is not written over.
    let former = match std::fs::read_to_string(&results) {
        Ok(json) => Some(json),
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => None,
        Err(why) => return Err(format!("{name}: {why}")),
    };
    let book = Book::of(bars::all(), &records, former.as_deref().map(|json| (name.as_str(), json)))?;
    let cannot = |why: std::io::Error| format!("{}: {why}", directory.display());
    std::fs::create_dir_all(directory).map_err(cannot)?;
    // Pictures of curves that are not drawn any more would stay for ever.
    for entry in std::fs::read_dir(directory).map_err(cannot)?.flatten() {
        if entry.path().extension().is_some_and(|kind| kind == "svg") {
            std::fs::remove_file(entry.path()).map_err(cannot)?;
        }
    }
    for (name, text) in book.files() {
        std::fs::write(directory.join(&name), text).map_err(cannot)?;
        println!("{}", directory.join(name).display());
    }
    Ok(())
}
