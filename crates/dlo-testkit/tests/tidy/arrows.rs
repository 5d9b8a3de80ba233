//! Who may know whom. The picture stands in `ARCHITECTURE.md`; this is the same picture as a table.

use toml::{Table, Value};

use crate::tree::{crates, none, read};

/// What each crate may name in `[dependencies]`. What it names for its tests is free, but for the core.
const ARROWS: [(&str, &[&str]); 8] = [
    ("dlo-core", &[]),
    ("dlo-brokers", &["dlo-core"]),
    ("dlo-runtime", &["dlo-core"]),
    ("dlo-store", &["dlo-core"]),
    ("dlo-server", &["dlo-core", "dlo-store"]),
    ("dlo-cli", &["dlo-core", "dlo-brokers", "dlo-runtime", "dlo-store", "dlo-server"]),
    ("dlo-testkit", &["dlo-core"]),
    ("dlo-test", &[]),
];

fn manifest(of: &str) -> Table {
    let path = format!("crates/{of}/Cargo.toml");
    read(&path).parse().unwrap_or_else(|why| panic!("{path}: {why}"))
}

/// The entries of every table of that kind, those for one platform included.
fn dependencies(manifest: &Table, kind: &str) -> Table {
    let platforms = manifest.get("target").and_then(Value::as_table).into_iter().flatten();
    let tables = platforms.filter_map(|(_, platform)| platform.get(kind)).chain(manifest.get(kind));
    tables.filter_map(Value::as_table).flat_map(Table::clone).collect()
}

#[test]
fn every_crate_has_a_place_in_the_picture() {
    let mut known: Vec<&str> = ARROWS.iter().map(|(name, _)| *name).collect();
    known.sort_unstable();
    assert_eq!(crates(), known, "a crate comes or goes with a line in ARROWS and in ARCHITECTURE.md");
}

#[test]
fn no_crate_knows_one_that_it_may_not() {
    let mut faults = Vec::new();
    for (name, allowed) in ARROWS {
        for known in dependencies(&manifest(name), "dependencies").keys() {
            if known.starts_with("dlo-") && !allowed.contains(&known.as_str()) {
                faults.push(format!(
                    "crates/{name}/Cargo.toml: `{name}` may not depend on `{known}`; hand it in as a trait of dlo-core, \
                     or move the code to a crate that may know both (ARCHITECTURE.md, \"Who may know whom\")"
                ));
            }
        }
    }
    none(faults);
}

#[test]
fn the_core_knows_none_of_ours_even_in_its_tests() {
    let manifest = manifest("dlo-core");
    let ours = |kind| dependencies(&manifest, kind).keys().filter(|name| name.starts_with("dlo-")).count();
    assert_eq!((ours("dev-dependencies"), ours("build-dependencies")), (0, 0), "dlo-core knows nobody");
}

#[test]
fn the_core_has_nothing_to_do_io_with() {
    const IO: [&str; 12] = [
        "tokio",
        "tokio-util",
        "futures",
        "axum",
        "hyper",
        "reqwest",
        "ureq",
        "rusqlite",
        "tokio-postgres",
        "rand",
        "tracing",
        "tempfile",
    ];
    let known = dependencies(&manifest("dlo-core"), "dependencies");
    let faults = known.keys().filter(|name| IO.contains(&name.as_str())).map(|name| {
        format!("crates/dlo-core/Cargo.toml: `{name}` does I/O, waits, or draws randomness; the core is arithmetic")
    });
    none(faults.collect());
}

#[test]
fn lints_and_versions_stand_in_the_root_manifest_only() {
    let mut faults = Vec::new();
    for name in crates() {
        let manifest = manifest(&name);
        let inherits =
            |table: Option<&Value>| table.and_then(|t| t.get("workspace")) == Some(&Value::Boolean(true));
        if !inherits(manifest.get("lints")) {
            faults.push(format!("crates/{name}/Cargo.toml: add `[lints]` with `workspace = true`"));
        }
        for field in ["version", "edition", "rust-version", "license", "publish"] {
            if !inherits(manifest.get("package").and_then(|package| package.get(field))) {
                faults.push(format!("crates/{name}/Cargo.toml: write `{field}.workspace = true`"));
            }
        }
        for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
            for (dependency, value) in &dependencies(&manifest, kind) {
                if !inherits(Some(value)) {
                    faults.push(format!(
                        "crates/{name}/Cargo.toml: write `{dependency}.workspace = true`; its version stands in the root \
                         Cargo.toml"
                    ));
                }
            }
        }
    }
    none(faults);
}
