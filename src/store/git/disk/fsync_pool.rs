//! Threads that flush a file beside the one that waits for it.
//!
//! A group has three files to flush at once, and a thread that is there already costs a fiftieth of a group
//! less than one that has to be started.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use crate::store::git::disk::worker::Helper;

/// How many files can be flushed beside one another and what the caller does.
const THREADS_LEN: usize = 3;

/// The threads.
#[derive(Debug)]
pub(crate) struct Flushers {
    threads: [Helper<Job>; THREADS_LEN],
}

impl Default for Flushers {
    fn default() -> Self {
        Self { threads: [const { Helper::new("flush", 1, Job::carry_out) }; THREADS_LEN] }
    }
}

#[derive(Debug)]
struct Job {
    file: Arc<File>,
    done: SyncSender<io::Result<()>>,
}

/// A flush that is under way on another thread.
#[derive(Debug)]
pub(crate) struct Flush(Receiver<io::Result<()>>);

impl Flushers {
    /// Begins to flush the content of a file; `None` if there is no such thread, or none to be had.
    pub(crate) fn begin(&self, thread: usize, file: &Arc<File>) -> Option<Flush> {
        let thread = self.threads.get(thread)?.get()?;
        let (done, flush) = sync_channel(1);
        thread.send(Job { file: Arc::clone(file), done }).ok()?;
        Some(Flush(flush))
    }
}

impl Flush {
    /// Waits until the file is on disk.
    pub(crate) fn wait(self) -> io::Result<()> {
        self.0.recv().expect("BUG: a thread that flushes has ended before it was done")
    }
}

impl Job {
    fn carry_out(self) {
        let Self { file, done } = self;
        let flushed = file.sync_data();
        drop(file);
        // Whoever has found other trouble no longer waits.
        drop(done.send(flushed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_a_flush_is_told_what_the_disk_says() {
        let flushers = Flushers::default();
        let file = Arc::new(tempfile::tempfile().unwrap());
        for thread in 0..THREADS_LEN {
            flushers.begin(thread, &file).unwrap().wait().unwrap();
        }
        assert!(flushers.begin(THREADS_LEN, &file).is_none());
        // What can't be flushed says so (fdatasync(2), EINVAL).
        let null = Arc::new(File::open("/dev/null").unwrap());
        flushers.begin(0, &null).unwrap().wait().unwrap_err();
    }
}
