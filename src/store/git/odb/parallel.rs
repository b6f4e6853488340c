//! Reading many things on all cores.

use std::num::NonZero;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::store::StoreError;
use crate::store::git::odb::objects::Objects;

/// No more threads than this: the disk bounds reading soon enough.
const THREADS_MAX: usize = 8;

/// How much a thread takes at a time, and what is too little to share at all.
const SHARE_LEN: usize = 256;

/// Work on a part of what was asked for, by index.
pub(crate) type Work<'a> = dyn Fn(&mut Objects, Range<usize>) -> Result<(), StoreError> + Sync + 'a;

/// Does work by index, on all cores if it is enough to share.
pub(crate) fn share(objects: &mut Objects, len: usize, work: &Work<'_>) -> Result<(), StoreError> {
    // Counting the cores takes a look at files of the system: only where there is much to do.
    let cores = || thread::available_parallelism().map_or(1, NonZero::get).min(THREADS_MAX);
    let threads = if len > SHARE_LEN { cores().min(len.div_ceil(SHARE_LEN)) } else { 1 };
    if threads == 1 {
        return work(objects, 0..len);
    }
    // Whoever is done first takes the next share.
    let next = AtomicUsize::new(0);
    let worker = |objects: &mut Objects| loop {
        let from = next.fetch_add(SHARE_LEN, Ordering::Relaxed);
        if from >= len {
            return Ok(());
        }
        work(objects, from..(from + SHARE_LEN).min(len))?;
    };
    let database = objects.database().clone();
    let done = thread::scope(|scope| {
        let other = || worker(&mut Objects::new(&database));
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(other)).collect();
        let own = worker(objects);
        let others = others.into_iter().map(|other| other.join().expect("BUG: a reader panicked"));
        others.fold(own, Result::and)
    });
    // What was kept for so much is of no use for what comes next.
    objects.close();
    done
}
