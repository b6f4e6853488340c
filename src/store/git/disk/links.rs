//! Second names of files, which not every file system has (exFAT, many shared folders), and no system gives to
//! everybody for a file of somebody else (`fs.protected_hardlinks` in `proc_sys_fs(5)`).

use std::fs;
use std::io;
use std::path::Path;

use rustix::io::Errno;

use crate::store::git::disk::failpoint::{Failpoint, reach};

/// Gives a file a second name, unless that is taken.
pub(crate) fn hard_link(file: &Path, name: &Path) -> io::Result<()> {
    reach(Failpoint::Link, name)?;
    fs::hard_link(file, name)
}

/// Whether a file can have no second name here, whatever the name (ERRORS in link(2)).
pub(crate) fn is_refused(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::PERM | Errno::NOTSUP | Errno::NOSYS | Errno::MLINK))
}
