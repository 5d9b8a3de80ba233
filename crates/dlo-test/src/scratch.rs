//! Where a run keeps its files: logs below `target/test-logs`, everything else in one folder that goes with the run.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Logs of tiers, of installs and of failed tests' servers. Kept until the next run.
pub(crate) const LOGS: &str = "target/test-logs";
/// Set by the script `./test`: the folder that it removes when the run ends. Processes are found by this variable too.
const SCRATCH: &str = "DLO_TEST_SCRATCH";

/// A server's supervisor ends the server after its test has ended.
const PATIENCE: Duration = Duration::from_secs(20);

/// The working directory becomes the root of the repository.
pub(crate) fn enter_repository() -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::env::set_current_dir(&root).map_err(|why| format!("cannot enter {}: {why}", root.display()))?;
    std::fs::create_dir_all(LOGS).map_err(|why| format!("cannot create {LOGS}: {why}"))
}

/// The folder of this run.
pub(crate) fn folder() -> Result<PathBuf, String> {
    let named =
        std::env::var_os(SCRATCH).ok_or("run this by the script ./test, which cleans up behind it")?;
    Ok(named.into())
}

/// A folder for the temporary files of one tier. Servers that run as another user write below it.
pub(crate) fn make(name: &str) -> Result<PathBuf, String> {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = folder()?.join(name);
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::create_dir_all(&folder)
        .and_then(|()| std::fs::set_permissions(&folder, open))
        .map_err(|why| format!("cannot create {}: {why}", folder.display()))?;
    Ok(folder)
}

/// Processes of this run that do not end by themselves within [`PATIENCE`].
pub(crate) fn left_processes() -> Vec<String> {
    let end = Instant::now() + PATIENCE;
    loop {
        let left = processes();
        if left.is_empty() || Instant::now() >= end {
            return left;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Files and folders of ours beside the folder of this run: in the system's temporary directory.
#[derive(Debug)]
pub(crate) struct TemporaryFiles(BTreeSet<String>);

impl TemporaryFiles {
    /// Those that are there before the run.
    pub(crate) fn now() -> Self {
        let beside = folder().ok().and_then(|folder| folder.parent().map(Path::to_owned));
        let entries =
            beside.and_then(|folder| std::fs::read_dir(folder).ok()).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        Self(names.filter(|name| is_ours(name)).collect())
    }

    /// Those that came since.
    pub(crate) fn added(&self) -> Vec<String> {
        let now = Self::now().0;
        now.difference(&self.0).map(|name| format!("{name}, in the temporary directory")).collect()
    }
}

/// Whether a test may have left this. The folder of another run is that run's own.
fn is_ours(name: &str) -> bool {
    (name.starts_with("dlo") && !name.starts_with("dlo-test.")) || name.starts_with("hsperfdata")
}

/// Processes of this run by name. Each inherited [`SCRATCH`] from this one.
fn processes() -> Vec<String> {
    let Ok(folder) = folder() else { return Vec::new() };
    let mark = format!("{SCRATCH}={}", folder.display());
    let ours = [std::process::id(), std::os::unix::process::parent_id()].map(|id| id.to_string());
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().into_string().ok());
    let ids = ids.filter(|id| id.bytes().all(|byte| byte.is_ascii_digit()) && !ours.contains(id));
    ids.filter_map(|id| {
        let environment = std::fs::read(format!("/proc/{id}/environ")).ok()?;
        let marked = environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes());
        let name = std::fs::read_to_string(format!("/proc/{id}/comm")).ok()?;
        marked.then(|| format!("{} (pid {id})", name.trim()))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_that_a_test_may_have_left_are_counted() {
        assert!(is_ours("dlo-runtime") && is_ours("hsperfdata_root"));
        assert!(!is_ours("dlo-test.x7Qa1b") && !is_ours("ssh-agent"));
    }
}
