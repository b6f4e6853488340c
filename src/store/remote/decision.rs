//! What an operator decides about a remote that was rewritten.

/// What is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The remote is right: the branch here follows it, and what it has lost is let go.
    Accept,
    /// What the remote has lost comes back.
    Restore {
        /// In place of what the remote has now, which is kept here; otherwise both are merged.
        force: bool,
    },
}
