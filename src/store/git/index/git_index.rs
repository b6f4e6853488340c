//! Edits git's index in place (gitformat-index(5)): a few entries change, everything else stays.
//!
//! ```text
//! "DIRC" · version 2, 3 or 4 · number of entries
//! entries, by path and stage (see `entry`)
//! extensions: name of 4 letters · length · content
//! SHA-1 of all that, or zeros (index.skipHash)
//! ```
//!
//! Extensions are treated as follows. The cached tree (`TREE`) is kept with the changed paths marked invalid, so
//! that git does not compare all folders again after each write. The resolved conflicts (`REUC`) are kept.
//! Extensions that describe positions of entries or the state of the work tree (`EOIE`, `IEOT`, `UNTR`, `FSMN`) are
//! dropped; git makes them again. An extension whose name begins with a lower-case letter must be understood by
//! every program that touches the index. There are two: the split index, which is read as the whole index that it
//! represents (see `split`), and the sparse index, which is refused.

use rustix::fs::Stat;
use sha1::{Digest as _, Sha1};

use crate::store::BlobId;
use crate::store::git::disk::stamp::index_stat;
use crate::store::git::index::cached_tree::CachedFolder;
use crate::store::git::index::entry::{FIXED_LEN, IndexCursor, IndexEntry};
use crate::store::git::index::split;
use crate::store::git::object::id::Oid;
use crate::store::git::object::tree::Pointer;

/// Room for new entries, so that encoding does not reallocate.
const GROWTH_LEN: usize = 4 << 10;

const CHECKSUM_LEN: usize = 20;

/// Why an index is left alone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnreadableIndex {
    #[error("the index is damaged or of an unknown version; remove it, and `git reset` makes it anew")]
    Damaged,
    /// It has an extension that must be understood.
    #[error("the index {0}")]
    Variant(&'static str),
}

#[derive(Debug)]
pub(crate) struct GitIndex {
    bytes: Vec<u8>,
    pub(super) version: u32,
    pub(super) entries: Vec<IndexEntry>,
    cached_tree: Option<CachedFolder>,
    /// The extension `REUC`: resolved conflicts, as git records them.
    resolved: Option<Vec<u8>>,
    skips_hash: bool,
    /// The extension `link` of a split index: what it takes from the shared index.
    link: Option<Vec<u8>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StagedEntry {
    /// Nothing; a path added with `git add --intent-to-add` stages nothing either.
    Nothing,
    /// A file, with its mode as git interprets it.
    File(Pointer),
    /// An unmerged path, or a file where a folder would have to be, or the reverse.
    Conflict,
}

impl StagedEntry {
    /// What the index contains for a path if it agrees with a tree.
    pub(crate) fn of(pointer: Option<Pointer>) -> Self {
        pointer.map_or(Self::Nothing, |pointer| Self::File(pointer.canonical()))
    }

    /// The content, the inner `None` if nothing is staged; `None` for a conflict.
    pub(crate) fn blob(&self) -> Option<Option<BlobId>> {
        match self {
            Self::Nothing => Some(None),
            Self::File(pointer) => Some(Some(pointer.blob())),
            Self::Conflict => None,
        }
    }
}

impl GitIndex {
    pub(crate) const fn empty() -> Self {
        Self {
            bytes: Vec::new(),
            version: 2,
            entries: Vec::new(),
            cached_tree: None,
            resolved: None,
            skips_hash: false,
            link: None,
        }
    }

    /// The bytes that it was read from, before any change.
    pub(crate) fn before(&self) -> Option<&[u8]> {
        (!self.bytes.is_empty()).then_some(&self.bytes)
    }

    pub(crate) fn parse(bytes: Vec<u8>) -> Result<Self, UnreadableIndex> {
        Self::parse_with(bytes, |_| None)
    }

    /// Parses an index that may be split; `shared` returns the content of a file beside it by name.
    pub(crate) fn parse_with(
        bytes: Vec<u8>,
        shared: impl FnOnce(&str) -> Option<Vec<u8>>,
    ) -> Result<Self, UnreadableIndex> {
        let mut index = Self::parse_part(&bytes)?;
        let Some(link) = index.link.take() else { return Ok(Self { bytes, ..index }) };
        let why = "is split, and the part that it shares can't be read; `git status` tells more";
        let shared = split::shared(&link).and_then(|name| shared(&name));
        let whole = shared.and_then(|shared| index.joined(&link, &shared));
        Ok(Self { bytes, ..whole.ok_or(UnreadableIndex::Variant(why))? })
    }

