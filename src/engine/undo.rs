//! Taking back: one event, or everything since a revision.
//!
//! What is to be done is planned on the history and carried out by the writer, which refuses it if the collection is
//! not what the plan saw. So it is planned again after a lost race, with the later change among the events that are
//! looked at.

use std::sync::Arc;

use uuid::Uuid;

use crate::domain::{Command, Key, Revision};
use crate::engine::handle::Handle;
use crate::engine::history::{History, HistoryError, UndoRefusal, View};
use crate::engine::projection::{Projection, Snapshot};
use crate::engine::refuse::unavailable;
use crate::engine::submission::answer::Written;
use crate::engine::submission::error::SubmitError;
use crate::engine::submission::{Condition, ConditionalCommand, Submission};

/// How often a plan is made again after the collection changed under it.
const RACES_MAX: usize = 8;

/// Who takes something back, and under which condition.
#[derive(Debug, Clone)]
pub struct Undoer {
    /// Everything that the commit has to say but for the change, which is yet to be planned.
    pub asked: Submission,
    /// What the caller believes the collection to be.
    pub condition: Condition,
}

/// What is to be taken back.
#[derive(Clone)]
enum What {
    Event(Uuid),
    Since(Key, Revision),
}

impl Undoer {
    /// Undoes one event by a commit of its own. What it changed gets its old value; if nothing
    /// else happened to the file, the old file comes back byte for byte.
    ///
    /// A request that was granted before stands in its own way; [`Handle::replay`] answers it.
    ///
    /// # Errors
    ///
    /// Says what stands in the way; nothing was changed then.
    pub async fn undo(
        &self,
        history: &History,
        engine: (&Handle, &Projection),
        event: Uuid,
    ) -> Result<Written, UndoRefusal> {
        self.take_back(history, engine, What::Event(event)).await
    }

    /// Restores one collection, a deleted one too, to what it was at a revision, byte for byte, by
    /// a commit of its own. Restoring what is so already makes no commit.
    ///
    /// # Errors
    ///
    /// Says what stands in the way, [`HistoryError::UnknownKey`] if there was no such collection;
    /// nothing was changed then.
    pub async fn restore(
        &self,
        history: &History,
        engine: (&Handle, &Projection),
        key: &Key,
        revision: Revision,
    ) -> Result<Written, UndoRefusal> {
        self.take_back(history, engine, What::Since(key.clone(), revision)).await
    }

    async fn take_back(
        &self,
        history: &History,
        (handle, projection): (&Handle, &Projection),
        what: What,
    ) -> Result<Written, UndoRefusal> {
        let mut races = 0;
        loop {
            let view = history.view().await?;
            let snapshot = projection.snapshot().ok_or(SubmitError::Loading)?;
            if view.head() == snapshot.revision {
                let (what, planned_on) = (what.clone(), Arc::clone(&snapshot));
                let planned = tokio::task::spawn_blocking(move || what.plan(&view, &planned_on)).await;
                let command = planned.map_err(|_| HistoryError::stopping())??;
                let entry = snapshot.get(command.key().as_str());
                let wanted = self.condition.holds(entry.map(AsRef::as_ref));
                match handle.submit(self.submission(command)).await {
                    Err(SubmitError::Condition { .. }) if wanted && races < RACES_MAX => {}
                    answer => return Ok(answer?),
                }
            }
            races += 1;
            if races > RACES_MAX {
                return Err(unavailable("the collection keeps changing, try again").into());
            }
        }
    }

    fn submission(&self, command: Command) -> Submission {
        let change = ConditionalCommand { command, condition: self.condition.clone() };
        Submission { changes: vec![change], ..self.asked.clone() }
    }
}

impl What {
    fn plan(&self, view: &View, snapshot: &Snapshot) -> Result<Command, UndoRefusal> {
        match self {
            Self::Event(event) => view.plan_undo(*event, snapshot),
            Self::Since(key, revision) => view.plan_restore(key, *revision, snapshot),
        }
    }
}
