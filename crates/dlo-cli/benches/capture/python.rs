//! Peers in Python: the scripts that people write, in an environment of their own below `target/`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The interpreter with the peers' packages; made once.
fn interpreter() -> PathBuf {
    let place = root().join("target/bench-python");
    let python = place.join("bin/python");
    if !place.join(".installed").exists() {
        println!("  installing the peers' packages");
        run(Command::new("python3").args(["-m", "venv"]).arg(&place));
        let wanted = root().join("bench/peers/requirements.txt");
        run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "-r"]).arg(wanted));
        std::fs::write(place.join(".installed"), "").expect("mark the environment");
    }
    python
}

fn run(command: &mut Command) {
    let status = command.status().expect("python3 is there");
    assert!(status.success(), "{command:?} failed");
}

/// Runs `bench/peers/<script>`, which prints the number of letters it stored and the seconds that it took.
pub(crate) fn drain(script: &str, arguments: &[&str], count: u64) -> Duration {
    let output = Command::new(interpreter())
        .arg(root().join("bench/peers").join(script))
        .args(arguments)
        .arg(count.to_string())
        .output()
        .expect("run the peer");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    let mut words = said.split_whitespace();
    let stored: u64 = words.next().and_then(|word| word.parse().ok()).expect("the peer says a number");
    let seconds: f64 = words.next().and_then(|word| word.parse().ok()).expect("the peer says its seconds");
    assert_eq!(stored, count, "{script} stored another number");
    Duration::from_secs_f64(seconds)
}
