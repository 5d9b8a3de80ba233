//! Paths that the documents name exist, and every page of `docs/` is reached from another.

use std::path::{Component, Path, PathBuf};

use crate::tree::{File, files, none, root};

/// What a path of ours begins with, where a document names one from the root.
const ROOMS: [&str; 8] = ["crates/", "docs/", "deploy/", "bench/", "examples/", "fuzz/", ".ci/", "changes/"];

fn documents() -> Vec<File> {
    files().into_iter().filter(|file| file.path.ends_with(".md")).collect()
}

#[test]
fn every_path_that_a_document_names_exists() {
    let mut faults = Vec::new();
    for document in documents() {
        let folder = Path::new(&document.path).parent().unwrap_or(Path::new("")).to_path_buf();
        let links = links(&document.text).into_iter().map(|link| normal(&folder.join(link)));
        let named = quoted_paths(&document.text).into_iter().map(PathBuf::from);
        for path in links.chain(named).filter(|path| !root().join(path).exists()) {
            faults.push(format!(
                "{}: `{}` does not exist; correct the name, or take it out",
                document.path,
                path.display()
            ));
        }
    }
    none(faults);
}

#[test]
fn every_page_of_the_docs_is_linked_from_another_document() {
    let documents = documents();
    let mut linked = Vec::new();
    for document in &documents {
        let folder = Path::new(&document.path).parent().unwrap_or(Path::new("")).to_path_buf();
        linked.extend(links(&document.text).into_iter().map(|link| normal(&folder.join(link))));
    }
    let lost = documents.iter().map(|page| &page.path).filter(|path| path.starts_with("docs/"));
    let lost = lost.filter(|path| *path != "docs/README.md" && !linked.contains(&PathBuf::from(path)));
    none(lost.map(|path| format!("{path}: nobody finds it; link it from docs/README.md")).collect());
}

/// The targets of links into the repository, without what follows `#`.
fn links(text: &str) -> Vec<String> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let ours = targets.filter(|target| {
        !target.contains("://") && !target.starts_with(['#', '<']) && !target.contains("mailto:")
    });
    ours.filter_map(|target| target.split('#').next()).map(String::from).collect()
}

/// Paths from the root in backticks. One with a placeholder or a pattern in it names a kind of file, not a file.
fn quoted_paths(text: &str) -> Vec<&str> {
    let quoted = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    let paths = quoted.filter(|path| ROOMS.iter().any(|room| path.starts_with(room)));
    paths.filter(|path| !path.contains(['<', '*', '{', '…', ' '])).collect()
}

/// Without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                clean.pop();
            }
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => clean.push(component),
        }
    }
    clean
}
