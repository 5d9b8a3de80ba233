//! Peers in Go: a module each below `bench/peers/go/`, pinned by its `go.mod` and `go.sum`, built into `target/`.
//!
//! Modules come from the Go module proxy the first time. Where one cannot be had, or there is no Go, the bench says so
//! and goes on without that peer.

use std::path::PathBuf;
use std::process::{Command, Output};

use crate::interpreter::root;

/// The program of `bench/peers/go/<module>`; what the compiler has built before is not built again.
pub(crate) fn program(module: &str) -> Option<PathBuf> {
    let program = std::path::absolute(root().join("target/bench-go").join(module)).expect("a path");
    println!("  building the peer {module}, which takes minutes the first time for a large one");
    let mut build = Command::new("go");
    // Debian's Go may be older than a peer wants: it then fetches the one it needs, unless it was told otherwise.
    if std::env::var_os("GOTOOLCHAIN").is_none() {
        build.env("GOTOOLCHAIN", "auto");
    }
    let built = build
        .args(["build", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(root().join("bench/peers/go").join(module))
        .env("GOFLAGS", "-mod=readonly -trimpath -buildvcs=false")
        .env("GOWORK", "off")
        .env("CGO_ENABLED", "0")
        .output();
    match built {
        Ok(output) if output.status.success() => Some(program),
        Ok(output) => skip(module, &last_line(&output)),
        Err(why) => skip(module, &format!("go does not start, {why} (Debian: apt-get install golang)")),
    }
}

fn skip(module: &str, why: &str) -> Option<PathBuf> {
    println!("  SKIPPED: the peer {module} could not be built: {why}");
    None
}

/// The compiler's last word is the one that says why.
fn last_line(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("it says no reason").to_string()
}
