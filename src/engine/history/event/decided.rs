//! What a merge made by the service decided, beyond what the events of its two sides report.
//!
//! A follower applies each event to the result of those before, and receives the events of the two sides one after
//! the other. A list has the remote's side first; a follower at a commit that the merge brought in receives the
//! remote's side last. Where both orders lead to the content of the merge, there is nothing left to report.
//! Otherwise the merge has an event: for an attribute to which the two sides last gave different values, for a
//! collection that one side deleted, and for a file that could not be read.
//!
//! The index has a row for each collection whose file in the merge differs from that of the side received last,
//! whether the event is reported or not. The row says which file is effective from there on, and the number of an
//! event within its commit is that of its row. Everything derived from files is therefore right without an event. An
//! instance that can't read one of the files, and so reports an event that others do not, still has the same
//! positions in the history.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::{Attribute, Change, Collection, Kind, Value, changes};
use crate::engine::history::event::{Action, Effect};
use crate::engine::history::index::forks::Fork;
use crate::engine::history::{View, collection_of};
use crate::store::StoreError;

/// What a merge did to a collection.
pub(crate) struct MergeEffect {
    pub(crate) effect: Effect,
    /// Whether the effect is final.
    pub(crate) is_final: bool,
    /// Whether a follower that has received both sides has something wrong without it.
    pub(crate) is_needed: bool,
    /// The attributes that are wrong without it in the order of a list, where the merged-in side comes last.
    pub(crate) in_order: BTreeSet<String>,
}

/// A collection as a follower of its events has it.
#[derive(Default)]
struct Followed {
    attributes: BTreeMap<String, Value>,
    /// Whether the files of all its events could be read.
    is_certain: bool,
}

impl Followed {
    fn of(collection: Option<&Collection>) -> Self {
        Self { attributes: attributes(collection), is_certain: true }
    }

    fn apply(&mut self, action: Action, effect: Effect) {
        if action != Action::Updated {
            self.attributes.clear();
        }
        match effect {
            Effect::Changes(changes) if action != Action::Deleted => {
                for change in changes {
                    match change.to {
                        Some(value) => drop(self.attributes.insert(change.attribute, value)),
                        None => drop(self.attributes.remove(&change.attribute)),
                    }
                }
            }
            Effect::Changes(_) => {}
            Effect::Problem(_) => self.is_certain = false,
        }
    }
}

impl View {
    /// Returns what a merge decided with one of its events; `join` is the fork of the merge.
    pub(crate) fn decided(&self, event: u32, join: Fork) -> Result<MergeEffect, StoreError> {
        let row = *self.index.event(event);
        let after = match self.read_version_after(&row)? {
            Ok(after) => after,
            Err((effect, is_final)) => {
                return Ok(MergeEffect { effect, is_final, is_needed: true, in_order: BTreeSet::new() });
            }
        };
        if row.action == Action::Created {
            // One side had deleted it, so a follower has nothing of it for certain.
            return Ok(MergeEffect::whole(changes(None, after.as_deref())));
        }
        let last = row.commit - 1;
        let [ours, theirs] = self.index.sides(row.key, row.commit, join);
        let version_at = |commit: Option<u32>| match commit {
            Some(commit) => self.good_version_at(row.key, commit),
            None => Ok(None),
        };
        let (there, here) = (version_at(join.onto)?, version_at(Some(last))?);
        if row.action == Action::Deleted {
            let before = here.or(there);
            return Ok(MergeEffect::whole(changes(collection_of(&before), None)));
        }
        let in_order = self.followed(collection_of(&there), &ours)?;
        let other_way = self.followed(collection_of(&here), &theirs)?;
        let is_certain = in_order.is_certain && other_way.is_certain;
        let [first, mut second] = [in_order, other_way].map(|it| differing(it.attributes, after.as_deref()));
        second.retain(|name, _| !first.contains_key(name));
        let in_order = first.keys().cloned().collect();
        let mut changes: Vec<Change> = first.into_values().chain(second.into_values()).collect();
        changes.sort_by_cached_key(|change| attribute(&change.attribute));
        let is_needed = !changes.is_empty() || !is_certain;
        Ok(MergeEffect { effect: Effect::Changes(changes), is_final: true, is_needed, in_order })
    }

    fn followed(&self, begun: Option<&Collection>, events: &[u32]) -> Result<Followed, StoreError> {
        let mut followed = Followed::of(begun);
        for event in events {
            let row = self.index.event(*event);
            let effect = if self.index.forks().join(row.commit).is_some() {
                // Records are cached; otherwise a nested merge would be decided again for every merge around it.
                self.record(*event)?.effect.clone()
            } else {
                self.effect(*event)?.0
            };
            followed.apply(row.action, effect);
        }
        Ok(followed)
    }
}

impl MergeEffect {
    /// Returns the changes that an undo takes back: not those of values that a list has without the merge.
    pub(crate) fn changes_to_undo(self) -> Vec<Change> {
        let Effect::Changes(mut changes) = self.effect else { return Vec::new() };
        if !self.in_order.is_empty() {
            changes.retain(|change| self.in_order.contains(&change.attribute));
        }
        changes
    }

    /// Returns a decision about a whole collection, which every follower needs.
    fn whole(changes: Vec<Change>) -> Self {
        let in_order = changes.iter().map(|change| change.attribute.clone()).collect();
        Self { effect: Effect::Changes(changes), is_final: true, is_needed: true, in_order }
    }
}

fn attributes(collection: Option<&Collection>) -> BTreeMap<String, Value> {
    changes(None, collection).into_iter().filter_map(|change| Some((change.attribute, change.to?))).collect()
}

/// Returns the changes that lead from a follower's attributes to those of a collection.
fn differing(mut has: BTreeMap<String, Value>, after: Option<&Collection>) -> BTreeMap<String, Change> {
    let mut found = BTreeMap::new();
    let mut note = |attribute: String, from: Option<Value>, to: Option<Value>| {
        if from != to {
            found.insert(attribute.clone(), Change { attribute, from, to });
        }
    };
    for (name, value) in attributes(after) {
        let from = has.remove(&name);
        note(name, from, Some(value));
    }
    for (name, value) in has {
        note(name, Some(value), None);
    }
    found
}

/// Parses a name, to sort it in canonical order; `type` is none and comes first.
fn attribute(name: &str) -> Option<Attribute> {
    Kind::ALL.into_iter().find_map(|kind| Attribute::parse(kind, name))
}