    /// Joins a split index with its shared index file; `None` if they don't match.
    fn joined(mut self, link: &[u8], shared: &[u8]) -> Option<Self> {
        let base = Self::parse_part(shared).ok()?;
        if !shared.ends_with(link.first_chunk::<CHECKSUM_LEN>()?) {
            return None;
        }
        self.version = base.version.max(self.version);
        self.entries = split::join(link, base.entries, self.entries)?;
        Some(self)
    }

    /// Parses an index, or one part of a split index, without keeping its bytes.
    fn parse_part(bytes: &[u8]) -> Result<Self, UnreadableIndex> {
        let (body, checksum) = bytes.split_last_chunk::<CHECKSUM_LEN>().ok_or(UnreadableIndex::Damaged)?;
        let mut reader = IndexCursor { bytes: body, at: 0 };
        if reader.take(4) != Some(b"DIRC") {
            return Err(UnreadableIndex::Damaged);
        }
        let version =
            reader.number().filter(|version| (2..=4).contains(version)).ok_or(UnreadableIndex::Damaged)?;
        let count = reader.number().ok_or(UnreadableIndex::Damaged)?;
        // The capacity is bounded by the shortest possible entry, so a false count allocates no more than the file
        // justifies.
        let most = body.len() / (FIXED_LEN + 1);
        let mut entries: Vec<IndexEntry> = Vec::with_capacity(most.min(count as usize));
        for _ in 0..count {
            let before = entries.last().map_or(&[][..], |entry| &entry.path);
            let entry = reader.entry(version, before).ok_or(UnreadableIndex::Damaged)?;
            entries.push(entry);
        }
        let skips_hash = *checksum == Oid::default();
        let mut index = Self { version, entries, skips_hash, ..Self::empty() };
        while reader.at < body.len() {
            let name = reader.take(4).ok_or(UnreadableIndex::Damaged)?;
            let len = reader.number().ok_or(UnreadableIndex::Damaged)?;
            let content = reader.take(len as usize).ok_or(UnreadableIndex::Damaged)?;
            index.keep_extension(name, content)?;
        }
        Ok(index)
    }

    /// Reports whether nobody can have written these bytes as an index: their checksum is wrong, or they have none
    /// and are malformed. An index that only has an unsupported extension is not torn.
    pub(crate) fn is_torn(bytes: &[u8]) -> bool {
        match bytes.split_last_chunk::<CHECKSUM_LEN>() {
            Some((body, checksum)) if *checksum != Oid::default() => {
                !body.starts_with(b"DIRC") || Sha1::digest(body)[..] != *checksum
            }
            Some(_) => matches!(Self::parse(bytes.to_vec()), Err(UnreadableIndex::Damaged)),
            None => true,
        }
    }

    fn keep_extension(&mut self, name: &[u8], content: &[u8]) -> Result<(), UnreadableIndex> {
        match name {
            // A malformed cached tree is ignored, because it is only a cache.
            b"TREE" => self.cached_tree = CachedFolder::parse(content),
            b"REUC" => self.resolved = Some(content.to_vec()),
            b"link" => self.link = Some(content.to_vec()),
            b"sdir" => {
                let why = "is sparse, which is not supported; run `git sparse-checkout disable` there";
                return Err(UnreadableIndex::Variant(why));
            }
            [first, ..] if first.is_ascii_uppercase() => (),
            _ => {
                return Err(UnreadableIndex::Variant(
                    "needs an extension that is unknown here; make it an ordinary one",
                ));
            }
        }
        Ok(())
    }

    pub(crate) fn get(&self, path: &str) -> StagedEntry {
        if self.is_blocked(path) {
            return StagedEntry::Conflict;
        }
        match self.find(path.as_bytes()) {
            None => StagedEntry::Nothing,
            Some(entry) if entry.stage() != 0 => StagedEntry::Conflict,
            Some(entry) if entry.is_intent_to_add() => StagedEntry::Nothing,
            Some(entry) => StagedEntry::File(entry.pointer()),
        }
    }

    /// Iterates over what a commit would take, by path; unmerged and intent-to-add paths are left out.
    pub(crate) fn staged(&self) -> impl Iterator<Item = (&[u8], Pointer)> {
        let entries = self.entries.iter().filter(|it| it.stage() == 0 && !it.is_intent_to_add());
        entries.map(|entry| (&*entry.path, entry.pointer()))
    }

    /// Reports whether the entry records that a file with this modification time and length is git's checkout of a
    /// blob.
    pub(crate) fn is_checkout(&self, path: &str, blob: BlobId, stat: &Stat) -> bool {
        let [_, _, modified, modified_ns, .., len] = index_stat(stat);
        self.find(path.as_bytes()).is_some_and(|entry| {
            let [_, _, known_modified, known_ns, .., known_len] = entry.stat;
            entry.stage() == 0
                && entry.pointer().blob() == blob
                && [known_modified, known_ns, known_len] == [modified, modified_ns, len]
        })
    }

