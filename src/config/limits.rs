//! Limits on sizes, numbers and times.

use std::time::Duration;

/// The limits of the service. A name ends with its unit, and with `max` for a maximum; each limit documents what
/// happens beyond it.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Limits")]
pub struct Limits {
    /// Limits on writes.
    #[command(flatten)]
    pub writes: WriteLimits,

    /// Limits on connections and requests.
    #[command(flatten)]
    pub requests: RequestLimits,

    /// Limits on answers and on the lookups for them.
    #[command(flatten)]
    pub answers: AnswerLimits,

    /// Limits on the observation of hand edits.
    #[command(flatten)]
    pub hand_edits: HandEditLimits,

    /// Limits on the policy file and on tokens.
    #[command(flatten)]
    pub policy: PolicyLimits,

    /// How long requests in progress may take to finish at a shutdown, before they are cut off.
    #[arg(long, env = "COLLECTORY_SHUTDOWN_GRACE_MS", value_name = "MS", hide_short_help = true,
          default_value_t = Limits::DEFAULT.shutdown_grace_ms)]
    pub shutdown_grace_ms: u64,
}

/// Limits on writes.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Limits")]
pub struct WriteLimits {
    /// Writes that may wait for the writer; one more is answered 503 with Retry-After.
    #[arg(long, env = "COLLECTORY_QUEUE_LEN_MAX", value_name = "COUNT", hide_short_help = true,
          default_value_t = WriteLimits::DEFAULT.queue_len_max, value_parser = between::<1, 1_048_576>)]
    pub queue_len_max: usize,

    /// Writes that share one durability barrier; the others wait for the next batch.
    #[arg(long, env = "COLLECTORY_BATCH_LEN_MAX", value_name = "COUNT", hide_short_help = true,
          default_value_t = WriteLimits::DEFAULT.batch_len_max, value_parser = at_least::<1>)]
    pub batch_len_max: usize,

    /// How often a batch is decided again because the branch has moved, before 503.
    #[arg(long, env = "COLLECTORY_RACES_MAX", value_name = "COUNT", hide_short_help = true,
          default_value_t = WriteLimits::DEFAULT.races_max, value_parser = between::<1, 1_024>)]
    pub races_max: usize,

    /// How long a write waits for git's `index.lock`, before 503 with Retry-After, and for a rebase that goes on.
    #[arg(long, env = "COLLECTORY_LOCK_WAIT_MS_MAX", value_name = "MS", hide_short_help = true,
          default_value_t = WriteLimits::DEFAULT.lock_wait_ms_max)]
    pub lock_wait_ms_max: u64,

    /// Operations in one atomic request; more is 400.
    #[arg(long, env = "COLLECTORY_OPERATIONS_MAX", value_name = "COUNT", hide_short_help = true,
          default_value_t = WriteLimits::DEFAULT.operations_max, value_parser = at_least::<1>)]
    pub operations_max: usize,

    /// The total size of the files that the operations of one atomic request build on; more is 413. Files that a dry
    /// run shows count too.
    #[arg(long, env = "COLLECTORY_OPERATIONS_BYTES_MAX", value_name = "BYTES", hide_short_help = true,
          default_value_t = WriteLimits::DEFAULT.operations_bytes_max, value_parser = between::<65_536, 16_777_216>)]
    pub operations_bytes_max: usize,

    /// How long a write with an `Idempotency-Key` is remembered: a repeated request gets the first answer; after that
    /// time it is a new write. 0 remembers nothing.
    #[arg(long, env = "COLLECTORY_IDEMPOTENCY_RETENTION_S", value_name = "SECONDS", hide_short_help = true,
          default_value_t = WriteLimits::DEFAULT.idempotency_retention_s)]
    pub idempotency_retention_s: u64,

    /// How many writes with an `Idempotency-Key` are remembered (the newest ones), and how many commits are searched for
    /// them at the start.
    #[arg(long, env = "COLLECTORY_IDEMPOTENCY_LEN_MAX", value_name = "COUNT", hide_short_help = true,
          default_value_t = WriteLimits::DEFAULT.idempotency_len_max)]
    pub idempotency_len_max: usize,

    /// How many bytes of answers are remembered for writes with an `Idempotency-Key` that changed nothing (the newest
    /// ones).
    #[arg(long, env = "COLLECTORY_IDEMPOTENCY_BYTES_MAX", value_name = "BYTES", hide_short_help = true,
          default_value_t = WriteLimits::DEFAULT.idempotency_bytes_max)]
    pub idempotency_bytes_max: usize,

    /// How long the writer may be busy with one task before /readyz reports it.
    #[arg(long, env = "COLLECTORY_WRITER_BUSY_MS_MAX", value_name = "MS", hide_short_help = true,
          default_value_t = WriteLimits::DEFAULT.writer_busy_ms_max)]
    pub writer_busy_ms_max: u64,
}

