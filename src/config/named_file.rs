//! Files that an operator names, and that may change while the service runs.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;

/// Opens such a file. A pipe is refused: whoever opens one waits for a writer, and with it a start, or the signal
/// to read the file again and every signal after that.
///
/// # Errors
///
/// Fails where it can't be read, and where it is no regular file.
pub(crate) fn open_named(path: &Path) -> io::Result<(File, Metadata)> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    Ok((file, metadata))
}

/// What such a file holds.
///
/// # Errors
///
/// As [`open_named`].
pub(crate) fn read_named(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_named(path)?.0.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// What changes when a file does. Nobody can set the time of its last change back, as `cp -p` does with that of its
/// contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Which file of which file system it is.
    pub(crate) inode: (u64, u64),
    /// When it was changed last: the seconds since 1970, and the nanoseconds after them.
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
