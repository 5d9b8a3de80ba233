//! A file that is there whole or not at all.
//!
//! It is written beside its place under another name and moved there when it is complete and on disk, so that half an
//! export never looks like a whole one. A file that exists is not overwritten. Exports and backups hold payloads, so only
//! their owner can read them, whatever the umask is.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::exit::{Exit, Failure, Outcome};

#[derive(Debug)]
pub(crate) struct WholeFile {
    file: File,
    path: PathBuf,
    part: PathBuf,
}

impl WholeFile {
    /// Begins the file; refused if one of that name is there.
    pub(crate) fn create(path: &Path) -> Outcome<Self> {
        if path.exists() {
            let words = format!("{} exists; name a file that does not", path.display());
            return Err(Failure::new(Exit::Refused, words));
        }
        let part = path.with_added_extension("part");
        let file = create_private(&part)
            .map_err(|cause| Failure::failed(format!("{} cannot be written: {cause}", part.display())))?;
        Ok(Self { file, path: path.to_path_buf(), part })
    }

    /// Moves the file to its place.
    pub(crate) fn finish(self) -> Outcome {
        let moved = self.file.sync_all().and_then(|()| std::fs::rename(&self.part, &self.path));
        moved.map_err(|cause| Failure::failed(format!("{} cannot be written: {cause}", self.path.display())))
    }
}

/// Creates the file for its owner alone. What an earlier run left there goes first: a symbolic link is removed, not followed.
fn create_private(path: &Path) -> std::io::Result<File> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    File::options().write(true).create_new(true).mode(0o600).open(path)
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

impl Drop for WholeFile {
    /// What was not finished goes; after `finish` there is nothing under this name.
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.part);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_is_there_when_it_is_finished_and_not_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("letters.ndjson");
        let mut begun = WholeFile::create(&path).unwrap();
        begun.write_all(b"half").unwrap();
        assert!(!path.exists());
        drop(begun);
        assert_eq!(dir.path().read_dir().unwrap().count(), 0);
        let mut again = WholeFile::create(&path).unwrap();
        again.write_all(b"whole").unwrap();
        again.finish().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"whole");
        assert_eq!(WholeFile::create(&path).unwrap_err().exit, Exit::Refused);
        assert_eq!(dir.path().read_dir().unwrap().count(), 1);
    }

    #[test]
    fn only_the_owner_can_read_it_and_no_link_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, elsewhere) = (dir.path().join("backup"), dir.path().join("elsewhere"));
        std::fs::write(&elsewhere, "not ours").unwrap();
        std::os::unix::fs::symlink(&elsewhere, dir.path().join("backup.part")).unwrap();
        let mut file = WholeFile::create(&path).unwrap();
        file.write_all(b"payloads").unwrap();
        file.finish().unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read(&elsewhere).unwrap(), b"not ours");
    }
}