/// Limits on connections and requests.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Limits")]
pub struct RequestLimits {
    /// Simultaneous connections; one more is answered 503 with Retry-After and closed.
    #[arg(long, env = "COLLECTORY_CONNECTIONS_MAX", value_name = "COUNT", hide_short_help = true,
          default_value_t = RequestLimits::DEFAULT.connections_max, value_parser = at_least::<1>)]
    pub connections_max: usize,

    /// The length of the path and query of a request; more is 414.
    #[arg(long, env = "COLLECTORY_URI_BYTES_MAX", value_name = "BYTES", hide_short_help = true,
          default_value_t = RequestLimits::DEFAULT.uri_bytes_max, value_parser = between::<256, 65_534>)]
    pub uri_bytes_max: usize,

    /// The total size of the names and values of header fields; more is 431, and so are more than 100 fields.
    #[arg(long, env = "COLLECTORY_HEADER_BYTES_MAX", value_name = "BYTES", hide_short_help = true,
          default_value_t = RequestLimits::DEFAULT.header_bytes_max, value_parser = between::<1_024, 1_048_576>)]
    pub header_bytes_max: usize,

    /// How long a client may take to send the head of a request, or be idle between two requests, before the
    /// connection is closed.
    #[arg(long, env = "COLLECTORY_HEADER_WAIT_MS_MAX", value_name = "MS", hide_short_help = true,
          default_value_t = RequestLimits::DEFAULT.header_wait_ms_max, value_parser = clap::value_parser!(u64).range(1..))]
    pub header_wait_ms_max: u64,

    /// The size of the body of a request; more is 413. At least the 64 KiB that a collection file may have.
    #[arg(long, env = "COLLECTORY_BODY_BYTES_MAX", value_name = "BYTES", hide_short_help = true,
          default_value_t = RequestLimits::DEFAULT.body_bytes_max, value_parser = between::<65_536, 16_777_216>)]
    pub body_bytes_max: usize,

    /// How long a client may take to send the body of a request, after its head, before it is answered 408 and the
    /// connection is closed.
    #[arg(long, env = "COLLECTORY_BODY_WAIT_MS_MAX", value_name = "MS", hide_short_help = true,
          default_value_t = RequestLimits::DEFAULT.body_wait_ms_max, value_parser = clap::value_parser!(u64).range(1..))]
    pub body_wait_ms_max: u64,

    /// How many bytes of an unwanted body are read and dropped, so that a client that sends before it reads gets its
    /// answer; after that the connection is closed.
    #[arg(long, env = "COLLECTORY_DISCARD_BYTES_MAX", value_name = "BYTES", hide_short_help = true,
          default_value_t = RequestLimits::DEFAULT.discard_bytes_max)]
    pub discard_bytes_max: usize,

    /// The total size of the bodies of all requests, received so far; beyond it a request is answered 503 with
    /// Retry-After. So is a caller with more than one body who would use more than is left for others. The first 16
    /// KiB of each body are not counted, and an eighth is reserved for callers who are not signed in.
    #[arg(long, env = "COLLECTORY_BODIES_BYTES_MAX", value_name = "BYTES", hide_short_help = true,
          default_value_t = RequestLimits::DEFAULT.bodies_bytes_max, value_parser = between::<65_536, 1_073_741_824>)]
    pub bodies_bytes_max: usize,

    /// How deep arrays and objects in the body of a request may nest; deeper is 400.
    #[arg(long, env = "COLLECTORY_JSON_DEPTH_MAX", value_name = "LEVELS", hide_short_help = true,
          default_value_t = RequestLimits::DEFAULT.json_depth_max, value_parser = between::<8, 120>)]
    pub json_depth_max: usize,
}

