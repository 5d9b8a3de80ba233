//! What holds for every file: it opens with its story, it is short, and some things are not in it.

use std::collections::BTreeMap;

use crate::tree::{File, files, none, rust_files};

/// Lines of a file, past which it tells two stories.
const LINES: usize = 400;
/// Lines of a function, past which it does not fit a screen.
const FUNCTION: usize = 80;
/// Lines that no file has, ratchet or not.
const NEVER: usize = 700;

/// Longer than [`LINES`], and by how much. An entry may shrink or go; nothing is added here to make a test pass.
const LONG_FILES: [(&str, usize); 0] = [];
/// Longer than [`FUNCTION`]: `path::function`, and by how much.
const LONG_FUNCTIONS: [(&str, usize); 0] = [];

#[test]
fn every_rust_file_opens_with_its_story() {
    let silent = rust_files().into_iter().filter(|file| !file.text.starts_with("//! "));
    none(
        silent.map(|file| format!("{}: begin with `//!` and what lives here, and why", file.path)).collect(),
    );
}

#[test]
fn files_are_short_and_do_not_grow() {
    let lengths: Vec<_> =
        rust_files().into_iter().map(|file| (file.path, file.text.lines().count())).collect();
    let mut faults =
        ratchet(lengths.iter().cloned(), LINES, &LONG_FILES, "cut the file by step, not by kind");
    faults.extend(
        lengths
            .iter()
            .filter(|(_, lines)| *lines > NEVER)
            .map(|(path, lines)| format!("{path}: {lines} lines; {NEVER} is the end")),
    );
    none(faults);
}

#[test]
fn functions_fit_a_screen_and_do_not_grow() {
    let lengths = rust_files().into_iter().flat_map(|file| functions(&file));
    none(ratchet(lengths, FUNCTION, &LONG_FUNCTIONS, "give a step of it a name"));
}

/// What is longer than `limit` must be listed and no longer than it was; what is listed must still be that long.
fn ratchet(
    lengths: impl Iterator<Item = (String, usize)>,
    limit: usize,
    listed: &[(&str, usize)],
    directions: &str,
) -> Vec<String> {
    let mut listed: BTreeMap<&str, usize> = listed.iter().copied().collect();
    let mut faults = Vec::new();
    for (name, lines) in lengths {
        match listed.remove(name.as_str()) {
            None if lines > limit => {
                faults.push(format!("{name}: {lines} lines, at most {limit}; {directions}"))
            }
            Some(was) if lines > was => {
                faults.push(format!("{name}: grew from {was} to {lines} lines; {directions}"))
            }
            Some(was) if lines < was => faults.push(format!(
                "{name}: shrank from {was} to {lines} lines; write that into the ratchet in {}",
                file!()
            )),
            None | Some(_) => {}
        }
    }
    faults.extend(
        listed.keys().map(|name| format!("{name}: is gone; take it out of the ratchet in {}", file!())),
    );
    faults
}

/// Every function of a file that rustfmt has laid out, with its lines: from `fn` to the brace at the same depth.
fn functions(file: &File) -> Vec<(String, usize)> {
    let lines: Vec<&str> = file.text.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        let indent = line.len() - line.trim_start().len();
        // The closing brace, or the semicolon of a declaration; both stand as deep as the `fn`.
        let closes = |line: &&str| {
            line.get(indent..)
                .is_some_and(|rest| rest == "}" || !rest.starts_with(' ') && rest.ends_with(';'))
        };
        let end = lines[start..].iter().position(closes);
        found.push((format!("{}::{name}", file.path), end.map_or(1, |end| end + 1)));
    }
    found
}

fn function_name(line: &str) -> Option<&str> {
    let mut words = line.trim_start();
    loop {
        let (word, rest) = words.split_once(' ')?;
        match word {
            "fn" => return rest.split(['(', '<']).next(),
            "pub" | "pub(crate)" | "pub(super)" | "async" | "const" | "unsafe" | "extern" => words = rest,
            _ => return None,
        }
    }
}

/// Written in two halves, so that this file passes its own rule.
const FORBIDDEN: [(&str, &str); 17] = [
    (concat!("TO", "DO"), "do it, or leave it out"),
    (concat!("FIX", "ME"), "fix it"),
    (concat!("XX", "X "), "say it in words"),
    (concat!("todo", "!("), "write it"),
    (concat!("unimplemented", "!("), "write it"),
    (concat!("dbg", "!("), "take it out"),
    (concat!("#[ig", "nore"), "a test that is not run proves nothing: make it pass or remove it"),
    (
        concat!("#[all", "ow("),
        "use `#[expect(…, reason = \"…\")]`, which says why and goes when it is not needed",
    ),
    (
        concat!("#![all", "ow("),
        "use `#![expect(…, reason = \"…\")]`, which says why and goes when it is not needed",
    ),
    (concat!("/wo", "rk/"), "a path of one machine"),
    (concat!("/ro", "ot/"), "a path of one machine"),
    (concat!("/ho", "me/"), "a path of one machine"),
    (concat!("/tmp", "/wt"), "a path of one machine"),
    (concat!("index.crates", ".io"), "hosts of package registries belong to the machine's settings"),
    (concat!("static.crates", ".io"), "hosts of package registries belong to the machine's settings"),
    (concat!("registry.", "npmjs"), "hosts of package registries belong to the machine's settings"),
    (concat!("deb.", "debian.org"), "hosts of package registries belong to the machine's settings"),
];

#[test]
fn nothing_is_left_over_and_no_file_knows_the_machine_it_was_written_on() {
    let mut faults = Vec::new();
    for file in files().iter().filter(|file| file.path != "LICENSE") {
        for (number, line) in file.text.lines().enumerate() {
            for (found, directions) in FORBIDDEN.iter().filter(|(word, _)| line.contains(word)) {
                faults.push(format!("{}:{}: `{found}`: {directions}", file.path, number + 1));
            }
        }
    }
    none(faults);
}

#[test]
fn text_files_end_with_a_line_and_have_no_trailing_spaces() {
    let mut faults = Vec::new();
    for file in files().iter().filter(|file| !file.path.starts_with("crates/dlo-core/tests/golden/")) {
        if !file.text.is_empty() && !file.text.ends_with('\n') {
            faults.push(format!("{}: end the last line", file.path));
        }
        let trailing = file.text.lines().position(|line| line.ends_with([' ', '\t']));
        faults.extend(trailing.map(|at| format!("{}:{}: spaces at the end of the line", file.path, at + 1)));
    }
    none(faults);
}

#[test]
fn a_function_is_measured_from_its_name_to_its_brace() {
    let text = "pub(crate) async fn long<T>(\n    x: T,\n) {\n    if true {\n    }\n}\n\ntrait T {\n    fn short(&self);\n}\n";
    let file = File { path: "x.rs".into(), text: text.into() };
    assert_eq!(functions(&file), [("x.rs::long".to_string(), 6), ("x.rs::short".to_string(), 1)]);
}
