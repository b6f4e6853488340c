//! Reads many objects on all cores.

use std::num::NonZero;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::store::StoreError;
use crate::store::git::odb::objects::Objects;

/// The maximum number of threads: beyond that the disk is the bottleneck.
const THREADS_MAX: usize = 8;

/// How many items a thread takes at a time, and up to how many are not shared at all.
const SHARE_LEN: usize = 256;

/// Work on a range of the requested items.
pub(crate) type Work<'a> = dyn Fn(&mut Objects, Range<usize>) -> Result<(), StoreError> + Sync + 'a;

/// Does work on `len` items, on all cores if there are enough to share.
pub(crate) fn run_parallel(objects: &mut Objects, len: usize, work: &Work<'_>) -> Result<(), StoreError> {
    // Counting the cores reads files of the system, so it is done only when there is much to do.
    let cores = || thread::available_parallelism().map_or(1, NonZero::get).min(THREADS_MAX);
    let threads = if len > SHARE_LEN { cores().min(len.div_ceil(SHARE_LEN)) } else { 1 };
    if threads == 1 {
        return work(objects, 0..len);
    }
    // Each worker takes the next share when it has finished one.
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
    // The cache for so many items is of no use for what follows.
    objects.clear_caches();
    done
}
