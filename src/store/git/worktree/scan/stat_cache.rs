//! Caches the content ids of the files of the work tree.
//!
//! A file is hashed when its stamp is new. A file that was read so soon after its last change that the stamp proves
//! nothing (`disk::stamp`) is read again the next time.

use std::collections::HashMap;

use rustix::fs::Stat;

use crate::store::BlobId;
use crate::store::git::disk::stamp::{Stamp, is_settled, now_ns};
use crate::store::git::object::tree::PathChanges;
use crate::store::git::worktree::scan::folder::SavedContent;

#[derive(Debug, Default)]
pub(crate) struct StatCache {
    known: HashMap<String, Known>,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    stamp: Stamp,
    oid: BlobId,
    settled: bool,
    /// The id of the bytes, if they are a checkout of `oid` with other line ends.
    converted: Option<BlobId>,
}

impl StatCache {
    pub(crate) fn retain(&mut self, is_there: impl Fn(&str) -> bool) {
        self.known.retain(|name, _| is_there(name));
    }

    pub(crate) fn forget(&mut self, name: &str) {
        self.known.remove(name);
    }

    /// Returns the content id of a file that has not changed since it was read.
    pub(crate) fn find(&self, name: &str, stat: &Stat) -> Option<BlobId> {
        let known = self.known.get(name).filter(|known| known.settled && known.stamp == Stamp::of(stat))?;
        Some(known.oid)
    }

    pub(crate) fn keep(&mut self, name: &str, content: &SavedContent) {
        let (stamp, oid) = (Stamp::of(&content.stat), content.oid);
        let settled = is_settled(&stamp, now_ns());
        self.known.insert(name.to_owned(), Known { stamp, oid, settled, converted: None });
    }

    /// Records that the bytes of a file are a checkout of `oid`.
    pub(crate) fn note_converted(&mut self, name: &str, oid: BlobId, bytes: BlobId) {
        if let Some(known) = self.known.get_mut(name) {
            (known.oid, known.converted) = (oid, Some(bytes));
        }
    }

    /// Adds the ids of files that git converted to paths that are about to change.
    pub(crate) fn add_converted(&self, changes: &mut PathChanges) {
        for (name, change) in changes {
            let known =
                self.known.get(name).filter(|known| change.before.map(|it| it.blob()) == Some(known.oid));
            change.intermediate_blobs.extend(known.and_then(|known| known.converted).map(Some));
        }
    }
}
