//! The journal against the real `git`.

mod archive;
mod commits;
mod hands;
mod line_ends;
mod places;
mod signing;
mod support;
mod upkeep;

/// Where to stop a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Everything is on disk, nothing is visible.
    BeforeTheBranch,
    /// The branch has moved, the work tree has not.
    AfterTheBranch,
}
