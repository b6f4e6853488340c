//! What a source offers: candidates for collections, and all that is to be said of the rest.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::Schemas;
use crate::domain::{Collection, Key, Kind, Segment, Value, Violation};
use crate::format::foreign::Position;
use crate::format::{self, FILE_BYTES_MAX, Fault};

/// How a source is read.
#[derive(Debug, Clone)]
pub(crate) struct ImportOptions {
    /// Whether a Decap collection of single files becomes one of documents where they lie in one folder.
    pub(crate) keep_files: bool,
    /// The key of the media collection that Decap's `media_folder` becomes.
    pub(crate) media_key: Key,
    /// What stands in Laika's `schemas` folder, if it is to be read.
    pub(crate) schemas: Schemas,
}

/// A collection as the source has it.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    /// The collection.
    pub(crate) collection: Arc<Collection>,
    /// Where the source has it.
    pub(crate) at: Position,
}

/// What a source offers.
#[derive(Debug, Default)]
pub(crate) struct ImportSource {
    /// The collections that can be taken over, with distinct keys, letter case aside.
    pub(crate) candidates: Vec<Candidate>,
    /// What has no place here, by name and reason.
    pub(crate) skipped: Vec<(String, String)>,
    /// What was taken over in another way than it stands there.
    pub(crate) notes: Vec<Fault>,
    /// What is wrong; no collection with a fault is among the candidates.
    pub(crate) faults: Vec<Fault>,
    /// Why there may be collections beside those that it has.
    pub(crate) partial: Option<Fault>,
    /// Why its collections may have attributes beside those that it tells.
    pub(crate) sparse: Option<Fault>,
    /// The folded keys, and where each stands.
    taken: HashMap<Key, Position>,
    /// The last number that was put behind each folded key.
    numbers: HashMap<Key, u32>,
}

impl ImportSource {
    /// Takes a collection over, or tells what is wrong with it; `locate` says where an attribute stands.
    pub(super) fn take(
        &mut self,
        key: Key,
        kind: Kind,
        attributes: Vec<(String, Value)>,
        at: Position,
        locate: impl Fn(&[Segment]) -> Position,
    ) {
        if let Some(other) = self.taken.insert(key.folded(), at) {
            let message = format!(
                "{key}: line {} has this key already, letter case aside, and some disks can't hold both",
                other.line
            );
            self.faults.push(at.fault(message));
            return;
        }
        let told = |it: &Violation| locate(&it.path).fault(format!("{key}: {it}"));
        match Collection::from_file(key.clone(), kind, attributes) {
            Ok(collection) if format::write(&collection).len() > FILE_BYTES_MAX => {
                self.faults.push(
                    at.fault(format!("{key}: its settings would take more than {FILE_BYTES_MAX} bytes")),
                );
            }
            Ok(collection) => {
                self.notes.extend(collection.lacking().iter().map(told));
                self.candidates.push(Candidate { collection: Arc::new(collection), at });
            }
            Err(violations) => self.faults.extend(violations.iter().map(told)),
        }
    }

    /// The key that is free: the one that is wanted, or `-2` and so on behind it; those that are folded in `reserved`
    /// are not.
    pub(super) fn free(&mut self, wanted: &Key, reserved: &HashSet<Key>) -> Key {
        let is_free = |key: &Key| {
            let folded = key.folded();
            !self.taken.contains_key(&folded) && !reserved.contains(&folded)
        };
        if is_free(wanted) {
            return wanted.clone();
        }
        let stem = &wanted.as_str()[..wanted.as_str().len().min(Key::BYTES_MAX - NUMBER_BYTES_MAX)];
        // What was taken stays so.
        let last = self.numbers.entry(wanted.folded()).or_insert(2);
        let numbered = |number: u32| Some((number, Key::parse(&format!("{stem}-{number}")).ok()?));
        let found = (*last..).filter_map(numbered).find(|(_, key)| is_free(key));
        let Some((number, key)) = found else { return wanted.clone() };
        *last = number;
        key
    }

    /// Holds a key for a collection that has a fault.
    pub(super) fn hold(&mut self, key: &Key, at: Position) {
        self.taken.insert(key.folded(), at);
    }
}

/// The most bytes of `-2` and so on.
const NUMBER_BYTES_MAX: usize = 11;
