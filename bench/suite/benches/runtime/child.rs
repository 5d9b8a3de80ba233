//! Runners that are this program itself, started once more: ours and the bare loops. Each times itself from the first
//! message in its hands until the last one is settled, and says so in one line.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::measure::per_second;
use crate::runner::Round;
use crate::sidecar::{bare, handler, limit, push};
use crate::usage::{Usage, servers};
use crate::{kafka_bare, ours, rabbitmq_bare, redis_bare, settings};

/// The first word of a command line that makes this program a runner.
pub(crate) const ROLE: &str = "child";

/// How long a runner may take; what hangs must not hold up every bench behind it.
const PATIENCE: Duration = Duration::from_secs(600);

/// What a runner did, and what it took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Done {
    pub(crate) handled: u64,
    pub(crate) parked: u64,
    pub(crate) spent: Duration,
    pub(crate) usage: Usage,
    /// Processor time of the servers meanwhile.
    pub(crate) server: Duration,
}

impl From<&Done> for Round {
    fn from(done: &Done) -> Self {
        Self {
            messages: done.handled + done.parked,
            spent: done.spent,
            client: Some(done.usage.cpu),
            server: Some(done.server),
            peak_mb: Some(done.usage.peak_mb),
        }
    }
}

impl Done {
    /// Ends the clock of this process.
    pub(crate) fn now(handled: u64, parked: u64, began: Instant) -> Self {
        Self {
            handled,
            parked,
            spent: began.elapsed(),
            usage: Usage::of(std::process::id()),
            server: Duration::ZERO,
        }
    }

    /// One line: handled, parked, seconds, seconds of processor, megabytes. Peers in other languages say the same.
    pub(crate) fn read(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let mut number = || words.next()?.parse::<f64>().ok();
        Some(Self {
            handled: number()? as u64,
            parked: number()? as u64,
            spent: Duration::from_secs_f64(number()?),
            usage: Usage { cpu: Duration::from_secs_f64(number()?), peak_mb: number()? },
            server: Duration::ZERO,
        })
    }

    /// Messages a second.
    pub(crate) fn rate(&self) -> f64 {
        per_second(self.handled + self.parked, self.spent)
    }

    pub(crate) fn check(&self, who: &str, messages: u64, poison: u64) {
        assert_eq!(self.parked, poison, "{who} parked another number");
        assert_eq!(self.handled + self.parked, messages, "{who} handled another number");
    }
}

/// Runs this program as a runner, in a process of its own.
pub(crate) fn run(arguments: &[&str]) -> Done {
    run_with(&this_program(), arguments)
}

/// The same with another build of this program. Arguments and output of `ours` must not change: older builds are called
/// with them.
pub(crate) fn run_with(program: &Path, arguments: &[&str]) -> Done {
    read(Command::new(program).arg(ROLE).args(arguments))
}

pub(crate) fn this_program() -> PathBuf {
    std::env::current_exe().expect("this program")
}

/// Runs a command that others need the work of.
pub(crate) fn must(command: &mut Command) {
    let status = command.status().unwrap_or_else(|why| panic!("{command:?}: {why}"));
    assert!(status.success(), "{command:?} failed");
}

/// Runs a command to its end, which is brought about after [`PATIENCE`].
fn ended(command: &mut Command) -> std::io::Result<Output> {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (pid, (done, is_done)) = (child.id(), mpsc::channel::<()>());
    let watch = std::thread::spawn(move || {
        if let Err(RecvTimeoutError::Timeout) = is_done.recv_timeout(PATIENCE) {
            println!("  killed after {PATIENCE:?}: it had not come to its end");
            must(Command::new("kill").args(["-KILL", &pid.to_string()]));
        }
    });
    let output = child.wait_with_output();
    drop(done);
    watch.join().expect("the watch");
    output
}

/// Runs a command whose last line is [`Done`].
pub(crate) fn read(command: &mut Command) -> Done {
    let before = servers(None);
    let output = ended(command).unwrap_or_else(|why| panic!("{command:?}: {why}"));
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {complaint}");
    let line = said.lines().last().unwrap_or_default();
    let done = Done::read(line).unwrap_or_else(|| panic!("{command:?} said `{line}`: {complaint}"));
    Done { server: servers(None).saturating_sub(before), ..done }
}

/// The life of a runner.
pub(crate) async fn act(arguments: &[String]) {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<u64>().expect("a number");
    let small = |text: &str| text.parse::<u16>().expect("a number");
    let done = match words[..] {
        ["ours", section, queue, group, count] => {
            ours::consume(section, queue, group, number(count), settings::budget()).await
        }
        ["boundless", section, queue, group, count] => {
            ours::consume(section, queue, group, number(count), ours::boundless()).await
        }
        ["rabbitmq", url, queue, _group, count] => rabbitmq_bare::consume(url, queue, number(count)).await,
        ["redis", url, stream, group, count] => redis_bare::consume(url, stream, group, number(count)).await,
        ["kafka", bootstrap, topic, group, count] => {
            kafka_bare::consume(bootstrap, topic, group, number(count)).await
        }
        ["handler", manner, millis, count] => {
            let takes = Duration::from_millis(number(millis));
            return handler::serve(handler::Manner::read(manner), takes, number(count)).await;
        }
        ["age", url, queue, count] => return bare::consume(url, queue, number(count)).await,
        ["push", url, queue, port, connections] => {
            return push::run(url, queue, small(port), small(connections)).await;
        }
        ["posts", port, connections] => return limit::run(small(port), small(connections)).await,
        _ => panic!("no such runner: {words:?}"),
    };
    println!(
        "{} {} {} {} {}",
        done.handled,
        done.parked,
        done.spent.as_secs_f64(),
        done.usage.cpu.as_secs_f64(),
        done.usage.peak_mb
    );
}
