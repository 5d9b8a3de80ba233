//! The front door: what stands at the root, and what a newcomer may rely on there.

use crate::tree::{entries, name, none, read, root};

/// Everything that may stand at the root.
const ROOT: [&str; 24] = [
    ".cargo",
    ".ci",
    ".dockerignore",
    ".gitattributes",
    ".github",
    ".gitignore",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "SECURITY.md",
    "bench",
    "clippy.toml",
    "crates",
    "deny.toml",
    "deploy",
    "docs",
    "examples",
    "fuzz",
    "rustfmt.toml",
    "test",
];
/// What must stand there.
const NEEDED: [&str; 12] = [
    ".ci",
    ".gitignore",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "SECURITY.md",
    "deny.toml",
    "test",
];

#[test]
fn the_root_holds_what_it_should_and_nothing_else() {
    let found: Vec<String> = entries(&root()).iter().map(|path| name(path)).collect();
    // What running the program leaves there (the demo's data, say) is not part of the tree, and git is told so.
    let ignored: Vec<String> =
        read(".gitignore").lines().map(|line| line.trim_matches('/').to_string()).collect();
    let strange = found.iter().filter(|name| !ROOT.contains(&name.as_str()) && !ignored.contains(name));
    let strange = strange
        .map(|name| format!("`{name}` does not belong at the root; find it a room, or add it to ROOT"));
    let missing = NEEDED.iter().filter(|name| !found.iter().any(|found| found == *name));
    none(strange.chain(missing.map(|name| format!("`{name}` is missing at the root"))).collect());
}

#[test]
fn the_lock_file_is_kept_and_names_one_registry() {
    assert!(
        !read(".gitignore").contains("Cargo.lock"),
        "Cargo.lock is committed, so that every build is the same build"
    );
    let lock = read("Cargo.lock");
    let sources = lock.lines().filter_map(|line| line.strip_prefix("source = "));
    let strange =
        sources.filter(|source| *source != "\"registry+https://github.com/rust-lang/crates.io-index\"");
    none(strange.map(|source| format!("Cargo.lock: {source} is not the public registry")).collect());
}

#[test]
fn the_change_log_has_a_place_for_what_is_not_released() {
    let log = read("CHANGELOG.md");
    assert!(log.contains("\n## [Unreleased]\n"), "CHANGELOG.md needs a heading `## [Unreleased]`");
    let version =
        read("Cargo.toml").lines().find_map(|line| line.strip_prefix("version = ").map(String::from));
    assert!(version.is_some(), "the root Cargo.toml names the one version of all crates");
}

#[cfg(unix)]
#[test]
fn the_scripts_can_be_run() {
    use std::os::unix::fs::PermissionsExt;
    let always = ["test", ".ci/run", "crates/dlo-testkit/mutants"];
    let scripts = always.into_iter().chain(root().join("bench/run").exists().then_some("bench/run"));
    let idle = scripts.filter(|path| {
        let mode = std::fs::metadata(root().join(path)).map(|script| script.permissions().mode());
        mode.map_or(true, |mode| mode & 0o111 == 0)
    });
    none(idle.map(|path| format!("{path}: must be there and executable (`chmod +x {path}`)")).collect());
}