/// Limits on answers and on the lookups for them.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Limits")]
pub struct AnswerLimits {
    /// How long a client may accept none of the answer that it is being sent before the connection is closed.
    #[arg(long, env = "COLLECTORY_ANSWER_WAIT_MS_MAX", value_name = "MS", hide_short_help = true,
          default_value_t = AnswerLimits::DEFAULT.answer_wait_ms_max, value_parser = clap::value_parser!(u64).range(1..))]
    pub answer_wait_ms_max: u64,

    /// How many bytes per second a client must accept of the answer that it is being sent, on average over the time of
    /// --answer-wait-ms-max; otherwise the connection is closed. 0 accepts any rate.
    #[arg(long, env = "COLLECTORY_ANSWER_BYTES_PER_S_MIN", value_name = "BYTES", hide_short_help = true,
          default_value_t = AnswerLimits::DEFAULT.answer_bytes_per_s_min)]
    pub answer_bytes_per_s_min: usize,

    /// The total size of all answers that are being made or sent; beyond it a request is answered 503 with
    /// Retry-After. So is a caller with more than one answer who would use more than is left for others. An answer
    /// that many clients share counts once, and one of up to 16 KiB not at all.
    #[arg(long, env = "COLLECTORY_ANSWERS_BYTES_MAX", value_name = "BYTES", hide_short_help = true,
          default_value_t = AnswerLimits::DEFAULT.answers_bytes_max, value_parser = between::<65_536, 1_073_741_824>)]
    pub answers_bytes_max: usize,

    /// Questions about the history that are answered at the same time; others wait.
    #[arg(long, env = "COLLECTORY_HISTORY_QUESTIONS_MAX", value_name = "COUNT", hide_short_help = true,
          default_value_t = AnswerLimits::DEFAULT.history_questions_max, value_parser = between::<1, 4_096>)]
    pub history_questions_max: usize,

    /// How long a question about the history waits until the history has been read and its turn has come, before 503
    /// with Retry-After.
    #[arg(long, env = "COLLECTORY_HISTORY_WAIT_MS_MAX", value_name = "MS", hide_short_help = true,
          default_value_t = AnswerLimits::DEFAULT.history_wait_ms_max)]
    pub history_wait_ms_max: u64,

    /// How long a read with `Collectory-Min-Revision` waits for the revision that it asks for, before 503 with
    /// Retry-After.
    #[arg(long, env = "COLLECTORY_MIN_REVISION_WAIT_MS", value_name = "MS", hide_short_help = true,
          default_value_t = AnswerLimits::DEFAULT.min_revision_wait_ms)]
    pub min_revision_wait_ms: u64,

    /// How often a stream without news sends a sign of life: the head of the branch in a stream of events, a comment
    /// in a stream of what is served.
    #[arg(long, env = "COLLECTORY_HEARTBEAT_MS", value_name = "MS", hide_short_help = true,
          default_value_t = AnswerLimits::DEFAULT.heartbeat_ms, value_parser = clap::value_parser!(u64).range(10..))]
    pub heartbeat_ms: u64,

    /// How many events the reader of a stream may fall behind before it is sent `reset`.
    #[arg(long, env = "COLLECTORY_LAG_EVENTS_MAX", value_name = "COUNT", hide_short_help = true,
          default_value_t = AnswerLimits::DEFAULT.lag_events_max, value_parser = at_least::<1>)]
    pub lag_events_max: usize,
}

/// Limits on the observation of hand edits.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Limits")]
pub struct HandEditLimits {
    /// How often the repository is compared with what is served, to find what the watcher has missed.
    #[arg(long, env = "COLLECTORY_TICK_MS", value_name = "MS", hide_short_help = true,
          default_value_t = HandEditLimits::DEFAULT.tick_ms, value_parser = clap::value_parser!(u64).range(10..))]
    pub tick_ms: u64,

    /// How long a file that is written in place must be left alone before it is read. Not used on Linux, which
    /// reports when a file is closed.
    #[arg(long, env = "COLLECTORY_SETTLE_QUIET_MS", value_name = "MS", hide_short_help = true,
          default_value_t = HandEditLimits::DEFAULT.settle_quiet_ms)]
    pub settle_quiet_ms: u64,

    /// How long a file must stay invalid, empty, absent or half-written before that is believed.
    #[arg(long, env = "COLLECTORY_SETTLE_PATIENCE_MS", value_name = "MS", hide_short_help = true,
          default_value_t = HandEditLimits::DEFAULT.settle_patience_ms)]
    pub settle_patience_ms: u64,
}

