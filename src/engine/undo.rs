//! Undoing one event, or restoring a collection to a revision.
//!
//! The change is planned on the history and carried out by the writer thread, which refuses it if the collection is
//! not the one that the plan saw. After a lost race the change is therefore planned again, and the new plan takes
//! the later change into account.

use std::sync::Arc;

use uuid::Uuid;

use crate::domain::{Command, Key, Revision};
use crate::engine::handle::Handle;
use crate::engine::history::{History, HistoryError, UndoRefusal, View};
use crate::engine::projection::{Projection, Snapshot};
use crate::engine::refuse::unavailable;
use crate::engine::submission::answer::SubmitAnswer;
use crate::engine::submission::error::SubmitError;
use crate::engine::submission::{Condition, ConditionalCommand, Submission};

/// Maximum number of times a plan is made again because the collection changed in the meantime.
const RACES_MAX: usize = 8;

/// A request to undo or restore, and its condition.
#[derive(Debug, Clone)]
pub struct UndoRequest {
    /// The submission without its change, which is yet to be planned.
    pub template: Submission,
    /// The state in which the caller believes the collection to be.
    pub condition: Condition,
}

/// What to take back.
#[derive(Clone)]
enum What {
    Event(Uuid),
    Since(Key, Revision),
}

impl UndoRequest {
    /// Undoes one event in a commit of its own. The attributes that the event changed get their old values; if
    /// nothing else happened to the file, the old file is restored byte for byte.
    ///
    /// A request that was granted before conflicts with its own result; use [`Handle::replay`] to get its answer.
    ///
    /// # Errors
    ///
    /// Returns what prevents it; nothing is changed in that case.
    pub async fn undo(
        &self,
        history: &History,
        engine: (&Handle, &Projection),
        event: Uuid,
    ) -> Result<SubmitAnswer, UndoRefusal> {
        self.take_back(history, engine, What::Event(event)).await
    }

    /// Restores one collection, even a deleted one, to its state at a revision, byte for byte, in a commit of its
    /// own. Makes no commit if the collection is already in that state.
    ///
    /// # Errors
    ///
    /// Returns what prevents it, or [`HistoryError::UnknownKey`] if there was no such collection; nothing is
    /// changed in that case.
    pub async fn restore(
        &self,
        history: &History,
        engine: (&Handle, &Projection),
        key: &Key,
        revision: Revision,
    ) -> Result<SubmitAnswer, UndoRefusal> {
        self.take_back(history, engine, What::Since(key.clone(), revision)).await
    }

    async fn take_back(
        &self,
        history: &History,
        (handle, projection): (&Handle, &Projection),
        what: What,
    ) -> Result<SubmitAnswer, UndoRefusal> {
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
                    Err(SubmitError::ConditionFailed { .. }) if wanted && races < RACES_MAX => {}
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
        Submission { changes: vec![change], ..self.template.clone() }
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
