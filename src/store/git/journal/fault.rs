//! Where a test stops a journal.

/// Where to stop a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Everything is on disk, nothing is visible.
    BeforeTheBranch,
    /// The branch has moved, the work tree has not.
    AfterTheBranch,
    /// The work tree seems to be behind; nobody holds the lock of the index for it yet.
    BeforeTheIndexIsLocked,
}
