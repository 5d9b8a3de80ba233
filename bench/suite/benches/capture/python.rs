//! Peers in Python: the scripts that people write.

use std::process::Command;
use std::time::Duration;

use crate::interpreter;
use crate::runner::Round;
use crate::usage::Meter;

/// Runs `bench/peers/<script>`, which prints the number of letters it stored and the seconds that it took.
pub(crate) fn drain(script: &str, arguments: &[&str], count: u64) -> Round {
    let python = interpreter::python();
    let meter = Meter::start();
    let output = Command::new(python)
        .arg(interpreter::root().join("bench/peers").join(script))
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
    meter.round(count, Duration::from_secs_f64(seconds))
}