/// Limits on the policy file and on tokens.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Limits")]
pub struct PolicyLimits {
    /// How old the service's view of the policy file may be: a change has effect after this time.
    #[arg(long, env = "COLLECTORY_POLICY_AGE_MS_MAX", value_name = "MS", hide_short_help = true,
          default_value_t = PolicyLimits::DEFAULT.policy_age_ms_max)]
    pub policy_age_ms_max: u64,

    /// How long a policy file that is written in place must be left alone before it is used; one that is renamed into
    /// place is used immediately.
    #[arg(long, env = "COLLECTORY_POLICY_QUIET_MS", value_name = "MS", hide_short_help = true,
          default_value_t = PolicyLimits::DEFAULT.policy_quiet_ms)]
    pub policy_quiet_ms: u64,

    /// How many unknown or expired tokens one address may send per second; more are answered 429 with Retry-After.
    #[arg(long, env = "COLLECTORY_WRONG_TOKENS_PER_S_MAX", value_name = "COUNT", hide_short_help = true,
          default_value_t = PolicyLimits::DEFAULT.wrong_tokens_per_s_max)]
    pub wrong_tokens_per_s_max: usize,
}

impl Limits {
    /// The default.
    pub const DEFAULT: Self = Self {
        writes: WriteLimits::DEFAULT,
        requests: RequestLimits::DEFAULT,
        answers: AnswerLimits::DEFAULT,
        hand_edits: HandEditLimits::DEFAULT,
        policy: PolicyLimits::DEFAULT,
        shutdown_grace_ms: 10_000,
    };
}

impl WriteLimits {
    /// The default.
    pub const DEFAULT: Self = Self {
        queue_len_max: 1_024,
        batch_len_max: 256,
        races_max: 8,
        lock_wait_ms_max: 2_000,
        operations_max: 1_000,
        operations_bytes_max: 2 * 1_024 * 1_024,
        idempotency_retention_s: 86_400,
        idempotency_len_max: 10_000,
        idempotency_bytes_max: 16 * 1_024 * 1_024,
        writer_busy_ms_max: 5_000,
    };
}

impl RequestLimits {
    /// The default.
    pub const DEFAULT: Self = Self {
        connections_max: 4_096,
        uri_bytes_max: 16 * 1_024,
        header_bytes_max: 16 * 1_024,
        header_wait_ms_max: 30_000,
        body_bytes_max: 1_024 * 1_024,
        body_wait_ms_max: 30_000,
        discard_bytes_max: 16 * 1_024 * 1_024,
        bodies_bytes_max: 64 * 1_024 * 1_024,
        json_depth_max: 64,
    };

    /// Returns [`body_wait_ms_max`](Self::body_wait_ms_max) as a duration.
    #[must_use]
    pub const fn body_wait_max(&self) -> Duration {
        Duration::from_millis(self.body_wait_ms_max)
    }
}

impl AnswerLimits {
    /// The default.
    pub const DEFAULT: Self = Self {
        answer_wait_ms_max: 30_000,
        answer_bytes_per_s_min: 4_096,
        answers_bytes_max: 256 * 1_024 * 1_024,
        history_questions_max: 8,
        history_wait_ms_max: 2_000,
        min_revision_wait_ms: 2_000,
        heartbeat_ms: 15_000,
        lag_events_max: 10_000,
    };

    /// Returns [`history_wait_ms_max`](Self::history_wait_ms_max) as a duration.
    #[must_use]
    pub const fn history_wait_max(&self) -> Duration {
        Duration::from_millis(self.history_wait_ms_max)
    }

    /// Returns [`heartbeat_ms`](Self::heartbeat_ms) as a duration.
    #[must_use]
    pub const fn heartbeat(&self) -> Duration {
        Duration::from_millis(self.heartbeat_ms)
    }
}

impl HandEditLimits {
    /// The default.
    pub const DEFAULT: Self = Self { tick_ms: 5_000, settle_quiet_ms: 20, settle_patience_ms: 100 };
}

impl PolicyLimits {
    /// The default.
    pub const DEFAULT: Self =
        Self { policy_age_ms_max: 100, policy_quiet_ms: 500, wrong_tokens_per_s_max: 10 };

    /// Returns [`policy_age_ms_max`](Self::policy_age_ms_max) as a duration.
    #[must_use]
    pub const fn policy_age_max(&self) -> Duration {
        Duration::from_millis(self.policy_age_ms_max)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

fn at_least<const MIN: usize>(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if number >= MIN => Ok(number),
        Ok(_) | Err(_) => Err(format!("write a whole number from {MIN}")),
    }
}

fn between<const MIN: usize, const MAX: usize>(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if (MIN..=MAX).contains(&number) => Ok(number),
        Ok(_) | Err(_) => Err(format!("write a whole number from {MIN} to {MAX}")),
    }
}
