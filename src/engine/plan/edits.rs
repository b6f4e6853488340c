//! The files that updates build on, and what becomes of them, as far as one turn of the writer has time for it.
//!
//! An edit keeps what a person wrote byte for byte and proves it, which takes some 20 ms for the largest file. So a
//! turn reads and edits a named number of bytes. A request that needs more of them goes on in later turns, with
//! those of others between; what was read and edited for it is kept, and used as long as a file still has the
//! content that was edited, and is still to become the same collection.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::domain::{Collection, Key};
use crate::format::{self, Edited};
use crate::store::{BlobId, StoreError};

/// How many bytes of files a turn reads to build on, and the file that goes beyond that.
const READ_BYTES_MAX: usize = 512 * 1024;

/// How many bytes of files a turn edits, and the file that goes beyond that.
const EDITED_BYTES_MAX: usize = 96 * 1024;

/// How much more there is time for in a turn, in bytes; and how much all turns have taken together.
#[derive(Debug)]
struct Room {
    left: usize,
    taken: usize,
}

impl Room {
    const fn new(left: usize) -> Self {
        Self { left, taken: 0 }
    }

    /// Takes what one file needs; what is there for the last one is always enough.
    const fn take(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes);
        self.taken += bytes;
    }
}

/// The contents that updates build on, read as there was time for them.
#[derive(Debug)]
pub(crate) struct EditSources {
    contents: HashMap<BlobId, Arc<Vec<u8>>>,
    room: Room,
}

impl Default for EditSources {
    fn default() -> Self {
        Self { contents: HashMap::new(), room: Room::new(READ_BYTES_MAX) }
    }
}

impl EditSources {
    /// Has a content read, unless it is there already or is for another turn.
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

/// The edits that have been made.
#[derive(Debug)]
pub(crate) struct Edits {
    made: BTreeMap<Key, Made>,
    room: Room,
}

/// An edit, and what it is of.
#[derive(Debug)]
struct Made {
    source: BlobId,
    after: Arc<Collection>,
    edited: Edited,
}

impl Default for Edits {
    fn default() -> Self {
        Self { made: BTreeMap::new(), room: Room::new(EDITED_BYTES_MAX) }
    }
}

impl Edits {
    /// Edits a content, unless that was done before; `None` if it is for another turn.
    pub(crate) fn edit(
        &mut self,
        source: BlobId,
        old: &[u8],
        before: &Collection,
        after: &Arc<Collection>,
    ) -> Option<Edited> {
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

/// What a request that has several turns takes from one to the next.
#[derive(Debug, Default)]
pub(crate) struct EditProgress {
    pub(crate) sources: EditSources,
    pub(crate) edits: Edits,
}

impl EditProgress {
    /// Gives the time for one more turn.
    pub(crate) const fn begin_turn(&mut self) {
        self.sources.room.left = READ_BYTES_MAX;
        self.edits.room.left = EDITED_BYTES_MAX;
    }

    /// How many bytes have been read and edited in all turns: more than there are, if others changed them meanwhile.
    pub(crate) const fn bytes(&self) -> usize {
        self.sources.room.taken + self.edits.room.taken
    }
}
