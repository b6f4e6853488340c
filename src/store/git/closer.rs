//! Files that were replaced or removed, closed where nobody waits.
//!
//! The space of a file is given back when its last name is gone and the last who has it open closes it
//! (unlink(2)), which takes 0.04 ms and more where the disk is told of each block (`discard` in ext4(5)).
//! So whoever replaces or removes a file has it open meanwhile, and a thread closes it; with a work tree a
//! tenth more updates fit into a second.

use std::fs::File;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread;

/// How many handfuls of files may wait; another one is closed at once.
const WAITING_LEN_MAX: usize = 4;

/// How many files make a handful, for who has many.
pub(super) const FILES_LEN_MAX: usize = 32;

/// The way to the thread that closes files, which is there when it is needed first.
#[derive(Debug, Clone, Default)]
pub(super) struct Closer {
    thread: Arc<OnceLock<Option<SyncSender<Vec<File>>>>>,
}

impl Closer {
    /// Closes files some time soon.
    pub(super) fn close(&self, files: Vec<File>) {
        if files.is_empty() {
            return;
        }
        let unsent = match self.thread.get_or_init(start) {
            Some(thread) => thread.try_send(files).err(),
            None => Some(TrySendError::Disconnected(files)),
        };
        drop(unsent);
    }
}

/// Starts the thread, which ends when nobody can send it anything any more.
fn start() -> Option<SyncSender<Vec<File>>> {
    let (sender, files) = sync_channel(WAITING_LEN_MAX);
    let spawned =
        thread::Builder::new().name("closer".into()).spawn(move || files.into_iter().for_each(drop));
    spawned.ok().map(|_| sender)
}
