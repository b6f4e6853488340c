//! A file's stamp: the metadata from `stat(2)` that changes when the content does.
//!
//! A stamp proves nothing while the file could still change within the same tick of the file system's clock (the
//! "racy git" problem, `Documentation/technical/racy-git.txt`); [`is_settled`] reports when that is over.

use std::time::{SystemTime, UNIX_EPOCH};

use chrono::{DateTime, Utc};
use rustix::fs::{FileType, Stat};

/// Twice the longest tick of a clock with subsecond resolution (100 ticks a second).
const FINE_TICK_NS: i128 = 20_000_000;
/// The tick of FAT, the coarsest of all file systems.
const COARSE_TICK_NS: i128 = 2_000_000_000;

/// Identifies a file: its device and inode numbers.
pub(crate) type Inode = (u64, u64);

#[expect(clippy::unnecessary_cast, reason = "the types differ between systems")]
pub(crate) const fn inode_of(stat: &Stat) -> Inode {
    (stat.st_dev as u64, stat.st_ino as u64)
}

pub(crate) const fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode as _)
}

/// The metadata that shows whether a file may have changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    file: Inode,
    len: i64,
    mode: u32,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    #[expect(clippy::unnecessary_cast, reason = "the types differ between systems")]
    pub(crate) const fn of(stat: &Stat) -> Self {
        Self {
            file: inode_of(stat),
            len: stat.st_size as i64,
            mode: stat.st_mode as u32,
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            changed: (stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        }
    }

    /// The later of the two times, in nanoseconds since 1970.
    pub(crate) fn newest_ns(&self) -> i128 {
        let ns = |(seconds, ns): (i64, i64)| i128::from(seconds) * 1_000_000_000 + i128::from(ns);
        ns(self.modified).max(ns(self.changed))
    }
}

/// The stat fields of an index entry (gitformat-index(5)): ctime, mtime, device, inode, mode, user, group, length;
/// each number is truncated to four bytes, as git does.
pub(crate) fn index_stat(stat: &Stat) -> [u32; 10] {
    [
        stat.st_ctime as u32,
        stat.st_ctime_nsec as u32,
        stat.st_mtime as u32,
        stat.st_mtime_nsec as u32,
        stat.st_dev as u32,
        stat.st_ino as u32,
        0, // The mode is that of the tree; the index editor fills it in.
        stat.st_uid,
        stat.st_gid,
        stat.st_size as u32,
    ]
}

/// Reports whether a change of the file after `now_ns` would change its stamp.
pub(crate) fn is_settled(stamp: &Stamp, now_ns: i128) -> bool {
    let newest = stamp.newest_ns();
    // Times in whole milliseconds may come from a clock no finer than FAT's.
    let tick = if newest % 1_000_000 == 0 { COARSE_TICK_NS } else { FINE_TICK_NS };
    newest + tick < now_ns
}

#[expect(clippy::disallowed_methods, reason = "compared with times that the file system's clock gave")]
pub(crate) fn now_ns() -> i128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i128::try_from(since.as_nanos()).unwrap_or(i128::MAX)
}

pub(crate) fn now() -> DateTime<Utc> {
    DateTime::from_timestamp_nanos(i64::try_from(now_ns()).unwrap_or(i64::MAX))
}
