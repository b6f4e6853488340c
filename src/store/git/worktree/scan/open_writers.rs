//! Tracks which files are being written.
//!
//! The stamp of a file does not show a writer that pauses between two pieces, and the watcher's notice that made us
//! look may belong to a save that was followed by another, which has just begun. So the kernel's own queue (inotify)
//! is read here, right before and right after the files are read: it has the notice of a change before anyone can read
//! the change, provided that the file was created or truncated for it, which is how files are rewritten.
//!
//! ```text
//! begin ──▶ read the files ──▶ end ──▶ a file is unfinished when it was
//!                                      written to since it was last closed, renamed or made,
//!                                      or was touched while it was read
//! ```
//!
//! Where the system has no such notices (`no_open_writers`), no file is known to be unfinished.

use std::collections::HashSet;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

use crate::domain::file_name::is_collection_file;
use crate::store::git::disk::stamp::{Inode, Stamp, inode_of, now_ns};
use crate::store::git::worktree::scan::folder::Folder;
use crate::store::git::worktree::scan::listing::ListedName;

/// How long after the last change to a file its writer may continue, if we did not see whether it was closed.
const UNSEEN_WAIT: Duration = Duration::from_millis(100);

const NOTICES_LEN: usize = 4096;

// `EXCL_UNLINK`: a file that was removed or replaced may still be written by a process that has it open, but does not
// concern us any more.
const WANTED: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::EXCL_UNLINK)
    .union(WatchFlags::ONLYDIR)
    .union(WatchFlags::DONT_FOLLOW);

const WRITTEN: ReadFlags = ReadFlags::CREATE.union(ReadFlags::MODIFY);

/// Tracks which files of the collections folder are being written.
#[derive(Debug)]
pub(crate) struct OpenWriters {
    watched: Option<Watched>,
    unseen_wait_ns: i128,
    /// Whether it was logged that nothing can be known.
    is_warned: bool,
}

impl Default for OpenWriters {
    fn default() -> Self {
        Self::with(UNSEEN_WAIT)
    }
}

impl OpenWriters {
    pub(crate) fn with(unseen_wait: Duration) -> Self {
        let unseen_wait_ns = i128::try_from(unseen_wait.as_nanos()).unwrap_or(i128::MAX);
        Self { watched: None, unseen_wait_ns, is_warned: false }
    }

    /// Takes in the notices so far; the files of this folder are about to be read.
    pub(crate) fn begin(&mut self, folder: &Folder) {
        if self.watched.as_mut().is_some_and(|watched| watched.begin() && watched.is_of(folder)) {
            return;
        }
        self.watched = None;
        match Watched::new(folder) {
            Ok(watched) => self.watched = watched,
            Err(error) if self.is_warned => tracing::debug!(%error, "still unknown who writes to a file"),
            Err(error) => {
                self.is_warned = true;
                tracing::warn!(%error, "it cannot be seen who is writing to the collection files");
            }
        }
    }

    /// Takes in the notices since [`begin`](Self::begin); the files have been read.
    pub(crate) fn end(&mut self) {
        if let Some(watched) = &mut self.watched {
            watched.take();
        }
    }

    /// Returns how long ago a file was last changed if its writer has not finished, or had not when it was read;
    /// `None` for a complete file. If we did not see whether it was closed, a file that equals the head is complete: a
    /// start finds thousands of those.
    pub(crate) fn unfinished(
        &self,
        folder: &Folder,
        name: &ListedName,
        is_edit: impl FnOnce() -> bool,
    ) -> Option<Duration> {
        let watched = self.watched.as_ref()?;
        let is_written = watched.is_written(name.os().as_bytes());
        let (now, began) = (now_ns(), watched.since_ns);
        if !is_written && (now > began + self.unseen_wait_ns || !is_edit()) {
            return None;
        }
        let newest = Stamp::of(&folder.stat(name.os()).ok()??).newest_ns();
        let may_be_open = (began - self.unseen_wait_ns..=began).contains(&newest);
        let alone_ns = u64::try_from(now - newest).unwrap_or(0);
        (is_written || may_be_open).then(|| Duration::from_nanos(alone_ns))
    }
}

/// A folder whose notices are read.
#[derive(Debug)]
struct Watched {
    notices: OwnedFd,
    folder: Inode,
    /// The time since when everything that happens is seen.
    since_ns: i128,
    /// Whether notices were lost, or no more arrive.
    is_over: bool,
    /// Files that were written to and not closed since.
    open: HashSet<Vec<u8>>,
    /// Files that were written to since the last `begin`.
    touched: HashSet<Vec<u8>>,
}

impl Watched {
    /// Watches an open folder; `None` if another one has taken its place.
    fn new(folder: &Folder) -> Result<Option<Self>, Errno> {
        let notices = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        inotify::add_watch(&notices, &folder.path, WANTED)?;
        let mut watched = Self {
            notices,
            folder: inode_of(&rustix::fs::stat(&folder.path)?),
            since_ns: now_ns(),
            is_over: false,
            open: HashSet::new(),
            touched: HashSet::new(),
        };
        watched.take();
        Ok(watched.is_of(folder).then_some(watched))
    }

    fn is_of(&self, folder: &Folder) -> bool {
        rustix::fs::fstat(&folder.fd).is_ok_and(|stat| inode_of(&stat) == self.folder)
    }

    /// Forgets which files were touched; returns whether the folder is still watched.
    fn begin(&mut self) -> bool {
        self.take();
        self.touched.clear();
        !self.is_over
    }

    fn take(&mut self) {
        let mut notices = [MaybeUninit::uninit(); NOTICES_LEN];
        let mut reader = Reader::new(self.notices.as_fd(), &mut notices);
        loop {
            let notice = match reader.next() {
                Ok(notice) => notice,
                Err(Errno::INTR) => continue,
                Err(errno) => {
                    self.is_over |= errno != Errno::AGAIN;
                    return;
                }
            };
            let what = notice.events();
            if what.contains(ReadFlags::QUEUE_OVERFLOW) {
                // Which files are open is as unknown now as it was at the beginning.
                self.open.clear();
                self.since_ns = now_ns();
                self.is_over = true;
            }
            self.is_over |= what.contains(ReadFlags::IGNORED);
            let Some(name) = notice.file_name().map(CStr::to_bytes) else { continue };
            if !what.intersects(WRITTEN) {
                self.open.remove(name);
            } else if is_collection_file(&String::from_utf8_lossy(name)) {
                self.touched.insert(name.to_vec());
                self.open.insert(name.to_vec());
            }
        }
    }

    /// Returns whether a file was written to and not closed, or was when it was read.
    fn is_written(&self, name: &[u8]) -> bool {
        self.open.contains(name) || self.touched.contains(name)
    }
}
