//! Failpoints, as the crate `fail` has them: where a test comes in between two steps, or has one fail.
//!
//! That crate's failpoints are those of the whole process, and tests run beside each other; ours belong to a
//! folder, so that each test has its own. Nothing of them is left in a program that is no test.

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
    /// A file gets a second name.
    Link,
    /// A file of this name is opened in the work tree.
    Open(&'a OsStr),
    /// The head is asked for.
    ReadHead,
    /// The branch is moved: everything is on disk, nothing is visible.
    MoveBranch,
    /// The work tree is brought up to the branch, which has moved.
    UpdateWorkTree,
    /// The index is locked for a work tree that seems to be behind.
    LockIndex,
    /// Somebody else holds the index, and it is waited for.
    AwaitIndex,
}

/// Fails when a test has this step fail at this path.
#[cfg(not(test))]
pub(crate) const fn reach(_: Failpoint<'_>, _: &Path) -> io::Result<()> {
    Ok(())
}

/// Fails between two steps of a write when a test has this step fail at this path.
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

    /// Every hook.
    static HOOKS: Mutex<Vec<Hooked>> = Mutex::new(Vec::new());

    /// The folder of a hook, as it was named and as it is, and what is called.
    type Hooked = ([PathBuf; 2], Arc<Mutex<Act>>);

    thread_local! {
        /// Whether this thread is in a hook, whose own steps are nobody's business.
        static IS_CALLED: Cell<bool> = const { Cell::new(false) };
    }

    fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Called before every step below a folder, on whichever thread, as long as it lives.
    #[must_use]
    pub(crate) struct Hook(Arc<Mutex<Act>>);

    impl Hook {
        /// A hook for what is below this folder; an error of its own is that of the step.
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

    /// Calls the hooks of a path, newest first.
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
