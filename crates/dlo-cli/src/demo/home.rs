//! What the demo keeps in its data directory: the store, a log, and a note of the day that was told.
//!
//! `--fresh` removes these files by name and nothing else: a directory that holds other things keeps them.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use super::shop::{INCARNATION, Shop};
use crate::exit::{Exit, Failure, Outcome};

/// Says which day is over, and so need not be told again.
const NOTE: &str = "demo-story.txt";
const LOG: &str = "demo.log";
/// The files of the embedded store that hold letters. Its lock stays: another process may hold it.
const STORE: [&str; 3] = ["office.db", "office.db-wal", "office.db-shm"];

/// The data directory.
#[derive(Debug)]
pub(super) struct Home(PathBuf);

impl Home {
    pub(super) fn at(directory: &Path, fresh: bool) -> Outcome<Self> {
        std::fs::create_dir_all(directory)
            .map_err(|cause| Failure::failed(format!("cannot make {}: {cause}", directory.display())))?;
        let home = Self(directory.to_path_buf());
        if fresh {
            home.forget()?;
        }
        Ok(home)
    }

    pub(super) fn directory(&self) -> &Path {
        &self.0
    }

    fn forget(&self) -> Outcome {
        self.refuse_if_in_use()?;
        for name in STORE.iter().chain([&NOTE, &LOG]) {
            match std::fs::remove_file(self.0.join(name)) {
                Ok(()) => {}
                Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {}
                Err(cause) => {
                    let path = self.0.join(name);
                    return Err(Failure::failed(format!("cannot remove {}: {cause}", path.display())));
                }
            }
        }
        Ok(())
    }

    /// Files that a running office has open must not be taken from under it.
    fn refuse_if_in_use(&self) -> Outcome {
        let Ok(lock) = File::open(self.0.join("office.lock")) else { return Ok(()) };
        lock.try_lock_shared().map_err(|_| {
            let directory = self.0.display();
            Failure::new(Exit::Refused, format!("{directory} is in use by another process; stop it, or give the demo another directory: --data DIR"))
        })
    }

    /// Log lines of the runtime and the office, as JSON, where they do not disturb the picture.
    pub(super) fn begin_log(&self) -> Outcome {
        let log = self.log()?;
        let begun = tracing_subscriber::fmt()
            .json()
            .flatten_event(true)
            .with_max_level(tracing::Level::INFO)
            .with_writer(std::sync::Mutex::new(log))
            .try_init();
        begun.map_err(|cause| Failure::failed(format!("logging could not begin: {cause}")))
    }

    fn log(&self) -> Outcome<File> {
        let path = self.0.join(LOG);
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(|cause| Failure::failed(format!("cannot write {}: {cause}", path.display())))
    }

    /// Whether this very day was told to its end before.
    pub(super) fn is_told(&self, shop: Shop) -> bool {
        std::fs::read_to_string(self.0.join(NOTE)).is_ok_and(|note| note == day(shop))
    }

    pub(super) fn note_told(&self, shop: Shop) -> Outcome {
        std::fs::write(self.0.join(NOTE), day(shop))?;
        Ok(())
    }
}

fn day(shop: Shop) -> String {
    format!("{INCARNATION}: {} orders, told to the end\n", shop.orders)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginning_anew_removes_what_is_ours_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["office.db", "demo-story.txt", "thesis.txt"] {
            std::fs::write(directory.path().join(name), "x").unwrap();
        }
        Home::at(directory.path(), true).unwrap();
        let left: Vec<_> =
            std::fs::read_dir(directory.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["thesis.txt"]);
    }

    #[test]
    fn another_day_is_told_even_if_one_was() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::at(directory.path(), false).unwrap();
        home.note_told(Shop { orders: 10 }).unwrap();
        assert!(home.is_told(Shop { orders: 10 }) && !home.is_told(Shop { orders: 20 }));
    }
}
