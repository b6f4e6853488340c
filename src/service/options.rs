//! The options of each part, from the configuration.

use std::sync::Arc;
use std::time::Duration;

use crate::config::{Maintenance, ServeConfig, Uncommitted, Watching, WebPages};
use crate::domain::Actor;
use crate::engine::history;
use crate::engine::{self, MirrorOptions, Projection, Retention, WriterOptions};
use crate::http::{AnswerOptions, Clock, ServedFrom};
use crate::service::{StartError, signers};
use crate::store::git::Options;
use crate::store::signature::SigningKey;
use crate::telemetry::LimitCounters;
use crate::watch;

/// How long to wait before a repository that could not be read at the start is tried again.
const RETRY_WAIT: Duration = Duration::from_secs(1);

/// How long a git command may be changing the work tree before the files are read anyway.
const BUSY_MAX: Duration = Duration::from_secs(2);

pub(crate) fn journal_options(config: &ServeConfig) -> Result<Options, StartError> {
    Ok(Options {
        branch: config.repository.branch.clone(),
        folder: config.repository.folder.clone(),
        committer: Actor::new(&config.commits.committer_name, &config.commits.committer_email),
        signing_key: config.commits.signing_key.as_deref().map(SigningKey::read).transpose()?,
        lock_wait_ms_max: config.limits.writes.lock_wait_ms_max,
        maintain: config.repository.maintenance == Maintenance::On,
        ..Options::new(&config.repository.dir)
    })
}

pub(crate) fn engine_options(config: &ServeConfig, branch: &str, reached: &LimitCounters) -> engine::Options {
    let limits = &config.limits;
    let clock = Clock::system();
    engine::Options {
        mirror: MirrorOptions {
            folder: config.repository.folder.trim_matches('/').to_owned(),
            branch: branch.to_owned(),
            committers: committers(&config.commits.committer_email),
            serve_uncommitted: config.repository.uncommitted == Uncommitted::Serve,
            settle_patience: Duration::from_millis(limits.hand_edits.settle_patience_ms),
            busy_max: BUSY_MAX,
            clock: Arc::new(move || clock.now()),
            reached: reached.clone(),
        },
        writer: WriterOptions {
            queue_len_max: limits.writes.queue_len_max,
            batch_len_max: limits.writes.batch_len_max,
            races_max: limits.writes.races_max,
            operations_bytes_max: limits.writes.operations_bytes_max,
            busy_max: Duration::from_millis(limits.writes.writer_busy_ms_max),
            retry_wait: RETRY_WAIT,
        },
        idempotency: Retention {
            time: Duration::from_secs(limits.writes.idempotency_retention_s),
            len_max: limits.writes.idempotency_len_max,
            bytes_max: limits.writes.idempotency_bytes_max,
        },
        reached: reached.clone(),
        metrics: Arc::default(),
        give_back: || {},
    }
}

/// Returns the addresses that the service commits under: the configured one, and the default, which it may have had.
pub(crate) fn committers(email: &str) -> Vec<String> {
    let mut committers = vec![email.to_owned(), Actor::service().email().to_owned()];
    committers.dedup();
    committers
}

pub(crate) fn history_options(config: &ServeConfig, projection: Projection) -> history::Options {
    history::Options {
        committers: committers(&config.commits.committer_email),
        lag_events_max: config.limits.answers.lag_events_max,
        known_key: Arc::new(move |text| projection.key(text)),
        checker: signers::checker(&config.repository.dir),
        ..history::Options::new(config.repository.folder.trim_matches('/'))
    }
}

pub(crate) fn watch_options(config: &ServeConfig) -> watch::Options {
    let limits = &config.limits;
    watch::Options {
        quiet: Duration::from_millis(limits.hand_edits.settle_quiet_ms),
        quiet_unclosed: Duration::from_millis(limits.hand_edits.settle_patience_ms),
        tick: Duration::from_millis(limits.hand_edits.tick_ms),
        notices: config.repository.watch == Watching::System,
    }
}

pub(crate) fn answer_options(config: &ServeConfig, branch: &str) -> AnswerOptions {
    AnswerOptions {
        limits: config.limits.clone(),
        base_path: config.http.base_path.clone(),
        require_if_match: config.http.require_if_match,
        compress: config.http.compress,
        ui: config.http.ui == WebPages::On,
        served_from: ServedFrom {
            repository: config.repository.dir.display().to_string(),
            branch: branch.to_owned(),
            folder: config.repository.folder.clone(),
        },
    }
}
