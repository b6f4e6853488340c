//! How often each limit was reached: plain counters, one set per service.
//!
//! Code that refuses or ends something because of a limit counts it here and nowhere else.

use std::sync::Arc;

use crate::telemetry::metrics::Counter;

/// Declares the limits and their names, which are those of the flags where there is one.
macro_rules! limits {
    ($($(#[$doc:meta])* $limit:ident => $name:literal,)+) => {
        /// A limit that can be reached.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Limit {
            $($(#[$doc])* $limit,)+
        }

        impl Limit {
            /// All limits.
            pub const ALL: &[Self] = &[$(Self::$limit,)+];

            /// Returns the name: that of the flag, without the dashes.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$limit => $name,)+
                }
            }
        }
    };
}

// The comments here describe what was limited. Settings that refuse nothing are not counted: intervals and delays of
// the service's own checks (`tick_ms`, `settle_quiet_ms`, `settle_patience_ms`, `policy_quiet_ms`,
// `policy_age_ms_max`) and signs of life (`heartbeat_ms`), and how long a request is remembered
// (`idempotency_retention_s`). They elapse again and again.
limits! {
    /// Concurrent connections.
    Connections => "connections_max",
    /// The path and query of a request.
    UriBytes => "uri_bytes_max",
    /// The header fields of a request.
    HeaderBytes => "header_bytes_max",
    /// The body of a request.
    BodyBytes => "body_bytes_max",
    /// The time to receive a body.
    BodyWait => "body_wait_ms_max",
    /// All request bodies together.
    BodiesBytes => "bodies_bytes_max",
    /// The time in which a client takes nothing of its answer.
    AnswerWait => "answer_wait_ms_max",
    /// The speed at which a client takes its answer.
    AnswerRate => "answer_bytes_per_s_min",
    /// All answers together.
    AnswersBytes => "answers_bytes_max",
    /// Concurrent questions about the history, and the wait for a turn.
    HistoryQuestions => "history_questions_max",
    /// The wait of a question until the history is read.
    HistoryWait => "history_wait_ms_max",
    /// Operations of a batch.
    Operations => "operations_max",
    /// The files that a batch is based on.
    OperationsBytes => "operations_bytes_max",
    /// Waiting writes.
    QueueLen => "queue_len_max",
    /// The retries of a batch after lost races.
    Races => "races_max",
    /// Invalid tokens from one address.
    WrongTokens => "wrong_tokens_per_s_max",
    /// The nesting depth of a body.
    JsonDepth => "json_depth_max",
    /// The part of an unwanted body that is read.
    DiscardBytes => "discard_bytes_max",
    /// The time to receive a head.
    HeaderWait => "header_wait_ms_max",
    /// The wait of a read for a revision.
    MinRevisionWait => "min_revision_wait_ms",
    /// How far a subscriber may lag behind the events.
    LagEvents => "lag_events_max",
    /// Writes that share a durability barrier.
    BatchLen => "batch_len_max",
    /// The wait of a write for git's lock.
    LockWait => "lock_wait_ms_max",
    /// The duration of an exchange with the remote.
    RemoteTimeout => "remote_timeout_ms",
    /// The time for requests in progress at a shutdown.
    ShutdownGrace => "shutdown_grace_ms",
    /// Commits that wait to be pushed.
    AheadCommits => "ahead_commits_max",
    /// Remembered requests.
    IdempotencyLen => "idempotency_len_max",
    /// Records of requests that changed nothing.
    IdempotencyBytes => "idempotency_bytes_max",
    /// The duration of a single step of the writer.
    WriterBusy => "writer_busy_ms_max",
    /// The time since the remote was last seen.
    Staleness => "max_staleness_ms",
    /// Attributes of a collection, in a request or in a file.
    Attributes => "attributes_max",
    /// Items on a page.
    PageSize => "page_size_max",
    /// Reported problems of a file.
    ProblemsPerFile => "problems_per_file_max",
}

/// Counts how often each limit was reached; clones share their counters.
#[derive(Debug, Clone)]
pub struct LimitCounters(Arc<[Counter]>);

impl Default for LimitCounters {
    fn default() -> Self {
        Self(Limit::ALL.iter().map(|_| Counter::default()).collect())
    }
}

impl LimitCounters {
    /// Counts that a limit was reached.
    pub fn count(&self, limit: Limit) {
        self.0[limit as usize].add_one();
    }

    /// Returns each limit and how often it was reached.
    pub fn counts(&self) -> impl Iterator<Item = (Limit, u64)> {
        Limit::ALL.iter().map(|limit| (*limit, self.of(*limit)))
    }

    /// Returns how often a limit was reached.
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
        let reached = LimitCounters::default();
        reached.clone().count(Limit::QueueLen);
        reached.count(Limit::QueueLen);
        let counted: Vec<_> = reached.counts().filter(|(_, count)| *count > 0).collect();
        assert_eq!(counted, [(Limit::QueueLen, 2)]);
        let names: std::collections::BTreeSet<_> = Limit::ALL.iter().map(|limit| limit.name()).collect();
        assert_eq!(names.len(), Limit::ALL.len());
    }
}
