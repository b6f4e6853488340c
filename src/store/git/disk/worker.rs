//! A thread that does one thing beside the others.

use std::sync::OnceLock;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

/// The way to a thread that carries out what it is sent, one after the other. It is started when it is needed
/// first, and ends when nobody can send it anything any more.
#[derive(Debug)]
pub(crate) struct Helper<T> {
    name: &'static str,
    /// How many jobs may wait beside the one under way.
    waiting_len_max: usize,
    carry_out: fn(T),
    thread: OnceLock<Option<SyncSender<T>>>,
}

impl<T: Send + 'static> Helper<T> {
    /// A thread of this name that has not been needed yet.
    pub(crate) const fn new(name: &'static str, waiting_len_max: usize, carry_out: fn(T)) -> Self {
        Self { name, waiting_len_max, carry_out, thread: OnceLock::new() }
    }

    /// The way; `None` if there is no thread to be had.
    pub(crate) fn get(&self) -> Option<&SyncSender<T>> {
        self.thread.get_or_init(|| self.start()).as_ref()
    }

    fn start(&self) -> Option<SyncSender<T>> {
        let (sender, jobs) = sync_channel::<T>(self.waiting_len_max);
        let carry_out = self.carry_out;
        let run = move || jobs.into_iter().for_each(carry_out);
        thread::Builder::new().name(self.name.into()).spawn(run).ok().map(|_| sender)
    }
}
