//! Room on the disk: a directory for the run, refused where the letters would not fit, and what they took in the end.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Bytes on disk that a letter may take, and what a write-ahead log and a plan may take beside all letters.
const A_LETTER: u64 = 2_000;
const BESIDE: u64 = 500_000_000;

/// The directory of a run, gone with it.
pub(crate) struct Scratch {
    base: PathBuf,
    /// The data directory of the office.
    pub(crate) office: PathBuf,
}

impl Scratch {
    /// A fresh directory with room for so many letters; `DLO_BENCH_DIR` chooses the disk.
    pub(crate) fn new(letters: u64) -> Result<Self, String> {
        let base = std::env::var_os("DLO_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
        let needed = letters * A_LETTER + BESIDE;
        let free = free(&base).ok_or_else(|| {
            format!("cannot tell how much room {} has; is it there, and is `df` installed?", base.display())
        })?;
        let gigabytes = |bytes: u64| bytes as f64 / 1e9;
        if free < needed {
            return Err(format!(
                "{letters} letters need {:.1} GB in {}, which has {:.1} GB; \
                 set DLO_BENCH_DIR to a larger disk, or ask for fewer with --letters",
                gigabytes(needed),
                base.display(),
                gigabytes(free)
            ));
        }
        println!("room: {:.1} GB needed at most, {:.1} GB free", gigabytes(needed), gigabytes(free));
        let base = base.join(format!("dlo-growth-{}", std::process::id()));
        let made = std::fs::create_dir_all(&base);
        made.map_err(|error| format!("cannot make {}: {error}", base.display()))?;
        Ok(Self { office: base.join("office"), base })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.base);
    }
}

/// Bytes that are free where `path` is.
fn free(path: &Path) -> Option<u64> {
    let said = Command::new("df").args(["--output=avail", "--block-size=1"]).arg(path).output().ok()?;
    String::from_utf8(said.stdout).ok()?.lines().nth(1)?.trim().parse().ok()
}

/// Bytes of all files of a data directory.
pub(crate) fn bytes(data: &Path) -> f64 {
    let files = std::fs::read_dir(data).expect("the data directory");
    let sizes = files.map(|file| file.and_then(|file| file.metadata()).expect("a file").len());
    sizes.sum::<u64>() as f64
}
