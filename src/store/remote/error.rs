//! What can go wrong with a remote.

/// Why an exchange with a remote failed or was not started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoteError {
    /// The remote can't be reached; nothing has changed there. The text is for the operator.
    #[error("the remote cannot be reached: {0}")]
    Unreachable(String),
    /// The remote has objects that git's checks reject. The text is for the operator.
    #[error("the remote has what git refuses: {0}")]
    Unsound(String),
    /// The remote answers from a replica that lags behind what it has accepted; it will be asked again.
    #[error("the remote shows less than it has taken")]
    Lagging,
    /// The remote refuses the push, in its own words.
    #[error("the remote refuses it: {0}")]
    Refused(String),
    /// The remote received some or all of the commits and has not reported the outcome.
    #[error("the remote has not said whether it took the commits")]
    OutcomeUnknown,
    /// Nothing was sent, because the outcome of an earlier push is still unknown.
    #[error("what became of an earlier write is not known yet")]
    Pending,
    /// Other instances won the race on every attempt.
    #[error("the branch keeps moving, try again")]
    LostRaces,
    /// An operator must first decide what becomes of the branch.
    #[error("{0}")]
    Stopped(String),
    /// Too many commits are waiting to be pushed.
    #[error("{waiting} commits wait to be pushed to the remote, and --ahead-commits-max is {ahead_max}")]
    FarAhead {
        /// The number of waiting commits.
        waiting: usize,
        /// The maximum number.
        ahead_max: usize,
    },
}
