//! Servers that Debian does not package: where `servers/<name>/install` puts them.
//!
//! One folder per server below `target/servers`, shared by tests and benches, kept between runs.

use std::path::{Path, PathBuf};

/// The folder of an installed server. One that is not there is a failure with directions.
pub fn folder(name: &str) -> PathBuf {
    let folder = servers().join(name);
    assert!(
        folder.join(".installed").exists(),
        "{name} is not installed: run `./test {name}`, or `crates/dlo-testkit/servers/{name}/install`"
    );
    folder
}

/// As [`folder`], for a server that the system may have instead.
pub fn find(name: &str) -> Option<PathBuf> {
    Some(servers().join(name)).filter(|folder| folder.join(".installed").exists())
}

fn servers() -> PathBuf {
    match std::env::var_os("DLO_TEST_SERVERS") {
        Some(elsewhere) => elsewhere.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/servers"),
    }
}
