//! Hard links. Some file systems have none (exFAT, many network shares), and Linux refuses them for files of other
//! users (`fs.protected_hardlinks` in `proc_sys_fs(5)`).

use std::fs;
use std::io;
use std::path::Path;

use rustix::io::Errno;

use crate::store::git::disk::failpoint::{Failpoint, reach};

pub(crate) fn hard_link(file: &Path, name: &Path) -> io::Result<()> {
    reach(Failpoint::Link, name)?;
    fs::hard_link(file, name)
}

/// Reports whether no hard link to the file can be made, whatever the name (ERRORS in link(2)).
pub(crate) fn is_refused(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::PERM | Errno::NOTSUP | Errno::NOSYS | Errno::MLINK))
}
