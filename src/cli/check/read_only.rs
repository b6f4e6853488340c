//! A read-only journal that shows a single view of a repository.

use std::collections::BTreeMap;
use std::path::Path;

use chrono::{DateTime, Utc};

use crate::domain::{Actor, Revision};
use crate::store::git::{self, GitJournal};
use crate::store::{
    Commits, Committed, Draft, Edit, GitLocks, Journal, KeptHead, Paths, StoreError, TreeEntry, WorkTree,
    WorkTreeEntry,
};

/// Returns the differences between the index and the head as if they were saved in the work tree.
pub(crate) fn staged(journal: &mut GitJournal, index: &Path, folder: &str) -> anyhow::Result<Vec<Edit>> {
    let head = journal.head()?;
    let mut committed: BTreeMap<String, TreeEntry> = journal
        .commits()
        .changes(None, head)?
        .into_iter()
        .filter_map(|change| Some((change.name, change.after?)))
        .collect();
    let mut edits = Vec::new();
    for (name, entry) in git::staged_entries(index, folder)? {
        if committed.remove(&name) != Some(entry) {
            let now = match entry {
                TreeEntry::File(blob) => {
                    WorkTreeEntry::File { blob, bytes: journal.commits().content(blob)? }
                }
                TreeEntry::Special(what) => WorkTreeEntry::Special(what),
            };
            edits.push(Edit { name, current: now });
        }
    }
    edits.extend(committed.into_keys().map(|name| Edit { name, current: WorkTreeEntry::Deleted }));
    Ok(edits)
}

/// The view of the repository.
pub(crate) enum SurveyView {
    /// The head, overlaid with the saved files.
    WorkTree,
    /// The head, overlaid with what is staged.
    Staged(Vec<Edit>),
    /// One commit.
    Revision(Revision),
}

/// A journal that shows one view; nothing is ever written through it.
pub(crate) struct ReadOnlyJournal {
    pub(crate) journal: GitJournal,
    pub(crate) view: SurveyView,
}

impl Journal for ReadOnlyJournal {
    fn head(&mut self) -> Result<Option<Revision>, StoreError> {
        match &self.view {
            SurveyView::Revision(revision) => Ok(Some(*revision)),
            SurveyView::WorkTree | SurveyView::Staged(_) => self.journal.head(),
        }
    }

    fn commits(&mut self) -> &mut dyn Commits {
        self.journal.commits()
    }

    fn work_tree(
        &mut self,
        head: Option<Revision>,
        paths: Paths<'_>,
        _: GitLocks,
    ) -> Result<WorkTree, StoreError> {
        match &self.view {
            // Saved files count even while git holds its locks.
            SurveyView::WorkTree => self.journal.work_tree(head, paths, GitLocks::Ignore),
            SurveyView::Staged(edits) => Ok(WorkTree::Available {
                edits: edits.clone(),
                unfinished: BTreeMap::new(),
                operation_in_progress: None,
            }),
            SurveyView::Revision(revision) => {
                Ok(WorkTree::Unavailable(format!("the commit {revision} is looked at")))
            }
        }
    }

    fn wait_for_git(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn append(&mut self, expected: Option<Revision>, _: &[Draft]) -> Result<Vec<Committed>, StoreError> {
        Err(StoreError::HeadMoved { expected, found: expected })
    }

    fn make_durable(&mut self, _: Option<Revision>) -> Result<(), StoreError> {
        Ok(())
    }

    fn catch_up(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn keep(&mut self, revision: Revision, now: DateTime<Utc>) -> Result<KeptHead, StoreError> {
        Ok(KeptHead::new(revision, now))
    }

    fn hand_edit_author(&mut self) -> Actor {
        self.journal.hand_edit_author()
    }
}
