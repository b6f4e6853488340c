//! Debouncing: what is seen in the work tree, and what of it is believed.
//!
//! A saved file that is good is believed at once. A file that is broken, empty or gone is a suspect until it has
//! stayed so for a while, because many editors pass through such states when they save. So is a file that is still
//! being written, however good it looks: half of `name: Posts of May` is a valid name too.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::domain::file_name::{FileName, belongs_to_key};
use crate::domain::{Key, Revision};
use crate::engine::layers::{ParsedVersion, Reading, not_a_file, special_entry_fault};
use crate::engine::mirror::{AcceptedEdit, Busy, Mirror, Suspect, WorkTreeView};
use crate::engine::signal::{Hint, Hints};
use crate::store::{Edit, GitLocks, Paths, StoreError, WorkTree, WorkTreeEntry};
use crate::telemetry::error_chain;

impl Mirror {
    /// Brings a work tree that is behind the branch forward. While it is behind, its files do not show what a person
    /// saved, so they are not looked at; returns false for "later".
    pub(crate) fn catch_up(&mut self) -> bool {
        match self.journal.catch_up() {
            Ok(()) => true,
            Err(error) => {
                let late = self.note_busy();
                let is_locked = matches!(error, StoreError::Locked { .. });
                let error = error_chain(&error);
                if late && !is_locked {
                    tracing::warn!(%error, "the work tree can't be brought up to the branch");
                } else {
                    tracing::debug!(%error, late, "the work tree can't be brought up to the branch yet");
                }
                late
            }
        }
    }

    /// Records that the work tree can't be looked at now; returns whether that has lasted too long to keep waiting.
    pub(crate) fn note_busy(&mut self) -> bool {
        let now = Instant::now();
        let since = self.work_tree.busy.map_or(now, |busy| busy.since);
        let late = now - since >= self.options.busy_max;
        let wait = if late { self.options.busy_max } else { BUSY_RETRY_WAIT };
        self.work_tree.busy = Some(Busy { since, again_at: now + wait });
        late
    }

    /// Returns whether git or an editor may be changing the work tree.
    pub(super) fn is_unsettled(&self) -> bool {
        self.work_tree.busy.is_some() || !self.work_tree.suspects.is_empty()
    }

    /// Returns whether git is changing the work tree, and it has not been looked at for that reason.
    pub(crate) fn is_unseen(&self) -> bool {
        self.work_tree.busy.is_some_and(|busy| busy.since.elapsed() < self.options.busy_max)
    }

    /// Returns when to look again without a signal, if something is not believed yet.
    pub(crate) fn rescan_at(&self) -> Option<Instant> {
        let busy = self.work_tree.busy.map(|busy| busy.again_at);
        if self.is_unseen() {
            // Nothing is looked at before that, however long a file has been suspect.
            return busy;
        }
        self.work_tree
            .suspects
            .values()
            .map(|suspect| suspect.since)
            .chain(self.work_tree.unfinished.values().copied())
            .map(|since| since + self.options.settle_patience)
            .chain(busy)
            .min()
    }

    /// Returns the hint for what [`rescan_at`](Self::rescan_at) waits for.
    pub(crate) fn rescan_hint(&self) -> Hint {
        match self.work_tree.pending.of_files() {
            Hint::Files(mut names) => {
                names.extend(self.watched().cloned());
                Hint::Files(names)
            }
            hint @ (Hint::Everything | Hint::Branch) => hint,
        }
    }

    /// Returns whether a file of this key, or of a key that differs from it in letter case only, is being watched
    /// until it stays broken or gone, or is closed.
    pub(crate) fn is_suspect(&self, key: &Key) -> bool {
        self.watched().any(|name| belongs_to_key(name, key))
    }

    /// Returns a file of this key, or of a key that differs from it in letter case only, that another program has open
    /// and has written to.
    pub(crate) fn open_file_of(&self, key: &Key) -> Option<&String> {
        self.work_tree.unfinished.keys().find(|name| belongs_to_key(name, key))
    }

    fn watched(&self) -> impl Iterator<Item = &String> {
        self.work_tree.suspects.keys().chain(self.work_tree.unfinished.keys())
    }

    /// Looks at everything that remains to be looked at; returns whether it could be seen.
    pub(crate) fn scan_pending(&mut self, head: Option<Revision>) -> Result<bool, StoreError> {
        let WorkTreeView { away, pending, .. } = &self.work_tree;
        let all = pending.everything || (*away && pending.branch);
        let names: Vec<String> = pending.files.iter().cloned().collect();
        self.scan(head, if all { Paths::All } else { Paths::Only(&names) })
    }

