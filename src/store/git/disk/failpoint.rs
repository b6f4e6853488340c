//! Failpoints, in the manner of the crate `fail`: places where a test can intervene between two steps or make one
//! fail.
//!
//! That crate's failpoints belong to the whole process, but tests run in parallel. Ours belong to a folder, so that
//! each test has its own. They are compiled out except in tests.

use std::ffi::OsStr;
#[cfg(not(test))]
use std::io;
use std::path::Path;

use crate::store::{AtPath as _, StoreError};

/// A step that is about to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failpoint<'a> {
    Flush,
    FlushFileSystem,
    Link,
    /// A file of this name in the work tree is opened.
    Open(&'a OsStr),
    ReadHead,
    /// The branch is moved: everything is on disk, and nothing is visible.
    MoveBranch,
    /// The work tree is updated to the branch, which has moved.
    UpdateWorkTree,
    /// The index is locked for a work tree that seems to be behind the branch.
    LockIndex,
    /// Another process holds the index, and the journal waits for it.
    AwaitIndex,
}

/// Fails if a test makes this step fail at this path.
#[cfg(not(test))]
pub(crate) const fn reach(_: Failpoint<'_>, _: &Path) -> io::Result<()> {
    Ok(())
}

/// Fails between two steps of a write if a test makes this step fail at this path.
pub(crate) fn stop_at(step: Failpoint<'_>, path: &Path) -> Result<(), StoreError> {
    reach(step, path).at("go on in", path)
}

#[cfg(test)]
pub(crate) use hooks::{Hook, reach};

#[cfg(test)]
mod hooks {
    use std::cell::Cell;
    use std::fs;
    use std::io;
    use std::path::{Path, PathBuf};
    use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

    use super::Failpoint;

    type Act = Box<dyn FnMut(Failpoint<'_>, &Path) -> io::Result<()> + Send>;

    /// All hooks that are alive.
    static HOOKS: Mutex<Vec<Hooked>> = Mutex::new(Vec::new());

    /// The folder of a hook (as given and canonical) and its callback.
    type Hooked = ([PathBuf; 2], Arc<Mutex<Act>>);

    thread_local! {
        /// Whether this thread is inside a hook, whose own steps are ignored.
        static IS_CALLED: Cell<bool> = const { Cell::new(false) };
    }

    fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A callback before every step below a folder, on any thread, until it is dropped.
    #[must_use]
    pub(crate) struct Hook(Arc<Mutex<Act>>);

    impl Hook {
        /// Creates a hook for everything below this folder; an error that it returns becomes the step's error.
        pub(crate) fn new(
            folder: &Path,
            act: impl FnMut(Failpoint<'_>, &Path) -> io::Result<()> + Send + 'static,
        ) -> Self {
            let folders = [folder.to_owned(), fs::canonicalize(folder).unwrap()];
            let act: Act = Box::new(act);
            let act = Arc::new(Mutex::new(act));
            lock(&HOOKS).push((folders, Arc::clone(&act)));
            Self(act)
        }
    }

    impl Drop for Hook {
        fn drop(&mut self) {
            lock(&HOOKS).retain(|(_, act)| !Arc::ptr_eq(act, &self.0));
        }
    }

    /// Calls the hooks that cover a path, newest first.
    pub(crate) fn reach(step: Failpoint<'_>, path: &Path) -> io::Result<()> {
        if IS_CALLED.get() {
            return Ok(());
        }
        let hooks: Vec<_> = lock(&HOOKS)
            .iter()
            .rev()
            .filter(|(folders, _)| folders.iter().any(|folder| path.starts_with(folder)))
            .map(|(_, act)| Arc::clone(act))
            .collect();
        hooks.iter().try_for_each(|act| {
            IS_CALLED.set(true);
            let done = lock(act)(step, path);
            IS_CALLED.set(false);
            done
        })
    }
}
