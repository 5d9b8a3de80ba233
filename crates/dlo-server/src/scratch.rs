//! Files that backups and restores pass through.
//!
//! A scratch file is for its owner alone, since it holds every payload there is, and is gone when its request is over,
//! however it ends. Only a crash leaves one behind; the next start removes it.

use std::path::{Path, PathBuf};

use rand::RngExt;
use tokio::fs::{File, OpenOptions};

use crate::config::ServerConfig;

const BEFORE: &str = "dlo-";
const BEHIND: &str = ".tmp";
/// What SQLite may put beside a file while it works on it.
const BESIDE: [&str; 3] = ["-journal", "-wal", "-shm"];

/// A file that does not outlive its use. Named here, made by whoever writes it.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(config: &ServerConfig) -> Self {
        let directory = config.scratch.clone().unwrap_or_else(std::env::temp_dir);
        let mut name = [0_u8; 8];
        rand::rng().fill(&mut name);
        Self(directory.join(format!("{BEFORE}{:016x}{BEHIND}", u64::from_be_bytes(name))))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Makes the file, to be written.
    pub(crate) async fn create(&self) -> std::io::Result<File> {
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.0).await
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "a scratch file is left behind");
        }
    }
}

/// Removes what a crash left in the office's own scratch directory. The system's temporary directory is left alone:
/// another office may be using its files there.
pub(crate) fn sweep(config: &ServerConfig) {
    let Some(directory) = &config.scratch else { return };
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) => return tracing::warn!(%error, "the scratch directory cannot be looked through"),
    };
    for entry in entries.filter_map(Result::ok) {
        if !entry.file_name().to_str().is_some_and(is_ours) {
            continue;
        }
        match std::fs::remove_file(entry.path()) {
            Ok(()) => tracing::info!("a scratch file that a crash left was removed"),
            Err(error) => tracing::warn!(%error, "a scratch file is left behind"),
        }
    }
}

fn is_ours(name: &str) -> bool {
    let name = BESIDE.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    let number = name.strip_prefix(BEFORE).and_then(|rest| rest.strip_suffix(BEHIND));
    number.is_some_and(|number| number.len() == 16 && number.bytes().all(|b| b.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn config(directory: &Path) -> ServerConfig {
        ServerConfig { scratch: Some(directory.to_path_buf()), ..ServerConfig::default() }
    }

    #[tokio::test]
    async fn a_scratch_file_is_for_its_owner_alone_and_goes_with_its_use() {
        let directory = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(&config(directory.path()));
        let file = scratch.create().await.unwrap();
        assert_eq!(file.metadata().await.unwrap().permissions().mode() & 0o777, 0o600);
        let path = scratch.path().to_path_buf();
        drop(scratch);
        assert!(!path.exists());
    }

    #[test]
    fn a_sweep_removes_what_a_crash_left_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let left = Scratch::new(&config(directory.path()));
        let journal = PathBuf::from(format!("{}-journal", left.path().display()));
        let kept = ["office.db", "dlo-notes.tmp", "dlo-0123456789abcdef.tmp.keep", "0123456789abcdef.tmp"];
        for path in kept.map(|name| directory.path().join(name)).iter().chain([&journal]) {
            std::fs::write(path, "").unwrap();
        }
        std::fs::write(left.path(), "").unwrap();
        sweep(&config(directory.path()));
        assert!(!left.path().exists() && !journal.exists());
        for name in kept {
            assert!(directory.path().join(name).exists(), "{name}");
        }
    }
}
