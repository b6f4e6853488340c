//! A thread that does one thing beside the others.

use std::sync::OnceLock;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

/// The way to a thread that carries out what it is sent, one after the other. It is started when it is needed
/// first, and ends when nobody can send it anything any more.
#[derive(Debug)]
pub(super) struct Helper<T> {
    thread: OnceLock<Option<SyncSender<T>>>,
}

impl<T> Default for Helper<T> {
    fn default() -> Self {
        Self { thread: OnceLock::new() }
    }
}

impl<T: Send + 'static> Helper<T> {
    /// The way; `None` if there is no thread to be had. Of what is sent, so many may wait.
    pub(super) fn get(&self, name: &str, waiting_len_max: usize, carry_out: fn(T)) -> Option<&SyncSender<T>> {
        let start = || {
            let (sender, jobs) = sync_channel::<T>(waiting_len_max);
            let spawned =
                thread::Builder::new().name(name.into()).spawn(move || jobs.into_iter().for_each(carry_out));
            spawned.ok().map(|_| sender)
        };
        self.thread.get_or_init(start).as_ref()
    }
}
