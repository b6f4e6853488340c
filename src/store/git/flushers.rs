//! Threads that flush a file beside the one that waits for it.
//!
//! A group has three files to flush at once, and a thread that is there already costs a fiftieth of a group
//! less than one that has to be started.

use std::fs::File;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread;

/// How many files can be flushed beside one another and what the caller does.
const THREADS_LEN: usize = 3;

/// The ways to the threads, which are started when they are needed first.
#[derive(Debug, Default)]
pub(super) struct Flushers {
    threads: [OnceLock<Option<SyncSender<Job>>>; THREADS_LEN],
}

#[derive(Debug)]
struct Job {
    file: Arc<File>,
    done: SyncSender<io::Result<()>>,
}

/// A flush that is under way on another thread.
#[derive(Debug)]
pub(super) struct Flush(Receiver<io::Result<()>>);

impl Flushers {
    /// Begins to flush the content of a file; `None` if there is no such thread, or none to be had.
    pub(super) fn begin(&self, thread: usize, file: &Arc<File>) -> Option<Flush> {
        let thread = self.threads.get(thread)?.get_or_init(start).as_ref()?;
        let (done, flush) = sync_channel(1);
        thread.send(Job { file: Arc::clone(file), done }).ok()?;
        Some(Flush(flush))
    }
}

impl Flush {
    /// Waits until the file is on disk.
    pub(super) fn wait(self) -> io::Result<()> {
        self.0.recv().expect("BUG: a thread that flushes has ended before it was done")
    }
}

/// Starts a thread, which ends when nobody can send it anything any more.
fn start() -> Option<SyncSender<Job>> {
    let (sender, jobs) = sync_channel::<Job>(1);
    let spawned = thread::Builder::new().name("flush".into()).spawn(move || {
        for Job { file, done } in jobs {
            let flushed = file.sync_data();
            drop(file);
            // Whoever has found other trouble no longer waits.
            drop(done.send(flushed));
        }
    });
    spawned.ok().map(|_| sender)
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
