//! Hand edits that a write encounters: saved by a person and not committed.
//!
//! A hand edit is committed as the person's own before the write, so that both are in the history. Keys that differ
//! in letter case only are handled together: a file that a person renamed from `a.yaml` to `A.yaml` is gone and new
//! at once, and a commit of only the new half would contain both, which some disks can't check out.

use std::sync::Arc;

use crate::domain::file_name::{self, names_of};
use crate::domain::{Key, Refusal};
use crate::engine::plan::HandEdit;
use crate::engine::plan::state::PlanState;
use crate::engine::submission::error::SubmitError;
use crate::format::message::{self, HandEditAction};
use crate::store::{BlobId, Draft, FILE_BYTES_READ_MAX};

/// A key that differs in letter case only from a key concerned.
#[derive(Debug, Clone)]
pub(crate) struct Rival {
    pub(crate) key: Key,
    /// Its files in the head and in the work tree.
    pub(crate) files: Vec<RivalFile>,
}

/// A file of such a key.
#[derive(Debug, Clone)]
pub(crate) struct RivalFile {
    pub(crate) name: String,
    /// Whether the head has it.
    pub(crate) is_committed: bool,
    /// Whether readers see it: in the work tree if that is served, otherwise at the head.
    pub(crate) is_visible: bool,
}

impl PlanState<'_> {
    /// Commits what a person saved for this key, as a commit of that person before the service's own. Before that,
    /// commits the removal of files of keys in other letter case.
    ///
    /// # Errors
    ///
    /// Fails while another program is writing a file of the key: what it writes after this moment would go into a file
    /// that this write has replaced, and be lost.
    pub(crate) fn commit_by_hand(&mut self, index: usize, key: &Key) -> Result<(), SubmitError> {
        if let Some(name) = self.input.files.open.get(key) {
            return Err(SubmitError::BeingWritten { index, path: self.input.path(name) });
        }
        self.commit_removed_rivals(key);
        let Some(edit) = self.input.files.by_hand.get(key).filter(|_| !self.settled.contains(key)) else {
            return Ok(());
        };
        if !edit.committable {
            let name =
                edit.files.first().map_or_else(|| file_name::default_name(key), |(name, _)| name.clone());
            return Err(SubmitError::EditedByHand { index, path: self.input.path(&name) });
        }
        if let Some(name) = &edit.converted {
            return Err(SubmitError::Converted { index, path: self.input.path(name) });
        }
        if let Some(name) = &edit.unread {
            let (path, bytes_max) = (self.input.path(name), FILE_BYTES_READ_MAX);
            return Err(SubmitError::UnreadableEdit { index, path, bytes_max });
        }
        let is_new = !names_of(key).iter().any(|name| self.is_in_head(name));
        if edit.adds_files() && is_new {
            self.refuse_rival(key, |file| self.is_drafted(&file.name).unwrap_or(file.is_committed))
                .map_err(|refusal| SubmitError::Refused { index, refusal })?;
        }
        self.draft_by_hand(key, edit);
        Ok(())
    }

    /// Refuses a new collection if there is one whose key differs in letter case only, even an unreadable one.
    pub(crate) fn refuse_beside_rival(&self, key: &Key) -> Result<(), Refusal> {
        self.refuse_rival(key, |file| self.is_made(&file.name).unwrap_or(file.is_visible))
    }

    fn refuse_rival(&self, key: &Key, is_there: impl Fn(&RivalFile) -> bool) -> Result<(), Refusal> {
        let mut rivals = self.input.files.rivals.get(key).into_iter().flatten();
        match rivals.find(|rival| rival.files.iter().any(&is_there)) {
            Some(Rival { key: existing, .. }) => {
                Err(Refusal::KeyTakenInOtherCase { key: key.clone(), existing: existing.clone() })
            }
            None => Ok(()),
        }
    }

    /// Commits that a person removed the files of keys that differ from this one in letter case only.
    fn commit_removed_rivals(&mut self, key: &Key) {
        for rival in self.input.files.rivals.get(key).into_iter().flatten() {
            if self.settled.contains(&rival.key) || rival.files.iter().any(|file| file.is_visible) {
                continue;
            }
            let removal = |edit: &&HandEdit| edit.committable && !edit.adds_files();
            if let Some(edit) = self.input.files.by_hand.get(&rival.key).filter(removal) {
                self.draft_by_hand(&rival.key, edit);
                self.settled.insert(rival.key.clone());
            }
        }
    }

    fn draft_by_hand(&mut self, key: &Key, edit: &HandEdit) {
        // Of a key's two files the first that exists counts. If only the other one is created or deleted, the
        // collection stays the same and has no event.
        let names = names_of(key);
        let before = names.iter().find(|name| self.is_in_head(name));
        let after = names.iter().find(|name| edit.keeps_file(name).unwrap_or_else(|| self.is_in_head(name)));
        let what = match (before, after) {
            (_, None) => HandEditAction::Delete,
            (None, Some(_)) => HandEditAction::Create,
            (Some(_), Some(_)) => HandEditAction::Edit,
        };
        let counts = before != after || after.is_some_and(|name| edit.keeps_file(name).is_some());
        let id = counts.then(self.input.new_id);
        let events: Vec<_> =
            id.into_iter().flat_map(|id| edit.event.iter().map(move |event| (id, event))).collect();
        let about = message::MessageDetails {
            hand_edit: Some((key, what, id)),
            ..message::MessageDetails::default()
        };
        self.drafts.push(Draft {
            files: edit.files.clone(),
            message: message::compose(&events, &about),
            author: self.input.hand_edit_author.clone(),
            at: self.input.now,
        });
        for (name, bytes) in &edit.files {
            self.drafted.insert(name.clone(), bytes.as_deref().map(BlobId::of));
            if let Some(bytes) = bytes {
                self.written.insert(name.clone(), Arc::new(bytes.clone()));
            }
        }
    }

    /// Returns whether the drafts so far leave a file under this name; `None` if they do not touch it.
    fn is_drafted(&self, name: &str) -> Option<bool> {
        self.drafted.get(name).map(Option::is_some)
    }

    /// Returns whether the commit under construction and the drafts before it leave a file under this name; `None` if
    /// they do not touch it.
    pub(super) fn is_made(&self, name: &str) -> Option<bool> {
        self.commit.files.get(name).map(Option::is_some).or_else(|| self.is_drafted(name))
    }

    /// Returns whether the head with the drafts so far has a file under this name.
    fn is_in_head(&self, name: &str) -> bool {
        self.is_drafted(name).unwrap_or_else(|| self.input.files.blobs.contains_key(name))
    }
}

