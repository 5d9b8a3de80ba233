//! How the tree is built: where features are switched, and which crates of ours the profiles name.

use std::collections::BTreeMap;

use toml::{Table, Value};

use crate::tree::{crates, none, read, rust_files};

/// What `cfg` and `cfg!` say of a feature. Written in two halves, so that this file does not count.
const FEATURE: &str = concat!("feature", " = \"");

#[test]
fn features_are_switched_in_one_source_file_of_a_crate() {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in rust_files() {
        let Some((name, _)) = file.path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"))
        else {
            continue;
        };
        let switches = |line: &str| line.contains("cfg") && line.contains(FEATURE);
        if file.text.lines().any(switches) {
            found.entry(name.to_string()).or_default().push(file.path.clone());
        }
    }
    let scattered = found.iter().filter(|(_, files)| files.len() > 1);
    none(
        scattered
            .map(|(name, files)| {
                format!("crates/{name}: cfg(feature) is in {}; keep it in one of them", files.join(" and "))
            })
            .collect(),
    );
}

#[test]
fn crates_choose_the_features_of_those_they_build_on() {
    let root: Table = read("Cargo.toml").parse().expect("the root Cargo.toml is TOML");
    let dependencies = root["workspace"]["dependencies"].as_table().expect("[workspace.dependencies]");
    let faults = crates().into_iter().filter(|name| {
        let manifest: Table = read(&format!("crates/{name}/Cargo.toml")).parse().expect("a manifest");
        let has_default = manifest.get("features").and_then(|features| features.get("default")).is_some();
        let told = dependencies.get(name).and_then(|line| line.get("default-features"));
        has_default && dependencies.contains_key(name) && told != Some(&Value::Boolean(false))
    });
    none(
        faults
            .map(|name| {
                format!("Cargo.toml: `{name}` has default features; write `default-features = false`")
            })
            .collect(),
    );
}

#[test]
fn the_dev_profile_names_every_crate_of_ours() {
    let root: Table = read("Cargo.toml").parse().expect("the root Cargo.toml is TOML");
    let named = root["profile"]["dev"]["package"].as_table().expect("[profile.dev.package]");
    let ours = ["dlo-bench", "dlo-gate", "dlo-example-service"].map(String::from).into_iter().chain(crates());
    let missing = ours.filter(|name| {
        named.get(name).and_then(|profile| profile.get("opt-level")) != Some(&Value::Integer(0))
    });
    none(
        missing
            .map(|name| {
                format!("Cargo.toml: add [profile.dev.package.{name}] with `opt-level = 0`, line tables")
            })
            .collect(),
    );
}
