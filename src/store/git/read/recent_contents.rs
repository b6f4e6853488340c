//! The contents that we wrote last, for who edits them next or tells what was changed.
//!
//! An update of a file begins with its content, which would have to be looked for among the packs, and for
//! one that is newer than the last look in the folder of the packs first.

use std::sync::Arc;

use crate::store::git::object::id::Oid;
use crate::store::git::object::path_change::PathChanges;
use crate::store::git::read::cache::Cache;

/// So many bytes are kept at least, and at most twice as many.
const BYTES_MIN: usize = 4 << 20;

/// Contents by their names.
#[derive(Debug)]
pub(crate) struct RecentContents(Cache<Oid, Arc<[u8]>>);

impl Default for RecentContents {
    fn default() -> Self {
        Self(Cache::new(BYTES_MIN))
    }
}

impl RecentContents {
    /// A content, if it is here.
    pub(crate) fn get(&mut self, oid: &Oid) -> Option<Arc<[u8]>> {
        self.0.get(oid)
    }

    /// Keeps what a group has written.
    pub(crate) fn keep(&mut self, changes: PathChanges) {
        for change in changes.into_values() {
            if let Some((after, content)) = change.after.zip(change.content) {
                let bytes = content.len();
                self.0.put(after.oid, content.into(), bytes);
            }
        }
    }
}