impl HandEdit {
    fn adds_files(&self) -> bool {
        self.files.iter().any(|(_, bytes)| bytes.is_some())
    }

    /// Returns whether the edit leaves a file under this name; `None` if it does not touch it.
    fn keeps_file(&self, name: &str) -> Option<bool> {
        let file = self.files.iter().find(|(it, _)| it == name);
        file.map(|(_, bytes)| bytes.is_some())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use chrono::DateTime;
    use uuid::Uuid;

    use super::*;
    use crate::domain::{Actor, Collection, Command, Event, Kind};
    use crate::engine::plan::edits::{EditCache, EditSources};
    use crate::engine::plan::{Plan, PlanFiles, PlanInput, plan};
    use crate::engine::projection::Snapshot;
    use crate::engine::submission::Submission;

    fn key(text: &str) -> Key {
        Key::parse(text).unwrap()
    }

    fn collection(text: &str) -> Arc<Collection> {
        Arc::new(Collection::new(key(text), Kind::Document, []).unwrap())
    }

    /// Plans to create `A` where the head has `a.yaml`, which is missing in the work tree if `is_removed`.
    fn create_beside(is_removed: bool) -> Plan {
        let file = RivalFile { name: "a.yaml".into(), is_committed: true, is_visible: !is_removed };
        let files = vec![("a.yaml".to_owned(), None)];
        let event = Some(Event::Deleted(collection("a")));
        let removal = HandEdit { files, event, committable: true, converted: None, unread: None };
        let input = PlanInput {
            snapshot: &Snapshot::default(),
            bases: HashMap::new(),
            files: PlanFiles {
                by_hand: if is_removed { BTreeMap::from([(key("a"), removal)]) } else { BTreeMap::new() },
                rivals: HashMap::from([(key("A"), vec![Rival { key: key("a"), files: vec![file] }])]),
                ..PlanFiles::default()
            },
            sources: &EditSources::default(),
            operations_bytes_max: usize::MAX,
            folder: "collections",
            hand_edit_author: Actor::new("Mara", "mara@example.org"),
            now: DateTime::UNIX_EPOCH,
            new_id: Uuid::nil,
        };
        let command = Command::Create(Collection::clone(&collection("A")));
        let submission = Submission::of(Actor::new("Ed", "ed@example.org"), [command]);
        plan(&input, [&submission], &mut EditCache::default())
    }

    #[test]
    fn a_removal_of_the_key_in_other_letter_case_is_a_commit_of_the_person_s_before_ours() {
        let plan = create_beside(true);
        let drafted: Vec<_> = plan
            .drafts
            .iter()
            .map(|draft| (draft.author.name(), draft.files[0].0.as_str(), draft.files[0].1.is_some()))
            .collect();
        assert_eq!(drafted, [("Mara", "a.yaml", false), ("Ed", "A.yaml", true)]);
        assert!(matches!(&plan.answers[0], Some(Ok(_))));
    }

    #[test]
    fn a_file_of_the_key_in_other_letter_case_that_stands_is_in_the_way() {
        let plan = create_beside(false);
        assert!(plan.drafts.is_empty());
        let taken = Refusal::KeyTakenInOtherCase { key: key("A"), existing: key("a") };
        assert!(
            matches!(&plan.answers[0], Some(Err(SubmitError::Refused { refusal, .. })) if *refusal == taken)
        );
    }
}
