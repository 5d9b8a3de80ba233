//! What can be checked on this machine without an office: the door, the store, the port, the brokers.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use dlo_core::units::ByteSize;

use super::Finding;
use crate::commands::serve;
use crate::config::{Config, Storage, without_password};
use crate::exit::{Exit, Failure, Outcome};
use crate::{schemas, wire};

/// Free bytes below which the store may soon have no room.
const LITTLE: u64 = 1_000_000_000;

/// Whether the office may listen where it should.
pub(super) fn door(config: &Config) -> Finding {
    let listen = config.server.listen;
    match serve::refuse_open_door(config) {
        Err(failure) => Finding::missing("door", failure.words),
        Ok(()) if config.server.token.is_some() => {
            Finding::fine("door", format!("listens on {listen}, a token is demanded"))
        }
        Ok(()) => Finding::fine("door", format!("listens on {listen}, this machine only, no token")),
    }
}

/// Settings that the config takes and a start refuses.
pub(super) fn settings(config: &Config) -> Option<Finding> {
    // Schemas have a line of their own.
    schemas::read(config).ok()?;
    wire::server_config(config).err().map(|refused| Finding::missing("config", refused.words))
}

/// What the data directory is for a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Locked {
    /// A dlo process uses it now.
    Yes,
    No,
    /// Storage that several offices share has no lock.
    Shared,
}

/// `answers`: an office answers where this config, or `--server`, says.
pub(super) fn storage(config: &Config, answers: bool) -> (Vec<Finding>, Locked) {
    match &config.server.storage {
        Storage::Embedded(directory) => {
            let (finding, locked) = embedded(config, directory, answers);
            let mut findings = vec![finding];
            findings.extend(free_space(directory));
            (findings, locked)
        }
        Storage::Postgres(url) => {
            let shown = without_password(url.reveal());
            let finding = match opened(config) {
                Ok(()) => Finding::fine("store", format!("{shown} answers and can write")),
                Err(failure) => Finding::missing("store", format!("{shown}: {}", failure.words)),
            };
            (vec![finding], Locked::Shared)
        }
    }
}

fn embedded(config: &Config, directory: &Path, answers: bool) -> (Finding, Locked) {
    let shown = directory.display();
    if !directory.exists() {
        let parent = existing(directory);
        let finding = match can_write(&parent) {
            Ok(()) => Finding::fine("store", format!("{shown} is not there yet; `dlo serve` creates it")),
            Err(cause) => Finding::missing(
                "store",
                format!(
                    "{shown} cannot be created in {}: {cause}\nname another place by `server.data`",
                    parent.display()
                ),
            ),
        };
        return (finding, Locked::No);
    }
    if let Err(cause) = can_write(directory) {
        let words = format!("{shown} is not writable: {cause}\nmend its owner or its mode");
        return (Finding::missing("store", words), Locked::No);
    }
    match opened(config) {
        Ok(()) => (Finding::fine("store", format!("{shown} opens and can write")), Locked::No),
        // The store's only refusal of a directory is its lock, or a newer version.
        Err(failure) if failure.exit == Exit::Refused && failure.words.contains("in use by") => match answers
        {
            true => (Finding::fine("store", format!("{shown} is in use by this office")), Locked::Yes),
            false => {
                let words = format!("{}\nor name its office by --server", failure.words);
                (Finding::missing("store", words), Locked::Yes)
            }
        },
        Err(failure) => (Finding::missing("store", format!("{shown}: {}", failure.words)), Locked::No),
    }
}

/// Opens the store, asks it, closes it.
fn opened(config: &Config) -> Outcome {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let store = wire::store(&config.server.storage, &config.server.limits).await?;
        store.ping().await.map_err(|cause| Failure::failed(cause.to_string()))?;
        store.close().await.map_err(|cause| Failure::failed(cause.to_string()))
    })
}

/// The nearest directory above that exists.
fn existing(path: &Path) -> PathBuf {
    let above = path.ancestors().skip(1).find(|above| above.as_os_str().is_empty() || above.exists());
    above.filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_path_buf()
}

fn can_write(directory: &Path) -> std::io::Result<()> {
    let probe = directory.join(format!(".dlo-check-{}", std::process::id()));
    std::fs::File::create_new(&probe)?;
    std::fs::remove_file(&probe)
}

/// Asks `df`, which every Unix has; without an answer nothing is said.
fn free_space(directory: &Path) -> Option<Finding> {
    let place = if directory.exists() { directory.to_path_buf() } else { existing(directory) };
    let answer = Command::new("df").arg("-Pk").arg(&place).output().ok()?;
    let free = free_bytes(&String::from_utf8_lossy(&answer.stdout))?;
    let words = format!("{} free for {}", ByteSize(free).rounded(), directory.display());
    Some(if free < LITTLE {
        Finding::weak("disk", format!("{words}\nmake room, or move `server.data`"))
    } else {
        Finding::fine("disk", words)
    })
}

fn free_bytes(answer: &str) -> Option<u64> {
    let kilobytes: u64 = answer.lines().nth(1)?.split_whitespace().nth(3)?.parse().ok()?;
    Some(kilobytes.saturating_mul(1024))
}

/// `answers`: an office answers there. It is the one of this config if it keeps the data directory of this config.
pub(super) fn port(config: &Config, answers: bool, locked: Locked) -> Finding {
    let listen = config.server.listen;
    let cause = match TcpListener::bind(listen) {
        Ok(_) => return Finding::fine("port", format!("{listen} is free")),
        Err(cause) => cause,
    };
    let in_use = cause.kind() == std::io::ErrorKind::AddrInUse && answers;
    match (in_use, locked) {
        (true, Locked::Yes | Locked::Shared) => {
            Finding::fine("port", format!("{listen} is in use by this office"))
        }
        (true, Locked::No) => {
            let words = "is in use by another office, which does not use this `server.data`";
            Finding::missing("port", format!("{listen} {words}\nchoose another by `server.listen`"))
        }
        (false, _) => {
            Finding::missing("port", format!("{listen}: {cause}\nchoose another by `server.listen`"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_of_df_is_read() {
        let answer = "Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/sda1 100 40 60 40% /\n";
        assert_eq!(free_bytes(answer), Some(60 * 1024));
        assert_eq!(free_bytes("df: no such file"), None);
    }

    #[test]
    fn the_nearest_directory_that_exists_is_found() {
        assert_eq!(existing(Path::new("no-such-dir/below")), Path::new("."));
        assert_eq!(existing(Path::new("/no-such-dir/below")), Path::new("/"));
    }
}
