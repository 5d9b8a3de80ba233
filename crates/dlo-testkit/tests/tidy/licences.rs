//! Every crate that we build on may be shipped with ours. `deny.toml` says the same to those who have cargo-deny.
//!
//! Cargo itself is asked what is in the tree, for the platform the tests run on.

use serde::Deserialize;

use crate::tree::{none, read, root};

/// Licences that ask for no more than to be named; one is added when a crate that we need has it, not before.
const ALLOWED: [&str; 8] =
    ["Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MIT-0", "Unicode-3.0", "Zlib"];

/// One crate each, with the reason.
const EXCEPTIONS: [(&str, &str); 1] = [
    // Boost's licence asks for less than BSD's; redis builds on it whatever its features.
    ("xxhash-rust", "BSL-1.0"),
];

#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
}

/// What a tool of the toolchain says, run at the root.
fn said(tool: &str, args: &[&str]) -> Vec<u8> {
    let output = std::process::Command::new(tool).args(args).current_dir(root()).output();
    let output = output.unwrap_or_else(|why| panic!("{tool} cannot be run: {why}"));
    assert!(output.status.success(), "{tool}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn packages() -> Vec<Package> {
    // Other platforms' crates are not on this machine, and `--offline` keeps a test from fetching them.
    let version = String::from_utf8(said("rustc", &["-vV"])).expect("the compiler's version as text");
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).expect("the compiler's platform");
    let args = ["metadata", "--locked", "--offline", "--format-version", "1", "--filter-platform", host];
    let metadata: Metadata =
        serde_json::from_slice(&said(env!("CARGO"), &args)).expect("cargo's description");
    metadata.packages
}

/// Whether an SPDX expression leaves us a way: one side of every OR, both sides of every AND.
fn permits(expression: &str) -> bool {
    let plain = expression.replace('/', " OR ").replace(['(', ')'], " ");
    // No expression in the tree nests deeper than an OR of ANDs, or an AND of ORs in brackets.
    let any = |text: &str| text.split(" OR ").any(|name| ALLOWED.contains(&name.trim()));
    if expression.contains('(') {
        plain.split(" AND ").all(any)
    } else {
        plain.split(" OR ").any(|side| side.split(" AND ").all(|name| ALLOWED.contains(&name.trim())))
    }
}

#[test]
fn every_crate_of_the_tree_has_a_licence_that_we_may_ship() {
    let packages = packages();
    assert!(packages.len() > 50, "only {} packages", packages.len());
    let excepted = |package: &Package, licence: &str| EXCEPTIONS.contains(&(&package.name, licence));
    let barred = packages.iter().filter(|package| {
        !package.license.as_deref().is_some_and(|licence| permits(licence) || excepted(package, licence))
    });
    none(
        barred
            .map(|package| {
                let Package { name, version, license } = package;
                format!("{name} {version}: licence {license:?} is not allowed; choose another crate, or argue for it here and in deny.toml")
            })
            .collect(),
    );
}

#[test]
fn deny_toml_allows_the_same_licences() {
    let deny: toml::Table = read("deny.toml").parse().expect("deny.toml is TOML");
    let allowed = deny["licenses"]["allow"].as_array().expect("[licenses] allow").iter();
    let allowed: Vec<&str> = allowed.filter_map(toml::Value::as_str).collect();
    assert_eq!(allowed, ALLOWED, "deny.toml and this list say the same");
    let exceptions = deny["licenses"]["exceptions"].as_array().expect("[licenses] exceptions").iter();
    let exceptions: Vec<(&str, &str)> = exceptions
        .filter_map(|one| Some((one.get("crate")?.as_str()?, one.get("allow")?.get(0)?.as_str()?)))
        .collect();
    assert_eq!(exceptions, EXCEPTIONS, "deny.toml and this list say the same");
}

#[test]
fn expressions_are_read_as_they_are_meant() {
    for fine in
        ["MIT", "MIT OR GPL-3.0", "MIT/Apache-2.0", "(MIT OR Apache-2.0) AND Unicode-3.0", "MIT AND ISC"]
    {
        assert!(permits(fine), "{fine}");
    }
    for barred in ["GPL-3.0", "MIT AND GPL-3.0", "(MIT OR ISC) AND GPL-3.0", ""] {
        assert!(!permits(barred), "{barred}");
    }
}
