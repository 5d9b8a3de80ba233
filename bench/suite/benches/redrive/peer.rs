//! Peers in Python: scripts that move messages from a dead-letter queue back to its queue.

use std::process::Command;
use std::time::Duration;

use crate::done::{Done, Spent};
use crate::interpreter;
use crate::usage::{Usage, servers};

/// Runs `bench/peers/<script>`, which prints: moved, seconds, seconds of processor, megabytes.
pub(crate) fn run(script: &str, arguments: &[&str], count: u64) -> Done {
    let before = servers(None);
    let output = Command::new(interpreter::python())
        .arg(interpreter::root().join("bench/peers").join(script))
        .args(arguments)
        .arg(count.to_string())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .expect("run the peer");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    let numbers: Vec<f64> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [moved, seconds, cpu, peak_mb] = numbers[..] else { unreadable(script, &said) };
    assert_eq!(moved as u64, count, "{script} moved another number");
    Done {
        moved: count,
        spent: Spent::moving(Duration::from_secs_f64(seconds)),
        client: Usage { cpu: Duration::from_secs_f64(cpu), peak_mb },
        server: servers(None).saturating_sub(before),
    }
}

fn unreadable(script: &str, said: &str) -> ! {
    println!("{script} said `{said}`");
    std::process::exit(1)
}
