//! What a test is told of every flush.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// What a hook is called with when a whole file system is about to be flushed.
pub(crate) const WHOLE_FILE_SYSTEM: &str = "/";

/// What is called with the path of whatever is about to be flushed.
type Hook = Box<dyn FnMut(&Path) -> io::Result<()> + Send>;

/// Calls a test before every flush, from whichever thread makes it.
#[derive(Clone, Default)]
pub(crate) struct FlushHook(Arc<Mutex<Option<Hook>>>);

impl std::fmt::Debug for FlushHook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FlushHook")
    }
}

impl FlushHook {
    /// Calls `hook` from now on.
    pub(crate) fn set(&self, hook: impl FnMut(&Path) -> io::Result<()> + Send + 'static) {
        self.put(Some(Box::new(hook)));
    }

    /// Calls nobody any more; what is returned can be [`put`](Self::put) back.
    pub(crate) fn take(&self) -> Option<Hook> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Calls this from now on.
    pub(crate) fn put(&self, hook: Option<Hook>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = hook;
    }

    /// Calls nobody any more.
    pub(crate) fn clear(&self) {
        drop(self.take());
    }

    /// Calls the hook; its error is the flush's.
    pub(crate) fn call(&self, path: &Path) -> io::Result<()> {
        let mut hook = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        hook.as_mut().map_or(Ok(()), |hook| hook(path))
    }
}
