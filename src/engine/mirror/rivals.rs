//! Keys that differ in letter case only: no commit may contain files of two of them.

use std::collections::BTreeSet;

use crate::domain::Key;
use crate::domain::file_name::{belongs_to_key, key_of};
use crate::engine::mirror::Mirror;
use crate::store::WorkTreeEntry;

impl Mirror {
    /// Returns the keys that differ from this one in letter case only and have a file in the head or in the work
    /// tree, including files that are not yet believed.
    pub(crate) fn rivals_of(&self, key: &Key) -> BTreeSet<Key> {
        let served = self.snapshot.catalog().case_variant(key).cloned();
        let names =
            self.unserved.keys().chain(self.work_tree.edits.keys()).chain(self.work_tree.suspects.keys());
        let others = names.filter(|name| belongs_to_key(name, key)).filter_map(|name| key_of(name));
        served.into_iter().chain(others).filter(|other| other != key).collect()
    }

    /// Returns whether the head has an entry under this name.
    pub(crate) fn is_committed(&self, name: &str) -> bool {
        self.at_head(name).is_some()
    }

    /// Returns whether a file exists under this name: in the work tree if that is served, otherwise in the head.
    pub(crate) fn file_exists(&self, name: &str) -> bool {
        self.served_edit(name)
            .map_or_else(|| self.is_committed(name), |edit| edit.saved != WorkTreeEntry::Deleted)
    }
}
