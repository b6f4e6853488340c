//! An operator's decision about a remote whose history was rewritten.

/// How to resolve a rewritten remote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Follow the remote, and let go of the commits that it has lost.
    Accept,
    /// Push the commits that the remote has lost again.
    Restore {
        /// Replace the remote's head, which is kept here; otherwise the two are merged.
        force: bool,
    },
}
