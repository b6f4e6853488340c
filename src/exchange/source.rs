//! The contents of a source: candidates for collections, and notes and faults about the rest.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::domain::{Collection, Key, Kind, Segment, Value, Violation};
use crate::exchange::Schemas;
use crate::format::foreign::{ForeignNode, Position};
use crate::format::{self, FILE_BYTES_MAX, Fault};

/// Options for reading a source.
#[derive(Debug, Clone)]
pub(crate) struct ImportOptions {
    /// Whether a Decap collection of single files becomes one of documents if the files are in one folder.
    pub(crate) keep_files: bool,
    /// The key of the media collection that Decap's `media_folder` becomes.
    pub(crate) media_key: Key,
    /// The contents of Laika's `schemas` folder, if it is to be read.
    pub(crate) schemas: Schemas,
}

/// A collection as the source has it.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub(crate) collection: Arc<Collection>,
    /// Its position in the source.
    pub(crate) at: Position,
}

/// The contents of a source.
#[derive(Debug, Default)]
pub(crate) struct ImportSource {
    /// The collections that can be imported, with keys that are distinct even without letter case.
    pub(crate) candidates: Vec<Candidate>,
    /// What can't be imported: names and reasons.
    pub(crate) skipped: Vec<(String, String)>,
    /// What was imported in another form, or lacks something.
    pub(crate) notes: Vec<Fault>,
    /// What is wrong; no collection with a fault is a candidate.
    pub(crate) faults: Vec<Fault>,
    /// Why there may be collections that the source leaves out.
    pub(crate) partial: Option<Fault>,
    /// Why its collections may have attributes that the source leaves out.
    pub(crate) sparse: Option<Fault>,
    /// The folded keys, and their positions.
    taken: HashMap<Key, Position>,
    /// The last number that was appended to each folded key.
    numbers: HashMap<Key, u32>,
}

impl ImportSource {
    /// Returns the key that a node holds, or records why it is none.
    pub(super) fn key_at(&mut self, node: &ForeignNode) -> Option<Key> {
        let text = node.as_text().unwrap_or_default();
        let key = Key::parse(text);
        key.map_err(|error| self.faults.push(node.at.fault(format!("{text}: {error}")))).ok()
    }

    /// Adds a candidate, or records what is wrong with it; `locate` returns the position of an attribute.
    pub(super) fn add_candidate(
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
        let to_fault = |it: &Violation| locate(&it.path).fault(format!("{key}: {it}"));
        match Collection::from_file(key.clone(), kind, attributes) {
            Ok(collection) if format::write(&collection).len() > FILE_BYTES_MAX => {
                self.faults.push(
                    at.fault(format!("{key}: its settings would take more than {FILE_BYTES_MAX} bytes")),
                );
            }
            Ok(collection) => {
                self.notes.extend(collection.missing_status_names().iter().map(to_fault));
                self.candidates.push(Candidate { collection: Arc::new(collection), at });
            }
            Err(violations) => self.faults.extend(violations.iter().map(to_fault)),
        }
    }

    /// Returns a free key: the wanted one, or it with `-2` and so on; the folded keys in `reserved` are not free.
    pub(super) fn free(&mut self, wanted: &Key, reserved: &HashSet<Key>) -> Key {
        let is_free = |key: &Key| {
            let folded = key.folded();
            !self.taken.contains_key(&folded) && !reserved.contains(&folded)
        };
        if is_free(wanted) {
            return wanted.clone();
        }
        let stem = &wanted.as_str()[..wanted.as_str().len().min(Key::BYTES_MAX - NUMBER_BYTES_MAX)];
        // Continue from the last number: a taken key stays taken.
        let last = self.numbers.entry(wanted.folded()).or_insert(2);
        let numbered = |number: u32| Some((number, Key::parse(&format!("{stem}-{number}")).ok()?));
        let found = (*last..).filter_map(numbered).find(|(_, key)| is_free(key));
        let Some((number, key)) = found else { return wanted.clone() };
        *last = number;
        key
    }

    /// Reserves a key for a collection that has a fault.
    pub(super) fn reserve_key(&mut self, key: &Key, at: Position) {
        self.taken.insert(key.folded(), at);
    }
}

/// The maximum number of bytes of `-2` and so on.
const NUMBER_BYTES_MAX: usize = 11;

/// Returns whether a key is the wanted one with `-2` and so on (see [`ImportSource::free`]).
pub(super) fn is_numbered(key: &Key, wanted: &Key) -> bool {
    let number = key.as_str().strip_prefix(wanted.as_str()).and_then(|rest| rest.strip_prefix('-'));
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}