    /// Reports whether git was told to leave the file at a path out of the work tree.
    pub(crate) fn is_skipped(&self, path: &str) -> bool {
        self.find(path.as_bytes()).is_some_and(|entry| entry.is_skipped())
    }

    /// Reports whether there is a file in place of one of the path's folders, or a folder in place of the path's file.
    fn is_blocked(&self, path: &str) -> bool {
        let below = format!("{path}/").into_bytes();
        let next = self.entries.get(self.search(&below));
        let above = path.match_indices('/').map(|(at, _)| &path.as_bytes()[..at]);
        next.is_some_and(|entry| entry.path.starts_with(&below))
            || above.into_iter().any(|above| self.find(above).is_some())
    }

    /// The entry of a path, or the first of its stages.
    fn find(&self, path: &[u8]) -> Option<&IndexEntry> {
        self.entries.get(self.search(path)).filter(|entry| &*entry.path == path)
    }

    /// The position of the first entry that is not sorted before a path.
    fn search(&self, path: &[u8]) -> usize {
        self.entries.partition_point(|entry| &*entry.path < path)
    }

    /// Sets the entry of a path to a tree's, or removes it; `stat` is as in [`index_stat`], or zeros if git is to
    /// examine the file itself.
    pub(crate) fn put(&mut self, path: &str, pointer: Option<Pointer>, stat: [u32; 10]) {
        let (at, is_there) = (self.search(path.as_bytes()), self.find(path.as_bytes()).is_some());
        match pointer.map(|pointer| pointer.canonical()) {
            Some(pointer) if is_there => self.entries[at].update(pointer, stat),
            Some(pointer) => self.entries.insert(at, IndexEntry::new(path, pointer, stat)),
            None if is_there => drop(self.entries.remove(at)),
            None => return,
        }
        if let Some(root) = &mut self.cached_tree {
            root.invalidate(path.as_bytes());
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.bytes.len() + GROWTH_LEN);
        bytes.extend_from_slice(b"DIRC");
        bytes.extend_from_slice(&self.version.to_be_bytes());
        bytes.extend_from_slice(&number(self.entries.len()));
        let mut before: &[u8] = &[];
        for entry in &self.entries {
            entry.encode(&mut bytes, self.version, before);
            before = &entry.path;
        }
        if let Some(root) = &self.cached_tree {
            encode_extension(&mut bytes, b"TREE", &root.encode());
        }
        if let Some(content) = &self.resolved {
            encode_extension(&mut bytes, b"REUC", content);
        }
        let checksum = if self.skips_hash { Oid::default() } else { Sha1::digest(&bytes).into() };
        bytes.extend_from_slice(&checksum);
        bytes
    }
}

fn encode_extension(bytes: &mut Vec<u8>, name: &[u8; 4], content: &[u8]) {
    bytes.extend_from_slice(name);
    bytes.extend_from_slice(&number(content.len()));
    bytes.extend_from_slice(content);
}

fn number(len: usize) -> [u8; 4] {
    u32::try_from(len).expect("as many as were read, and a few more").to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Pointer = Pointer { mode: 0o100_644, oid: [7; 20] };

    #[test]
    fn an_index_reads_as_it_was_written_in_every_version() {
        for version in [2, 3, 4] {
            let mut index = GitIndex { version, ..GitIndex::empty() };
            for name in ["collections/b.yaml", "collections/a.yaml", "README.md"] {
                index.put(name, Some(FILE), [1; 10]);
            }
            let bytes = index.encode();
            let mut read = GitIndex::parse(bytes.clone()).unwrap();
            assert_eq!(read.encode(), bytes);
            assert_eq!(read.get("collections/a.yaml"), StagedEntry::File(FILE));
            assert_eq!(read.get("collections/c.yaml"), StagedEntry::Nothing);
            assert_eq!(read.get("collections"), StagedEntry::Conflict);
            assert_eq!(read.get("README.md/x"), StagedEntry::Conflict);
            read.put("collections/a.yaml", None, [0; 10]);
            assert_eq!(read.get("collections/a.yaml"), StagedEntry::Nothing);
        }
    }

    #[test]
    fn half_an_index_is_refused() {
        let mut index = GitIndex::empty();
        index.put("a", Some(FILE), [1; 10]);
        let bytes = index.encode();
        for len in 0..bytes.len() {
            assert!(GitIndex::parse(bytes[..len].to_vec()).is_err(), "{len}");
        }
    }
}
