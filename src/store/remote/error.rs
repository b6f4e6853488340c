//! What can go wrong with a remote.

/// Why a remote could not do what it was asked, or why it was not asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoteError {
    /// It can't be asked; nothing has been changed there. The text is for the operator.
    #[error("the remote cannot be reached: {0}")]
    Unreachable(String),
    /// It has what git does not let in. The text is for the operator.
    #[error("the remote has what git refuses: {0}")]
    Unsound(String),
    /// It answers from a copy that lags behind what it has taken; it is asked again.
    #[error("the remote shows less than it has taken")]
    Lagging,
    /// It has been asked and does not want it, in its own words.
    #[error("the remote refuses it: {0}")]
    Refused(String),
    /// It has got the commits, or part of them, and has not said what became of them.
    #[error("the remote has not said whether it took the commits")]
    Unknown,
    /// It has not been asked: what became of an earlier push is not known yet.
    #[error("what became of an earlier write is not known yet")]
    Pending,
    /// Others were faster each time that something was decided.
    #[error("the branch keeps moving, try again")]
    KeepsMoving,
    /// The operator has to decide first what is to become of the branch.
    #[error("{0}")]
    Stopped(String),
    /// Too many commits wait to be pushed for more to be taken.
    #[error("{waiting} commits wait to be pushed to the remote, and --ahead-commits-max is {ahead_max}")]
    FarAhead {
        /// How many.
        waiting: usize,
        /// How many may.
        ahead_max: usize,
    },
}
