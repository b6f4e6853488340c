//! The contents that we wrote last, for who edits them next or tells what was changed.
//!
//! An update of a file begins with its content. libgit2 would look through the packs for it, and for
//! one that is newer than its last look through the folder of the packs first.

use std::collections::HashMap;
use std::sync::Arc;

use crate::store::git::object::id::Oid;
use crate::store::git::object::path_change::PathChanges;

/// So many bytes are kept at least, and at most twice as many.
const BYTES_MIN: usize = 4 << 20;

/// Contents by their names; a name says what the content is, so none is ever out of date.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// The younger and the older half; what is asked for becomes young again.
    young: HashMap<Oid, Arc<[u8]>>,
    old: HashMap<Oid, Arc<[u8]>>,
    young_bytes: usize,
}

impl Written {
    /// A content, if it is here.
    pub(crate) fn get(&mut self, oid: &Oid) -> Option<Arc<[u8]>> {
        if let Some(content) = self.old.remove(oid) {
            self.put(*oid, content);
        }
        self.young.get(oid).cloned()
    }

    /// Keeps what a group has written.
    pub(crate) fn keep(&mut self, changes: PathChanges) {
        for change in changes.into_values() {
            if let Some((after, content)) = change.after.zip(change.content) {
                self.put(after.oid, content.into());
            }
        }
    }

    fn put(&mut self, oid: Oid, content: Arc<[u8]>) {
        if self.young_bytes >= BYTES_MIN {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += content.len();
        self.young.insert(oid, content);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_or_read_last_is_here_and_memory_is_bounded() {
        let mut written = Written::default();
        let oid = |n: u32| {
            let mut oid = [0; 20];
            oid[..4].copy_from_slice(&n.to_be_bytes());
            oid
        };
        for n in 0..200 {
            written.put(oid(n), vec![0; BYTES_MIN / 16].into());
            assert!(written.get(&oid(0)).is_some(), "what is asked for stays");
        }
        assert!(written.get(&oid(199)).is_some() && written.get(&oid(100)).is_none());
        assert!(written.young.len() + written.old.len() <= 2 * 17);
    }
}