    /// Looks at the work tree and records what is believed of it; returns whether it could be seen.
    fn scan(&mut self, head: Option<Revision>, paths: Paths<'_>) -> Result<bool, StoreError> {
        let mut checked: BTreeSet<String> = match paths {
            Paths::All => {
                self.work_tree.edits.keys().chain(self.work_tree.suspects.keys()).cloned().collect()
            }
            Paths::Only(names) => names.iter().cloned().collect(),
        };
        let mut seen = self.journal.work_tree(head, paths, GitLocks::Respect)?;
        if seen != WorkTree::Busy {
            self.work_tree.busy = None;
            self.work_tree.pending = Hints::default();
        } else if self.note_busy() {
            seen = self.journal.work_tree(head, paths, GitLocks::Ignore)?;
        }
        let (edits, unfinished, note) = match seen {
            WorkTree::Busy => return Ok(false),
            WorkTree::Unavailable(why) => {
                checked = self.work_tree.edits.keys().cloned().collect();
                self.work_tree.suspects.clear();
                self.work_tree.unfinished.clear();
                self.work_tree.away = true;
                (Vec::new(), BTreeMap::new(), Some(why))
            }
            WorkTree::Available { edits, unfinished, operation_in_progress: half_done } => {
                if std::mem::take(&mut self.work_tree.away) && matches!(paths, Paths::Only(_)) {
                    return self.scan(head, Paths::All);
                }
                let note = half_done.map(|what| format!("{what} stands half-done in the work tree"));
                (edits, unfinished, note)
            }
        };
        let is_partial = matches!(paths, Paths::Only(_));
        self.work_tree.unfinished.retain(|name, _| is_partial && !checked.contains(name));
        let now = Instant::now();
        self.work_tree.unfinished.extend(unfinished.keys().map(|name| (name.clone(), now)));
        self.note_work_tree(note);
        let mut found: BTreeMap<String, WorkTreeEntry> =
            edits.into_iter().map(|Edit { name, current: now }| (name, now)).collect();
        checked.extend(found.keys().cloned());
        for name in checked {
            let now = found.remove(&name);
            if self.accept(&name, now, unfinished.get(&name).copied()) {
                self.unbuilt.insert(name);
            }
        }
        self.believe_renamed();
        Ok(true)
    }

    pub(crate) fn note_work_tree(&mut self, note: Option<String>) {
        if self.snapshot.work_tree.as_deref() == note.as_deref() {
            return;
        }
        match &note {
            Some(why) => tracing::info!(why, "the work tree is not served as it stands"),
            None => tracing::info!("the work tree is served again"),
        }
        let mut next = self.snapshot.next();
        next.work_tree = note.map(Into::into);
        self.snapshot = Arc::new(next);
    }

    /// Decides whether to believe the current state of a file; returns whether that changes anything. If a process
    /// has the file open for writing, `unfinished` is the time for which it has left the file alone.
    pub(crate) fn accept(
        &mut self,
        name: &str,
        now: Option<WorkTreeEntry>,
        unfinished: Option<Duration>,
    ) -> bool {
        if self.work_tree.edits.get(name).map(|edit| &edit.saved) == now.as_ref() {
            self.work_tree.suspects.remove(name);
            return false;
        }
        let found = now.as_ref().map(|saved| read_saved(name, saved));
        let is_good = found.as_ref().is_none_or(|(content, _)| matches!(content, Some(Ok(_))));
        let is_doubtful = !is_good || unfinished.is_some();
        if is_doubtful && !self.is_patience_over(name, &now, unfinished.filter(|_| is_good)) {
            return false;
        }
        self.work_tree.suspects.remove(name);
        match now.zip(found) {
            Some((saved, (content, bytes))) => {
                let believed = AcceptedEdit { content, bytes: Arc::new(bytes), saved };
                self.work_tree.edits.insert(name.to_owned(), believed);
            }
            None => drop(self.work_tree.edits.remove(name)),
        }
        true
    }

    /// Returns whether a file has been in this state for long enough. A file that is seen for the first time has been
    /// so for `alone`, if that is known.
    fn is_patience_over(&mut self, name: &str, now: &Option<WorkTreeEntry>, alone: Option<Duration>) -> bool {
        let patience = self.options.settle_patience;
        let is_known = self.work_tree.suspects.get(name).is_some_and(|suspect| suspect.saved == *now);
        if !is_known {
            let began = Instant::now();
            let since = alone.and_then(|alone| began.checked_sub(alone.min(patience))).unwrap_or(began);
            self.work_tree.suspects.insert(name.to_owned(), Suspect { saved: now.clone(), since });
        }
        self.work_tree.suspects[name].since.elapsed() >= patience
    }
}

/// Wait before looking again at a work tree that git is changing.
pub(super) const BUSY_RETRY_WAIT: Duration = Duration::from_millis(20);

fn read_saved(name: &str, saved: &WorkTreeEntry) -> (Option<Reading>, Vec<u8>) {
    match saved {
        WorkTreeEntry::Deleted => (None, Vec::new()),
        WorkTreeEntry::Special(what) => (Some(Err(vec![special_entry_fault(*what)])), Vec::new()),
        WorkTreeEntry::File { blob, bytes } => {
            let content = match FileName::parse(name) {
                FileName::Collection(key) => ParsedVersion::read(&key, *blob, bytes),
                FileName::BadKey(why) => Err(vec![not_a_file(why)]),
                FileName::Other => return (None, Vec::new()),
            };
            (Some(content), bytes.clone())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::options;
    use crate::store::memory::MemoryJournal;

    #[test]
    fn git_is_waited_for_as_long_as_it_goes_on_and_then_for_a_while() {
        let journal = MemoryJournal::new();
        let mut mirror =
            Mirror::load(Box::new(journal.clone()), options().mirror).map_err(|(_, error)| error).unwrap();
        journal.set_busy(true);
        let mut notice = |name: &str| {
            mirror.refresh(&Hint::Files(vec![name.to_owned()])).unwrap();
            mirror.work_tree.busy.unwrap().since
        };
        let began = notice("a.yaml");
        assert_eq!(notice("a.yaml"), began, "the same file may be a person's");
        let went_on = notice("b.yaml");
        assert!(went_on > began);
        assert_eq!(notice("a.yaml"), went_on);
        let suspect = Suspect { saved: None, since: went_on - mirror.options.settle_patience };
        mirror.work_tree.suspects.insert("c.yaml".to_owned(), suspect);
        assert!(mirror.rescan_at().unwrap() > went_on, "nobody looks at a suspect meanwhile");
    }
}
