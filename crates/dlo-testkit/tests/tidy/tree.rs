//! The files of the repository, as the rules see them: paths from the root with slashes, and text.

use std::path::{Path, PathBuf};

/// What a build or a run leaves behind, as in `.gitignore`.
const NOT_OURS: [&str; 8] = [
    ".git",
    "target",
    "dlo-data",
    "demo-data",
    "corpus",
    "artifacts",
    "proptest-regressions",
    "node_modules",
];
/// What is text: everything the rules about words apply to.
const TEXT: [&str; 15] = [
    "rs", "md", "toml", "sql", "txt", "html", "css", "js", "json", "yml", "yaml", "service", "sh", "tera",
    "svg",
];

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository's root")
}

/// A file of ours.
#[derive(Debug)]
pub(crate) struct File {
    /// From the root, with slashes.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Every text file of ours, sorted by path.
pub(crate) fn files() -> Vec<File> {
    let mut found = Vec::new();
    walk(&root(), &mut found);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(found.len() > 50, "only {} files under {}", found.len(), root().display());
    found
}

/// Every Rust file of ours.
pub(crate) fn rust_files() -> Vec<File> {
    files().into_iter().filter(|file| file.path.ends_with(".rs")).collect()
}

/// A file that must be there.
pub(crate) fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|why| panic!("{path} cannot be read: {why}"))
}

/// The crates, by folder name.
pub(crate) fn crates() -> Vec<String> {
    let mut names: Vec<String> = entries(&root().join("crates")).iter().map(|path| name(path)).collect();
    names.sort();
    names
}

/// What stands in a folder and is not left behind by a build.
pub(crate) fn entries(folder: &Path) -> Vec<PathBuf> {
    let listed = std::fs::read_dir(folder).unwrap_or_else(|why| panic!("{}: {why}", folder.display()));
    let paths = listed.map(|entry| entry.expect("a folder entry").path());
    paths.filter(|path| !NOT_OURS.contains(&name(path).as_str())).collect()
}

pub(crate) fn name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn walk(folder: &Path, found: &mut Vec<File>) {
    for path in entries(folder) {
        if path.is_dir() {
            walk(&path, found);
        } else if is_text(&path) {
            let from_root = path.strip_prefix(root()).expect("below the root");
            let text =
                std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
            found.push(File { path: from_root.to_string_lossy().replace('\\', "/"), text });
        }
    }
}

/// By its ending; what has none is a script or a licence.
fn is_text(path: &Path) -> bool {
    path.extension().is_none_or(|ending| TEXT.contains(&ending.to_string_lossy().as_ref()))
}

/// Fails with every fault on a line of its own.
#[track_caller]
pub(crate) fn none(faults: Vec<String>) {
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}
