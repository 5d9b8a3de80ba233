//! The map in `ARCHITECTURE.md`: every room of every crate in one line, and no room that is not there.
//!
//! A room's line is the first sentence of its file's story, so the map is written by this test and cannot drift:
//! `DLO_TIDY_WRITE=1 cargo test -p dlo-testkit --test tidy map` writes it anew.

use std::path::Path;

use crate::tree::{crates, entries, name, read, root};

const PAGE: &str = "ARCHITECTURE.md";
const BEGIN: &str = "<!-- the map, written by tidy: begin -->\n";
const END: &str = "<!-- the map, written by tidy: end -->\n";

#[test]
fn the_map_shows_every_room_and_no_other() {
    let page = read(PAGE);
    let (before, rest) = page.split_once(BEGIN).expect("ARCHITECTURE.md holds the map between two marks");
    let (drawn, after) = rest.split_once(END).expect("ARCHITECTURE.md holds the map between two marks");
    let map = map();
    if drawn == map {
        return;
    }
    if std::env::var_os("DLO_TIDY_WRITE").is_some() {
        std::fs::write(root().join(PAGE), format!("{before}{BEGIN}{map}{END}{after}"))
            .expect("the map is written");
        return;
    }
    let line = |(old, new): (&str, &str)| format!("the page says: {old}\nthe rooms say: {new}");
    let first = drawn.lines().zip(map.lines()).find(|(old, new)| old != new).map(line);
    panic!(
        "\nthe map in {PAGE} is not the rooms as they are\n{}\nrun `./test tidy --write`, and read what it wrote: a room that \
         is hard to describe in one line is two rooms, or none\n",
        first.unwrap_or_else(|| "lines are missing, or too many".to_string())
    );
}

fn map() -> String {
    let mut map = String::new();
    for name in crates() {
        let source = root().join("crates").join(&name).join("src");
        let front = if source.join("lib.rs").exists() { "lib.rs" } else { "main.rs" };
        map.push_str(&format!(
            "\n### `crates/{name}`\n\n{}\n\n| room | what lives there |\n|---|---|\n",
            story(&source.join(front))
        ));
        for (room, file) in rooms(&source) {
            map.push_str(&format!(
                "| `crates/{name}/src/{room}` | {} |\n",
                story(&source.join(file)).trim_end_matches('.')
            ));
        }
    }
    map.push('\n');
    map
}

/// Each file or folder of `src`, and the file that tells its story. `x.rs` with `x/` is one room.
fn rooms(source: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for path in entries(source) {
        let entry = name(&path);
        if path.is_file() && entry.ends_with(".rs") {
            found.push((entry.clone(), entry));
        } else if path.is_dir() && path.join("mod.rs").exists() {
            found.push((format!("{entry}/"), format!("{entry}/mod.rs")));
        }
    }
    found.sort();
    found
}

/// The first sentence of the first paragraph of a file's story.
fn story(file: &Path) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_else(|why| panic!("{}: {why}", file.display()));
    let paragraph = text.lines().map_while(|line| line.strip_prefix("//! ")).collect::<Vec<_>>().join(" ");
    let end = paragraph.find(". ").map_or(paragraph.len(), |dot| dot + 1);
    paragraph[..end].replace('|', "\\|").replace("[`", "`").replace("`]", "`")
}
