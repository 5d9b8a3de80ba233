//! Files and directories that only their owner can read, whatever the umask is: they hold bodies of messages.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::path::Path;

/// Options that create files with mode 0600.
pub(crate) fn options() -> OpenOptions {
    let mut options = File::options();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Creates a directory and its missing parents with mode 0700. Their names are on the disk when this returns.
pub(crate) fn create_directory(directory: &Path) -> io::Result<()> {
    let missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
    let created: Vec<&Path> = directory.ancestors().take_while(missing).collect();
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(directory)?;
    for parent in created.into_iter().filter_map(Path::parent) {
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        match File::open(parent) {
            Ok(parent) => parent.sync_all()?,
            // Its owner is somebody else, who may let us write there but not read.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Asserts that all files below the directory have mode 0600 and all directories below it 0700.
#[cfg(test)]
pub(crate) fn assert_private(directory: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let mut seen = 0;
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        for path in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
            let expected = if path.is_dir() { 0o700 } else { 0o600 };
            let mode = path.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, expected, "{}: {mode:o}", path.display());
            seen += 1;
            open.extend(Some(path).filter(|path| path.is_dir()));
        }
    }
    assert!(seen > 0, "nothing was written");
}
