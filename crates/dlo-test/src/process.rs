//! Runs one command with its output in a log, a limit on its time, and nothing left of its process group.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Passed,
    Failed,
    /// It was still running after its limit, and was killed.
    TooLong,
}

/// Runs `command`, with stdout and stderr appended to `log`, for at most `limit`.
pub(crate) fn run(mut command: Command, log: &Path, limit: Duration) -> Result<Ended, String> {
    let open = || File::options().create(true).append(true).open(log);
    let cannot = |why: std::io::Error| format!("{}: {why}", log.display());
    command.stdin(Stdio::null()).stdout(open().map_err(cannot)?).stderr(open().map_err(cannot)?);
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command.process_group(0).spawn().map_err(|why| format!("cannot start {name}: {why}"))?;
    let ended = wait(&mut child, limit)?;
    // A test that was killed may leave a child of its own; servers end by themselves when their test is gone.
    if ended == Ended::TooLong {
        kill_group(&child);
        let _ = child.wait();
    }
    Ok(ended)
}

fn wait(child: &mut Child, limit: Duration) -> Result<Ended, String> {
    let end = Instant::now() + limit;
    loop {
        match child.try_wait().map_err(|why| format!("cannot wait for a command: {why}"))? {
            Some(status) if status.success() => return Ok(Ended::Passed),
            Some(_) => return Ok(Ended::Failed),
            None if Instant::now() >= end => return Ok(Ended::TooLong),
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

fn kill_group(child: &Child) {
    let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", child.id())]).status();
}

/// Whether `name` is a program in `PATH`.
pub(crate) fn has_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}
