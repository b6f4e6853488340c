//! What is known of the files of the work tree.
//!
//! A file is hashed when its stamp (inode, length, times) is new, and remembered. A stamp proves
//! nothing while the file could still change within the same tick of the file system's clock (the
//! "racy git" problem, `Documentation/technical/racy-git.txt`), so what was read that soon after
//! its last change is read again the next time. What we have put there ourselves need not be for a short
//! while, unless somebody is seen to write to it (see `open_writers`).

use std::collections::HashMap;

use rustix::fs::Stat;

use crate::store::BlobId;
use crate::store::git::disk::stamp::{Stamp, is_settled, now_ns};
use crate::store::git::object::path_change::PathChanges;
use crate::store::git::worktree::scan::folder::Content;
use crate::store::git::worktree::scan::open_writers::NoWriterSince;

/// What is known of the files of the work tree.
#[derive(Debug, Default)]
pub(crate) struct StatCache {
    known: HashMap<String, Known>,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    stamp: Stamp,
    oid: BlobId,
    settled: bool,
    /// Of a file that we have put there.
    no_writer: Option<NoWriterSince>,
    /// The id of its bytes, if they are a checkout of `oid` with other line ends.
    converted: Option<BlobId>,
}

impl StatCache {
    /// Forgets all but some names.
    pub(crate) fn retain(&mut self, is_there: impl Fn(&str) -> bool) {
        self.known.retain(|name, _| is_there(name));
    }

    /// Forgets a name.
    pub(crate) fn forget(&mut self, name: &str) {
        self.known.remove(name);
    }

    /// The id of the content of a file that has not changed since it was read, or was put there by us and
    /// `holds` says that nobody has written to it.
    pub(crate) fn find(
        &self,
        name: &str,
        stat: &Stat,
        holds: impl Fn(&NoWriterSince) -> bool,
    ) -> Option<BlobId> {
        let known = self.known.get(name).filter(|known| known.stamp == Stamp::of(stat))?;
        (known.settled || known.no_writer.as_ref().is_some_and(holds)).then_some(known.oid)
    }

    /// The id of the bytes that a file had when it was read last, if it looks the same; it may have changed
    /// within the same tick.
    pub(crate) fn last_seen(&self, name: &str, stat: &Stat) -> Option<BlobId> {
        let known = self.known.get(name).filter(|known| known.stamp == Stamp::of(stat))?;
        Some(known.converted.unwrap_or(known.oid))
    }

    /// Keeps what was read.
    pub(crate) fn keep(&mut self, name: &str, content: &Content) {
        let (stamp, oid) = (Stamp::of(&content.stat), content.oid);
        let settled = is_settled(&stamp, now_ns());
        self.known.insert(name.to_owned(), Known { stamp, oid, settled, no_writer: None, converted: None });
    }

    /// Keeps what was put in its place a moment ago.
    pub(crate) fn put(&mut self, name: &str, stat: &Stat, oid: BlobId, no_writer: Option<NoWriterSince>) {
        let stamp = Stamp::of(stat);
        self.known.insert(name.to_owned(), Known { stamp, oid, settled: false, no_writer, converted: None });
    }

    /// Notes that the bytes of a file are a checkout of `oid`.
    pub(crate) fn note_converted(&mut self, name: &str, oid: BlobId, bytes: BlobId) {
        if let Some(known) = self.known.get_mut(name) {
            (known.oid, known.converted) = (oid, Some(bytes));
        }
    }

    /// Adds to paths that are about to change what git has made of the files there.
    pub(crate) fn add_converted(&self, changes: &mut PathChanges) {
        for (name, change) in changes {
            let known =
                self.known.get(name).filter(|known| change.before.map(|it| it.blob()) == Some(known.oid));
            change.passed.extend(known.and_then(|known| known.converted).map(Some));
        }
    }
}
