//! The help of every command, word for word. `DLO_UPDATE_GOLDEN=1 cargo test -p dlo-cli help` writes it anew.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::office::run;

fn golden() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/help")
}

/// The commands that a help text lists.
fn listed(help: &str) -> Vec<String> {
    let below = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = below.take_while(|line| line.starts_with("  ")).filter(|line| !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).map(String::from).collect()
}

/// Every command with its help, found by walking the help itself.
fn all() -> Vec<(String, String)> {
    let mut waiting = vec![Vec::<String>::new()];
    let mut found = Vec::new();
    while let Some(path) = waiting.pop() {
        let args: Vec<&str> = path.iter().map(String::as_str).chain(["--help"]).collect();
        let help = run(&args).ok();
        for name in listed(&help).into_iter().filter(|name| name != "help") {
            waiting.push(path.iter().cloned().chain([name]).collect());
        }
        found.push(([vec!["dlo".to_string()], path].concat().join("-"), help));
    }
    found
}

#[test]
fn the_help_of_every_command_is_the_one_that_was_read_and_found_good() {
    let update = std::env::var_os("DLO_UPDATE_GOLDEN").is_some();
    let mut names = BTreeSet::new();
    for (name, help) in all() {
        let path = golden().join(format!("{name}.txt"));
        names.insert(format!("{name}.txt"));
        if update {
            std::fs::create_dir_all(golden()).unwrap();
            std::fs::write(&path, &help).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(help, expected, "{name}: run with DLO_UPDATE_GOLDEN=1, read the change, keep it");
    }
    let kept: BTreeSet<String> =
        golden().read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(kept, names, "golden files without a command");
}

#[test]
fn every_command_says_what_it_does_and_fits_a_terminal() {
    for (name, help) in all() {
        let first = help.lines().next().unwrap_or_default();
        assert!(first.len() > 10 && !first.starts_with("Usage"), "{name}: {first}");
        for line in help.lines() {
            assert!(line.chars().count() <= 120, "{name}: {line}");
        }
    }
}

#[test]
fn completions_and_man_pages_are_made_for_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(run(&["completions", shell]).ok().contains("letters"), "{shell}");
    }
    assert!(run(&["man"]).ok().contains(".TH dlo 1"));
    let dir = tempfile::tempdir().unwrap();
    run(&["man", "--to", dir.path().to_str().unwrap()]).ok();
    let pages = dir.path().read_dir().unwrap().count();
    assert_eq!(pages, all().len());
    let page = std::fs::read_to_string(dir.path().join("dlo-letters-list.1")).unwrap();
    assert!(page.contains("newest failure first"), "{page}");
}
