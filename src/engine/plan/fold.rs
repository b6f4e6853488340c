//! Folding: the changes of a submission, combined into its one commit.
//!
//! A batch may name a collection twice (create it, then update it), and each change is decided on the result of the
//! one before. The history does not know those steps: it derives what a commit did from the difference to its parent.
//! The commit message does the same: one event per collection, from the parent's state to the commit's, and none for
//! a collection that ends as it began.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::domain::file_name::key_of;
use crate::domain::{Collection, Event, Key};
use crate::store::BlobId;

/// The new content of a file with its id; `None` if it is removed.
pub(crate) type FileOutcome = Option<(BlobId, Vec<u8>)>;

/// The files and events of a commit under construction.
#[derive(Debug, Clone, Default)]
pub(crate) struct PendingCommit {
    /// The outcome of each file, by name.
    pub(crate) files: BTreeMap<String, FileOutcome>,
    /// The events, in the order of the changes.
    pub(crate) events: Vec<Event>,
    /// Deleted keys whose files were never valid.
    pub(crate) unread: Vec<Key>,
}

impl PendingCommit {
    /// Keeps only what differs from the parent, whose blob ids `parent` returns.
    pub(crate) fn fold(&mut self, parent: impl Fn(&str) -> Option<BlobId>) {
        self.files.retain(|name, made| made.as_ref().map(|(blob, _)| *blob) != parent(name));
        let touched: BTreeSet<Key> = self.files.keys().filter_map(|name| key_of(name)).collect();
        self.events = folded(&self.events);
        self.events.retain(|event| touched.contains(event.key()));
        let with_event: BTreeSet<&Key> = self.events.iter().map(Event::key).collect();
        let mut unread: BTreeSet<Key> = self.unread.drain(..).collect();
        unread.retain(|key| touched.contains(key) && !with_event.contains(key));
        self.unread.extend(unread);
    }
}

/// Combines the events of each key into one, from before the first to after the last.
fn folded(events: &[Event]) -> Vec<Event> {
    let mut ends: BTreeMap<&Key, [Option<&Arc<Collection>>; 2]> = BTreeMap::new();
    for event in events {
        ends.entry(event.key()).or_insert([event.before(), None])[1] = event.after();
    }
    ends.into_values().filter_map(|[before, after]| Event::between(before.cloned(), after.cloned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Kind;

    fn named(name: &str) -> Arc<Collection> {
        let key = Key::parse("posts").unwrap();
        Arc::new(Collection::new(key, Kind::Document, [("name".to_owned(), name.into())]).unwrap())
    }

    fn created(name: &str) -> Event {
        Event::Created(named(name))
    }

    fn updated(before: &str, after: &str) -> Event {
        Event::Updated { before: named(before), after: named(after) }
    }

    fn deleted(name: &str) -> Event {
        Event::Deleted(named(name))
    }

    /// Folds a commit that leaves the file with `now` where the parent has `was`.
    #[track_caller]
    fn check(was: Option<&str>, events: &[Event], now: Option<&str>, expected: &[Event]) {
        let made = now.map(|text| (BlobId::of(text.as_bytes()), text.as_bytes().to_vec()));
        let files = BTreeMap::from([("posts.yaml".to_owned(), made)]);
        let mut commit = PendingCommit { files, events: events.to_vec(), unread: Vec::new() };
        commit.fold(|_| was.map(|text| BlobId::of(text.as_bytes())));
        assert_eq!(commit.events, expected);
        assert_eq!(commit.files.is_empty(), expected.is_empty());
    }

    #[test]
    fn steps_to_a_collection_are_one_event() {
        check(None, &[created("a"), updated("a", "b")], Some("b"), &[created("b")]);
        check(Some("a"), &[updated("a", "b"), updated("b", "c")], Some("c"), &[updated("a", "c")]);
        check(Some("a"), &[updated("a", "b"), deleted("b")], None, &[deleted("a")]);
        check(Some("a"), &[deleted("a"), created("b")], Some("b"), &[updated("a", "b")]);
    }

    #[test]
    fn steps_that_lead_back_are_nothing() {
        check(None, &[created("a"), deleted("a")], None, &[]);
        check(Some("a"), &[updated("a", "b"), updated("b", "a")], Some("a"), &[]);
        check(Some("a"), &[deleted("a"), created("a")], Some("a"), &[]);
    }

    #[test]
    fn the_same_values_in_other_bytes_are_an_update_without_changes() {
        check(Some("# a\na"), &[deleted("a"), created("a")], Some("a"), &[updated("a", "a")]);
    }

    #[test]
    fn a_broken_file_that_is_replaced_is_told_once() {
        let files = BTreeMap::from([("posts.yaml".to_owned(), Some((BlobId::of(b"a"), b"a".to_vec())))]);
        let unread = vec![Key::parse("posts").unwrap()];
        let mut commit = PendingCommit { files, events: vec![created("a")], unread };
        commit.fold(|_| Some(BlobId::of(b"broken")));
        assert_eq!((commit.events.as_slice(), commit.unread.as_slice()), (&[created("a")][..], &[][..]));
    }
}
