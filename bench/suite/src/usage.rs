//! What a process and its children took of the machine, by the kernel's own books (`/proc`).

use std::time::Duration;

use crate::measure;
use crate::runner::Round;

/// Clock ticks of a second in `/proc/<pid>/stat`: the same on every Linux.
const TICKS: f64 = 100.0;

/// Processor time and peak memory.
#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    pub cpu: Duration,
    pub peak_mb: f64,
}

impl Usage {
    /// Of one process, its threads included.
    pub fn of(pid: u32) -> Self {
        let ticks = Stat::of(pid).map_or(0, |stat| stat.ticks);
        Self { cpu: Duration::from_secs_f64(ticks as f64 / TICKS), peak_mb: measure::peak_mb(Some(pid)) }
    }

    /// Of a process and all that descend from it. Pages that they share are counted for each.
    pub fn of_tree(root: u32) -> Self {
        let mut sum = Self::default();
        for pid in tree(root) {
            let one = Self::of(pid);
            sum.cpu += one.cpu;
            if one.peak_mb.is_finite() {
                sum.peak_mb += one.peak_mb;
            }
        }
        sum
    }

    /// What was taken since `before`; memory is the peak of both.
    pub fn since(self, before: Self) -> Self {
        Self { cpu: self.cpu.saturating_sub(before.cpu), peak_mb: self.peak_mb.max(before.peak_mb) }
    }
}

/// Processor time of everything that this program started and that lives, but for the runner: the servers.
pub fn servers(runner: Option<u32>) -> Duration {
    let own = std::process::id();
    let besides = Usage::of(own).cpu + runner.map(|pid| Usage::of_tree(pid).cpu).unwrap_or_default();
    Usage::of_tree(own).cpu.saturating_sub(besides)
}

/// Processor time from its start on, for runners in this process and for those that it waits for.
#[derive(Debug, Clone, Copy)]
pub struct Meter {
    own: Duration,
    server: Duration,
}

impl Meter {
    pub fn start() -> Self {
        Self { own: own(), server: servers(None) }
    }

    /// What was taken since the start, for so many messages in the time that the runner itself says.
    pub fn round(self, messages: u64, spent: Duration) -> Round {
        let client = Some(own().saturating_sub(self.own));
        let server = Some(servers(None).saturating_sub(self.server));
        Round { messages, spent, client, server, peak_mb: None }
    }
}

/// Of this process and of children that have ended.
fn own() -> Duration {
    Usage::of(std::process::id()).cpu + ended()
}

/// Processor time of children that have ended and were waited for, and of theirs.
fn ended() -> Duration {
    let ticks = Stat::of(std::process::id()).map_or(0, |stat| stat.ended);
    Duration::from_secs_f64(ticks as f64 / TICKS)
}

struct Stat {
    parent: u32,
    ticks: u64,
    /// Of children that were waited for.
    ended: u64,
}

impl Stat {
    fn of(pid: u32) -> Option<Self> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name stands in brackets and may hold anything; what follows it does not.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        let parent = u32::try_from(number(1)?).ok()?;
        Some(Self { parent, ticks: number(11)? + number(12)?, ended: number(13)? + number(14)? })
    }
}

fn tree(root: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("a Linux").flatten();
    let pids: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    let parents: Vec<(u32, u32)> =
        pids.iter().filter_map(|&pid| Some((pid, Stat::of(pid)?.parent))).collect();
    let mut found = vec![root];
    let mut at = 0;
    while let Some(&above) = found.get(at) {
        found.extend(parents.iter().filter(|(_, parent)| *parent == above).map(|(pid, _)| *pid));
        at += 1;
    }
    found
}
