//! Files that were replaced or removed, closed where nobody waits.
//!
//! The space of a file is given back when its last name is gone and the last who has it open closes it
//! (unlink(2)), which takes 0.04 ms and more where the disk is told of each block (`discard` in ext4(5)).
//! So whoever replaces or removes a file has it open meanwhile, and a thread closes it; with a work tree a
//! tenth more updates fit into a second.

use std::fs::File;
use std::sync::Arc;

use crate::store::git::disk::worker::Helper;

/// How many handfuls of files may wait; another one is closed at once.
const WAITING_LEN_MAX: usize = 4;

/// How many files make a handful, for who has many.
pub(crate) const FILES_LEN_MAX: usize = 32;

/// The thread that closes files.
#[derive(Debug, Clone)]
pub(crate) struct Closer {
    thread: Arc<Helper<Vec<File>>>,
}

impl Default for Closer {
    fn default() -> Self {
        Self { thread: Arc::new(Helper::new("closer", WAITING_LEN_MAX, drop)) }
    }
}

impl Closer {
    /// Closes files some time soon.
    pub(crate) fn close(&self, files: Vec<File>) {
        if files.is_empty() {
            return;
        }
        if let Some(thread) = self.thread.get() {
            // What can't wait is closed here, with the error.
            drop(thread.try_send(files));
        }
    }
}
