//! Files that an operator names in a flag, and that may change while the service runs.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;

/// Opens such a file. A pipe is refused: opening one waits for a writer, which would block the start, or the signal to
/// read the file again and every signal after that.
///
/// # Errors
///
/// Fails if it can't be read, or is no regular file.
pub(crate) fn open_named(path: &Path) -> io::Result<(File, Metadata)> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    Ok((file, metadata))
}

/// Reads the content of such a file.
///
/// # Errors
///
/// As [`open_named`].
pub(crate) fn read_named(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_named(path)?.0.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Metadata that changes whenever a file does. The change time (`ctime`) can't be set back, as `cp -p` does with the
/// modification time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// The device and inode numbers.
    pub(crate) inode: (u64, u64),
    /// The change time: seconds since 1970, and the nanoseconds after them.
    pub(crate) changed: (i64, i64),
    bytes: u64,
}

impl Stamp {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self {
            inode: (metadata.dev(), metadata.ino()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            bytes: metadata.len(),
        }
    }
}
