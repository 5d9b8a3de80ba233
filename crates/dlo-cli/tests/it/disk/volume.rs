//! A real small file system for one office, in a mount namespace of its own: it is gone when the processes in it are gone.
//!
//! A process holds the namespace. The office enters it, and the test reads and fills the file system below
//! `/proc/<holder>/root`. Without root the namespace has a user namespace around it.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::office::{Office, dlo};

#[derive(Debug)]
pub(super) struct Volume {
    holder: Child,
    place: TempDir,
    fillers: u32,
}

impl Volume {
    /// A file system in memory.
    pub(super) fn tmpfs(megabytes: u32) -> Self {
        Self::mounted(&format!("mount -t tmpfs -o size={megabytes}m none \"$1/volume\""))
    }

    /// The file system that most servers have, in a file behind a loop device.
    pub(super) fn ext4(megabytes: u32) -> Self {
        Self::mounted(&format!(
            "truncate -s {megabytes}M \"$1/image\" && /sbin/mkfs.ext4 -q -F -m 0 \"$1/image\" && mount -o loop \"$1/image\" \"$1/volume\""
        ))
    }

    fn mounted(mount: &str) -> Self {
        let place = TempDir::new().unwrap();
        std::fs::create_dir(place.path().join("volume")).unwrap();
        let script = format!("{mount} && echo mounted && exec cat");
        let mut unshare = Command::new("unshare");
        unshare.args(if is_root() { &["-m"][..] } else { &["-U", "-r", "-m"] });
        unshare.args(["sh", "-c", &script, "sh"]).arg(place.path());
        let mut holder = unshare.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(holder.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said.trim(), "mounted", "a file system cannot be mounted");
        Self { holder, place, fillers: 0 }
    }

    /// The data directory as the office sees it.
    pub(super) fn data(&self) -> PathBuf {
        self.place.path().join("volume/data")
    }

    /// A directory outside of the file system that fills.
    pub(super) fn outside(&self) -> &Path {
        self.place.path()
    }

    /// The root of the file system as this process sees it.
    fn root(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{}/volume", self.holder.id(), self.place.path().display()))
    }

    /// Writes until not one byte more fits; returns how many bytes that took.
    pub(super) fn fill(&mut self) -> u64 {
        self.fillers += 1;
        let mut file = File::create(self.root().join(format!("filler-{}", self.fillers))).unwrap();
        let zeros = vec![0; 1 << 20];
        let mut written = 0;
        for piece in [1 << 20, 4096, 1] {
            loop {
                match file.write(&zeros[..piece]) {
                    Ok(count) => written += count as u64,
                    Err(full) if full.kind() == ErrorKind::StorageFull => break,
                    Err(other) => panic!("{other}"),
                }
            }
        }
        written
    }

    /// Removes what filled it.
    pub(super) fn free(&mut self) {
        for number in 1..=std::mem::take(&mut self.fillers) {
            std::fs::remove_file(self.root().join(format!("filler-{number}"))).unwrap();
        }
    }

    /// `dlo` within the namespace.
    pub(super) fn dlo(&self) -> Command {
        let outside = dlo();
        let mut command = Command::new("nsenter");
        command.args(if is_root() { &["-m"][..] } else { &["-U", "--preserve-credentials", "-m"] });
        command.args(["-t", &self.holder.id().to_string(), "--"]).arg(outside.get_program());
        for (name, value) in outside.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.stdin(Stdio::null());
        command
    }

    /// An office on this file system; ready when this returns.
    pub(super) fn office(&self, config: Option<&Path>) -> Office {
        let mut command = self.dlo();
        if let Some(config) = config {
            command.arg("--config").arg(config);
        }
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(self.data());
        Office::spawn(command, &self.data())
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}
