//! Names this process in its leases, so that the next one can prove that it has ended.
//!
//! A lease of a process that has ended is free at once instead of when it runs out. A proof is needed: a process that is only
//! slow still publishes. Where nothing is proven, the lease runs out.
//!
//! | proof | why it is one |
//! |---|---|
//! | the store belongs to one process | its file lock is ours now |
//! | `/proc` of the same boot, PID namespace and user has no process of this number and start time | the kernel lists every process there |
//!
//! Over another machine, container or user nothing is proven.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What of `/proc/<pid>/stat` follows the name of the command, by place: state, threads, start time.
const STATE: usize = 0;
const THREADS: usize = 17;
const START: usize = 19;

/// One process of one machine.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Process {
    pid: u32,
    /// Boot, PID namespace and user.
    place: String,
    /// In ticks since the boot.
    start: u64,
}

/// A name for this process that no other process ever has.
pub(crate) fn holder() -> String {
    let random = rand::random::<u64>();
    match Process::current() {
        Some(Process { pid, place, start }) => format!("{pid}@{place}@{start}@{random:016x}"),
        None => format!("{}@{random:016x}", std::process::id()),
    }
}

/// Whether the process of this holder has certainly ended. `alone`: the store belongs to one process at a time.
pub(crate) fn has_ended(holder: &str, alone: bool) -> bool {
    let Some(current) = Process::current() else { return false };
    match Process::of(holder) {
        Some(other) if other == current => false,
        Some(other) => alone || (other.place == current.place && !other.is_alive()),
        None => alone,
    }
}

impl Process {
    fn current() -> Option<Self> {
        let pid = std::process::id();
        // A `/proc` of another namespace has other numbers, and one that hides processes proves nothing.
        let ours = fs::read_link("/proc/self").ok()? == Path::new(&pid.to_string());
        let hides = fs::read_to_string("/proc/self/mountinfo").ok()?.contains("hidepid=");
        if !ours || hides {
            return None;
        }
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let namespace = fs::metadata("/proc/self/ns/pid").ok()?.ino();
        let user = fs::metadata("/proc/self").ok()?.uid();
        let place = format!("{}.{namespace}.{user}", boot.trim());
        Some(Self { pid, place, start: started(pid)?? })
    }

    /// The process that [`holder`] named; what follows a slash is one of its runs.
    fn of(holder: &str) -> Option<Self> {
        let name = holder.split('/').next()?;
        let mut parts = name.split('@');
        let (pid, place, start) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Self { pid: pid.parse().ok()?, place: place.to_owned(), start: start.parse().ok()? })
    }

    /// Also where it is not known.
    fn is_alive(&self) -> bool {
        started(self.pid).is_none_or(|start| start == Some(self.start))
    }
}

/// When the process of this number was started. Inside, `None` without such a process; outside, `None` if that is unknown.
fn started(pid: u32) -> Option<Option<u64>> {
    let stat = match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat,
        Err(error) if error.kind() == ErrorKind::NotFound => return Some(None),
        Err(_) => return None,
    };
    // The name of the command may hold anything, also parentheses.
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let threads: u64 = fields.get(THREADS)?.parse().ok()?;
    let is_zombie = matches!(*fields.get(STATE)?, "Z" | "X") && threads <= 1;
    if is_zombie { Some(None) } else { Some(Some(fields.get(START)?.parse().ok()?)) }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn this_process_has_not_ended_whichever_of_its_runs_holds_a_lease() {
        let holder = holder();
        for alone in [false, true] {
            assert!(!has_ended(&holder, alone) && !has_ended(&format!("{holder}/7"), alone));
        }
        assert_ne!(holder, super::holder());
    }

    #[test]
    fn a_process_has_ended_when_it_was_killed_also_before_its_parent_looks() {
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        let current = Process::current().unwrap();
        let child_start = started(child.id()).unwrap().unwrap();
        let holder = format!("{}@{}@{child_start}@00/1", child.id(), current.place);
        assert!(!has_ended(&holder, false), "it lives");
        // Its number may be given to another process later.
        assert!(has_ended(&format!("{}@{}@{}@00", child.id(), current.place, child_start - 1), false));
        child.kill().unwrap();
        while !has_ended(&holder, false) {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(has_ended(&holder, false));
    }

    #[test]
    fn nothing_is_proven_of_another_machine_or_of_a_name_that_says_nothing() {
        let elsewhere = "1@another-boot.4026531836.0@1@00";
        for holder in [elsewhere, "1@00", "", "somebody"] {
            assert!(!has_ended(holder, false), "{holder}");
            assert!(has_ended(holder, true), "the lock of the store is ours: {holder}");
        }
    }
}
