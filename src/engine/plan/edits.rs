//! The files that updates build on and their edits, as far as one turn of the writer thread has time for them.
//!
//! An edit keeps what a person wrote byte for byte and verifies that, which takes about 20 ms for the largest file.
//! So a turn reads and edits a limited number of bytes. A request that needs more continues in later turns, with
//! other requests in between. What was read and edited for it is kept, and used as long as the file still has the
//! content that was edited and is still to become the same collection.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::domain::{Collection, Key};
use crate::format::{self, EditedFile};
use crate::store::{BlobId, StoreError};

/// Bytes of files that a turn reads to build on; the file that exceeds the limit is still read.
const READ_BYTES_MAX: usize = 512 * 1024;

/// Bytes of files that a turn edits; the file that exceeds the limit is still edited.
const EDITED_BYTES_MAX: usize = 96 * 1024;

/// The byte budget that is left in this turn, and the bytes taken in all turns.
#[derive(Debug)]
struct ByteBudget {
    left: usize,
    taken: usize,
}

impl ByteBudget {
    const fn new(left: usize) -> Self {
        Self { left, taken: 0 }
    }

    /// Takes the bytes of one file; the last file may exceed what is left.
    const fn take(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes);
        self.taken += bytes;
    }
}

/// The contents that updates build on, as far as they have been read.
#[derive(Debug)]
pub(crate) struct EditSources {
    contents: HashMap<BlobId, Arc<Vec<u8>>>,
    room: ByteBudget,
}

impl Default for EditSources {
    fn default() -> Self {
        Self { contents: HashMap::new(), room: ByteBudget::new(READ_BYTES_MAX) }
    }
}

impl EditSources {
    /// Reads a content, unless it has been read or this turn has no time for it.
    pub(crate) fn fetch(
        &mut self,
        blob: BlobId,
        read: impl FnOnce() -> Result<Vec<u8>, StoreError>,
    ) -> Result<(), StoreError> {
        if self.room.left > 0 && !self.contents.contains_key(&blob) {
            let content = read()?;
            self.room.take(content.len());
            self.contents.insert(blob, Arc::new(content));
        }
        Ok(())
    }

    pub(crate) fn get(&self, blob: BlobId) -> Option<&Arc<Vec<u8>>> {
        self.contents.get(&blob)
    }
}

#[derive(Debug)]
pub(crate) struct EditCache {
    made: BTreeMap<Key, Made>,
    room: ByteBudget,
}

#[derive(Debug)]
struct Made {
    source: BlobId,
    after: Arc<Collection>,
    edited: EditedFile,
}

impl Default for EditCache {
    fn default() -> Self {
        Self { made: BTreeMap::new(), room: ByteBudget::new(EDITED_BYTES_MAX) }
    }
}

impl EditCache {
    /// Edits a content, or returns the edit that was made before; `None` if it must wait for another turn.
    pub(crate) fn edit(
        &mut self,
        source: BlobId,
        old: &[u8],
        before: &Collection,
        after: &Arc<Collection>,
    ) -> Option<EditedFile> {
        if let Some(made) = self.made.get(after.key())
            && made.source == source
            && made.after == *after
        {
            return Some(made.edited.clone());
        }
        if self.room.left == 0 {
            return None;
        }
        self.room.take(old.len());
        let edited = format::edit(old, before, after);
        let made = Made { source, after: Arc::clone(after), edited: edited.clone() };
        self.made.insert(after.key().clone(), made);
        Some(edited)
    }
}

/// The state that a request with several turns carries from one to the next.
#[derive(Debug, Default)]
pub(crate) struct EditProgress {
    pub(crate) sources: EditSources,
    pub(crate) edits: EditCache,
}

impl EditProgress {
    /// Resets the byte budgets for one more turn.
    pub(crate) const fn begin_turn(&mut self) {
        self.sources.room.left = READ_BYTES_MAX;
        self.edits.room.left = EDITED_BYTES_MAX;
    }

    /// Returns the bytes read and edited in all turns: more than the files have, if others changed them in between.
    pub(crate) const fn bytes(&self) -> usize {
        self.sources.room.taken + self.edits.room.taken
    }
}
