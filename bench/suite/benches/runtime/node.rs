//! Peers on Node: their packages, pinned by `bench/peers/node/package-lock.json`, below `target/`.

use std::path::PathBuf;
use std::process::Command;

use crate::child::must;
use crate::interpreter::root;

/// Where the packages are; installed again when the lock changes.
fn packages() -> PathBuf {
    let place = root().join("target/bench-node");
    let from = root().join("bench/peers/node");
    let wanted = std::fs::read_to_string(from.join("package-lock.json")).expect("the lock");
    let mark = place.join(".installed");
    if !std::fs::read_to_string(&mark).is_ok_and(|installed| installed == wanted) {
        println!("  installing the peers' packages");
        std::fs::create_dir_all(&place).expect("a directory");
        for file in ["package.json", "package-lock.json"] {
            std::fs::copy(from.join(file), place.join(file)).expect("copy the list");
        }
        must(
            Command::new("npm").args(["install", "--silent", "--no-audit", "--no-fund"]).current_dir(&place),
        );
        std::fs::write(mark, wanted).expect("mark the packages");
    }
    place.join("node_modules")
}

/// `node bench/peers/node/<script>`.
pub(crate) fn script(name: &str) -> Command {
    let mut command = Command::new("node");
    command.arg(root().join("bench/peers/node").join(name)).env("NODE_PATH", packages());
    command
}
