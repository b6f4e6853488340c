//! How often each limit was reached: plain counters, one set a service.
//!
//! Whoever refuses something for a limit, or ends it, counts that here, and nowhere else.

use std::sync::Arc;

use crate::telemetry::metrics::Counter;

/// Declares the limits that somebody can reach, with their names: those of the flags where there is one.
macro_rules! limits {
    ($($(#[$doc:meta])* $limit:ident => $name:literal,)+) => {
        /// A limit that somebody can reach.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Limit {
            $($(#[$doc])* $limit,)+
        }

        impl Limit {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$limit,)+];

            /// Its name, as the flag has it, without the dashes.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$limit => $name,)+
                }
            }
        }
    };
}

// What is told of a limit here is what somebody has met. No limits in this sense are how often and how patiently the
// service itself looks (`tick_ms`, `settle_quiet_ms`, `settle_patience_ms`, `policy_quiet_ms`, `policy_age_ms_max`) or
// says something (`heartbeat_ms`), and for how long a request is remembered (`idempotency_retention_s`): their time is
// over again and again, and nobody is refused anything.
limits! {
    /// Connections at one time.
    Connections => "connections_max",
    /// The path and query of a request.
    UriBytes => "uri_bytes_max",
    /// The header fields of a request.
    HeaderBytes => "header_bytes_max",
    /// The body of a request.
    BodyBytes => "body_bytes_max",
    /// How long a body may take.
    BodyWait => "body_wait_ms_max",
    /// The bodies of all requests together.
    BodiesBytes => "bodies_bytes_max",
    /// How long a client may take nothing of its answer.
    AnswerWait => "answer_wait_ms_max",
    /// How fast a client takes its answer.
    AnswerRate => "answer_bytes_per_s_min",
    /// The answers of all requests together.
    AnswersBytes => "answers_bytes_max",
    /// Questions about the history at one time, and how long one waits.
    HistoryQuestions => "history_questions_max",
    /// How long a question waits for the history to be read.
    HistoryWait => "history_wait_ms_max",
    /// Operations of a batch.
    Operations => "operations_max",
    /// The files that a batch builds on.
    OperationsBytes => "operations_bytes_max",
    /// Writes that wait.
    QueueLen => "queue_len_max",
    /// How often a batch is decided again.
    Races => "races_max",
    /// Wrong tokens of one address.
    WrongTokens => "wrong_tokens_per_s_max",
    /// How deep a body nests.
    JsonDepth => "json_depth_max",
    /// How much of an unwanted body is read.
    DiscardBytes => "discard_bytes_max",
    /// How long a client may be silent before a head.
    HeaderWait => "header_wait_ms_max",
    /// How long a read waits for a revision.
    MinRevisionWait => "min_revision_wait_ms",
    /// How far a reader of events may fall behind.
    LagEvents => "lag_events_max",
    /// Writes that share a flush.
    BatchLen => "batch_len_max",
    /// How long a write waits for a lock of git's.
    LockWait => "lock_wait_ms_max",
    /// How long an exchange with the remote may take.
    RemoteTimeout => "remote_timeout_ms",
    /// How long requests may take at a shutdown.
    ShutdownGrace => "shutdown_grace_ms",
    /// Commits that wait to be pushed.
    AheadCommits => "ahead_commits_max",
    /// How many requests are remembered.
    IdempotencyLen => "idempotency_len_max",
    /// Records of requests that changed nothing.
    IdempotencyBytes => "idempotency_bytes_max",
    /// How long the writer may be at one thing.
    WriterBusy => "writer_busy_ms_max",
    /// How long the remote may be unseen.
    Staleness => "max_staleness_ms",
    /// Attributes of a collection, in a request or in a file.
    Attributes => "attributes_max",
    /// Items on a page.
    PageSize => "page_size_max",
    /// Problems that are told of a file.
    ProblemsPerFile => "problems_per_file_max",
}

/// How often each limit was reached; clones count together.
#[derive(Debug, Clone)]
pub struct Reached(Arc<[Counter]>);

impl Default for Reached {
    fn default() -> Self {
        Self(Limit::ALL.iter().map(|_| Counter::default()).collect())
    }
}

impl Reached {
    /// Counts that somebody has reached a limit.
    pub fn count(&self, limit: Limit) {
        self.0[limit as usize].add_one();
    }

    /// Each limit and how often it was reached.
    pub fn counts(&self) -> impl Iterator<Item = (Limit, u64)> {
        Limit::ALL.iter().map(|limit| (*limit, self.of(*limit)))
    }

    /// How often a limit was reached.
    #[must_use]
    pub fn of(&self, limit: Limit) -> u64 {
        self.0[limit as usize].get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_is_counted_by_itself_under_a_name_of_its_own() {
        let reached = Reached::default();
        reached.clone().count(Limit::QueueLen);
        reached.count(Limit::QueueLen);
        let counted: Vec<_> = reached.counts().filter(|(_, count)| *count > 0).collect();
        assert_eq!(counted, [(Limit::QueueLen, 2)]);
        let names: std::collections::BTreeSet<_> = Limit::ALL.iter().map(|limit| limit.name()).collect();
        assert_eq!(names.len(), Limit::ALL.len());
    }
}
