//! The engine and the history of a repository without a server, for a command that changes it.

use std::sync::Arc;
use std::thread::JoinHandle;

use crate::config::ServeConfig;
use crate::domain::Actor;
use crate::engine::history::History;
use crate::engine::{self, ConditionalCommand, Engine, Handle, Projection, Signal, Submission};
use crate::service::StartError;
use crate::service::options::{engine_options, history_options, journal_options};
use crate::store::Journal as _;
use crate::store::git::GitJournal;
use crate::telemetry::LimitCounters;

/// A repository that is open for one change; no service serves it in the meantime.
pub(crate) struct Offline {
    engine: Engine,
    /// The history that the change may refer to.
    pub(crate) history: History,
    follower: JoinHandle<()>,
    /// The person whom git is configured to commit as.
    person: Actor,
    /// A sentence about which part of the history is missing here, if any is.
    pub(crate) incomplete: Option<&'static str>,
}

impl Offline {
    /// Opens an existing repository, and reads it.
    ///
    /// # Errors
    ///
    /// Fails with the reason why it can't be changed; for example, a service serves it.
    pub(crate) async fn open(config: &ServeConfig) -> Result<Self, StartError> {
        let mut journal = GitJournal::open(journal_options(config)?)?;
        let (archive, person, incomplete) =
            (journal.archive(), journal.hand_edit_author(), journal.incomplete_reason()?);
        let mut options = engine_options(config, journal.branch(), &LimitCounters::default());
        // No other caller waits for the writer.
        options.writer.operations_bytes_max = usize::MAX;
        let engine = engine::start(Box::new(journal), options).map_err(StartError::Thread)?;
        let history_options = history_options(config, engine.projection.clone());
        let (history, follower) =
            History::start(Arc::new(archive), engine.projection.heads(), history_options)
                .map_err(StartError::Thread)?;
        engine.projection.wait_until_read().await;
        Ok(Self { engine, history, follower, person, incomplete })
    }

    /// Returns where changes are submitted, and what is served after them.
    pub(crate) const fn engine(&self) -> (&Handle, &Projection) {
        (&self.engine.handle, &self.engine.projection)
    }

    /// Returns a submission of changes that the person asks for on the command line.
    pub(crate) fn submission(&self, changes: Vec<ConditionalCommand>, reason: Option<String>) -> Submission {
        Submission {
            changes,
            author: self.person.clone(),
            reason,
            request_id: None,
            by_command: true,
            dry_run: false,
            idempotency_key: None,
        }
    }

    /// Closes the repository when the last change is finished.
    pub(crate) async fn close(self) {
        drop(self.engine.signals.send(Signal::Shutdown).await);
        self.engine.projection.ended().await;
        self.history.ended().await;
        // They have ended; a panic in one of them has been reported.
        drop((self.engine.writer.join(), self.follower.join()));
    }
}
