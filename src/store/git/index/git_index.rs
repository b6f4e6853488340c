//! Edits git's index in place (gitformat-index(5)): a few entries change, everything else stays.
//!
//! ```text
//! "DIRC" · version 2, 3 or 4 · number of entries
//! entries, by path and stage:
//!   ctime, mtime, device, inode, mode, user, group, length       4 bytes each, times two numbers
//!   20 bytes of id · 2 bytes of flags (stage, length of the name) · 2 more when the flags say so
//!   version 2, 3: path, then 1 to 8 NULs up to a multiple of 8
//!   version 4:    how much of the path before to drop, then the rest of the path, NUL
//! extensions: name of 4 letters · length · content
//! SHA-1 of all that, or zeros (index.skipHash)
//! ```
//!
//! Of the extensions, the cached tree (`TREE`) is kept with the changed paths marked invalid, the
//! resolved conflicts (`REUC`) are kept, and those that describe the entries' places or the work
//! tree's state (`EOIE`, `IEOT`, `UNTR`, `FSMN`) are dropped: git makes them again. One whose name
//! begins with a small letter must be understood to touch the index at all; there are two, the
//! split index and the sparse index, and both are refused.

use std::ops::Range;

use rustix::fs::Stat;
use sha1::{Digest as _, Sha1};

use crate::store::BlobId;
use crate::store::git::disk::stamp::index_stat;
use crate::store::git::index::cached_tree::Node;
use crate::store::git::object::id::Oid;
use crate::store::git::object::pack::{distance, read_distance};
use crate::store::git::object::tree::Pointer;

/// The part of an entry before its path: ten numbers, the id, the flags.
const FIXED_LEN: usize = 62;
const STAT_LEN: usize = 40;
/// What new entries may take before an index in the making has to move.
const GROWTH_LEN: usize = 4 << 10;
const EXTENDED_FLAG: u16 = 0x4000;
/// In the extended flags: the file is left out of the work tree.
const SKIP_WORKTREE_FLAG: u16 = 0x4000;
/// In the extended flags: the path is announced (`git add --intent-to-add`), nothing of it is staged.
const INTENT_TO_ADD_FLAG: u16 = 0x2000;
const STAGE_MASK: u16 = 0x3000;
const NAME_MASK: u16 = 0x0fff;

/// Why an index is left alone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unreadable {
    /// It is not what the format says.
    #[error("the index is damaged or of an unknown version; `git status` tells more")]
    Damaged,
    /// It has a part that must be understood.
    #[error("the index {0}")]
    Variant(&'static str),
}

#[derive(Debug)]
pub(crate) struct GitIndex {
    bytes: Vec<u8>,
    version: u32,
    entries: Vec<IndexEntry>,
    cached_tree: Option<Node>,
    resolved: Option<Range<usize>>,
    skips_hash: bool,
}

#[derive(Debug)]
struct IndexEntry {
    fixed: Fixed,
    extended: Option<[u8; 2]>,
    path: Path,
}

/// The part of an entry before its path: where it was read, or another one.
#[derive(Debug)]
enum Fixed {
    At(usize),
    New(Box<[u8; FIXED_LEN]>),
}

/// A path: where it was read, or another one, or one that was not written out.
#[derive(Debug)]
enum Path {
    At(Range<usize>),
    New(Box<[u8]>),
}

impl IndexEntry {
    fn fixed<'a>(&'a self, bytes: &'a [u8]) -> &'a [u8] {
        match &self.fixed {
            Fixed::At(start) => &bytes[*start..start + FIXED_LEN],
            Fixed::New(fixed) => &fixed[..],
        }
    }

    fn path<'a>(&'a self, bytes: &'a [u8]) -> &'a [u8] {
        match &self.path {
            Path::At(range) => &bytes[range.clone()],
            Path::New(path) => path,
        }
    }

    fn flags(&self, bytes: &[u8]) -> u16 {
        let fixed = self.fixed(bytes);
        u16::from_be_bytes([fixed[60], fixed[61]])
    }

    fn pointer(&self, bytes: &[u8]) -> Pointer {
        let fixed = self.fixed(bytes);
        let mode = u32::from_be_bytes(fixed[24..28].try_into().expect("four bytes"));
        Pointer { mode, oid: fixed[STAT_LEN..60].try_into().expect("twenty bytes") }
    }

    fn stage(&self, bytes: &[u8]) -> u16 {
        self.flags(bytes) & STAGE_MASK
    }

    fn extended_flags(&self) -> u16 {
        self.extended.map_or(0, u16::from_be_bytes)
    }

    fn is_announced(&self) -> bool {
        self.extended_flags() & INTENT_TO_ADD_FLAG != 0
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Staged {
    /// Nothing; a path that is only announced (`git add --intent-to-add`) stages nothing either.
    Nothing,
    /// A file, its mode as git takes it.
    File(Pointer),
    /// Both sides of a merge, or a file where a folder would have to be or the other way round.
    Conflict,
}

impl Staged {
    /// What the index has where it has just what a tree has.
    pub(crate) fn of(pointer: Option<Pointer>) -> Self {
        pointer.map_or(Self::Nothing, |pointer| Self::File(pointer.canonical()))
    }

    /// The content, the inner `None` for nothing; of a conflict it can't be told.
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
        }
    }

    /// What it was read from, before it was changed.
    pub(crate) fn before(&self) -> Option<&[u8]> {
        (!self.bytes.is_empty()).then_some(&self.bytes)
    }

    pub(crate) fn parse(bytes: Vec<u8>) -> Result<Self, Unreadable> {
        let end = bytes.len().checked_sub(20).ok_or(Unreadable::Damaged)?;
        let (body, checksum) = bytes.split_at(end);
        let mut reader = Cursor { bytes: body, at: 0 };
        if reader.take(4) != Some(b"DIRC") {
            return Err(Unreadable::Damaged);
        }
        let version =
            reader.number().filter(|version| (2..=4).contains(version)).ok_or(Unreadable::Damaged)?;
        let count = reader.number().ok_or(Unreadable::Damaged)?;
        // No entry is shorter, so a count that lies asks for no more than the file has.
        let most = body.len() / (FIXED_LEN + 1);
        let mut entries: Vec<IndexEntry> = Vec::with_capacity(most.min(count as usize));
        for _ in 0..count {
            let before = entries.last().map_or(&[][..], |entry| entry.path(body));
            let entry = reader.entry(version, before).ok_or(Unreadable::Damaged)?;
            entries.push(entry);
        }
        let skips_hash = checksum.iter().all(|byte| *byte == 0);
        let mut index = Self { version, entries, skips_hash, ..Self::empty() };
        while reader.at < body.len() {
            let name = reader.take(4).ok_or(Unreadable::Damaged)?;
            let len = reader.number().ok_or(Unreadable::Damaged)?;
            let start = reader.at;
            let content = reader.take(len as usize).ok_or(Unreadable::Damaged)?;
            index.keep_extension(name, content, start)?;
        }
        Ok(Self { bytes, ..index })
    }

    /// Whether these are not the bytes that anybody has written as an index: they have not its checksum, or
    /// none and make no sense. One that is only not understood here is none of those.
    pub(crate) fn is_torn(bytes: &[u8]) -> bool {
        match bytes.split_last_chunk::<20>() {
            Some((body, checksum)) if *checksum != Oid::default() => {
                !body.starts_with(b"DIRC") || Sha1::digest(body)[..] != *checksum
            }
            Some(_) => matches!(Self::parse(bytes.to_vec()), Err(Unreadable::Damaged)),
            None => true,
        }
    }

    fn keep_extension(&mut self, name: &[u8], content: &[u8], start: usize) -> Result<(), Unreadable> {
        match name {
            // A cached tree that makes no sense is only a cache.
            b"TREE" => self.cached_tree = Node::parse(content),
            b"REUC" => self.resolved = Some(start..start + content.len()),
            b"link" => {
                let why = "is split, which is not supported; run `git update-index --no-split-index` there";
                return Err(Unreadable::Variant(why));
            }
            b"sdir" => {
                let why = "is sparse, which is not supported; run `git sparse-checkout disable` there";
                return Err(Unreadable::Variant(why));
            }
            [first, ..] if first.is_ascii_uppercase() => (),
            _ => return Err(Unreadable::Variant("needs an extension that is unknown here")),
        }
        Ok(())
    }

    pub(crate) fn get(&self, path: &str) -> Staged {
        if self.is_blocked(path) {
            return Staged::Conflict;
        }
        match self.find(path) {
            None => Staged::Nothing,
            Some(entry) if entry.stage(&self.bytes) != 0 => Staged::Conflict,
            Some(entry) if entry.is_announced() => Staged::Nothing,
            Some(entry) => Staged::File(entry.pointer(&self.bytes)),
        }
    }

    /// What a commit would take, by path: what is not merged yet or only announced is left out.
    pub(crate) fn staged(&self) -> impl Iterator<Item = (&[u8], Pointer)> {
        let entries = self.entries.iter().filter(|it| it.stage(&self.bytes) == 0 && !it.is_announced());
        entries.map(|entry| (entry.path(&self.bytes), entry.pointer(&self.bytes)))
    }

    /// Whether the entry says that a file of this age and length is what git checked out for a blob.
    pub(crate) fn is_checkout(&self, path: &str, blob: BlobId, stat: &Stat) -> bool {
        const MODIFIED: Range<usize> = 8..16;
        const LEN: Range<usize> = 36..40;
        let numbers = index_stat(stat).map(u32::to_be_bytes).concat();
        self.find(path).is_some_and(|entry| {
            let fixed = entry.fixed(&self.bytes);
            let same = |range: Range<usize>| fixed[range.clone()] == numbers[range];
            entry.stage(&self.bytes) == 0
                && fixed[STAT_LEN..60] == *blob.as_bytes()
                && same(MODIFIED)
                && same(LEN)
        })
    }

    /// Whether git was told to leave the file at a path out of the work tree.
    pub(crate) fn is_skipped(&self, path: &str) -> bool {
        self.find(path).is_some_and(|entry| entry.extended_flags() & SKIP_WORKTREE_FLAG != 0)
    }

    /// Whether a file stands where a folder of the path would be, or a folder where the file would.
    fn is_blocked(&self, path: &str) -> bool {
        let below = format!("{path}/").into_bytes();
        let next = self.entries.get(self.search(&below));
        let above = path.match_indices('/').map(|(at, _)| &path.as_bytes()[..at]);
        next.is_some_and(|entry| entry.path(&self.bytes).starts_with(&below))
            || above.into_iter().any(|above| self.is_at(self.search(above), above))
    }

    /// The entry of a path, or the first of several stages.
    fn find(&self, path: &str) -> Option<&IndexEntry> {
        let index = self.search(path.as_bytes());
        if self.is_at(index, path.as_bytes()) { self.entries.get(index) } else { None }
    }

    /// The first entry that is not before a path.
    fn search(&self, path: &[u8]) -> usize {
        self.entries.partition_point(|entry| entry.path(&self.bytes) < path)
    }

    fn is_at(&self, index: usize, path: &[u8]) -> bool {
        self.entries.get(index).is_some_and(|entry| entry.path(&self.bytes) == path)
    }

    /// Puts at a path what a tree has there, with its stat as in [`index_stat`] or zeros when git is to look
    /// for itself.
    pub(crate) fn put(&mut self, path: &str, pointer: Option<Pointer>, stat: [u32; 10]) {
        match pointer {
            Some(pointer) => self.set(path, pointer.canonical(), stat),
            None => self.remove(path),
        }
    }

    fn set(&mut self, path: &str, Pointer { mode, oid }: Pointer, stat: [u32; 10]) {
        let index = self.search(path.as_bytes());
        let exists = self.is_at(index, path.as_bytes());
        let mut fixed = Box::new([0; FIXED_LEN]);
        for (field, value) in stat.into_iter().enumerate() {
            let value = if field == 6 { mode } else { value };
            fixed[4 * field..][..4].copy_from_slice(&value.to_be_bytes());
        }
        fixed[STAT_LEN..60].copy_from_slice(&oid);
        // `git update-index --assume-unchanged` and its like stay what they are; that the path is only
        // announced does not.
        let mut kept = if exists { self.entries[index].flags(&self.bytes) & !NAME_MASK } else { 0 };
        let extended = if exists { self.entries[index].extended_flags() & !INTENT_TO_ADD_FLAG } else { 0 };
        if extended == 0 {
            kept &= !EXTENDED_FLAG;
        }
        let name_len = u16::try_from(path.len()).unwrap_or(u16::MAX).min(NAME_MASK);
        fixed[60..].copy_from_slice(&(kept | name_len).to_be_bytes());
        let (fixed, extended) = (Fixed::New(fixed), (extended != 0).then(|| extended.to_be_bytes()));
        if exists {
            let entry = &mut self.entries[index];
            (entry.fixed, entry.extended) = (fixed, extended);
        } else {
            let path = Path::New(path.as_bytes().into());
            self.entries.insert(index, IndexEntry { fixed, extended, path });
        }
        self.invalidate(path);
    }

    fn remove(&mut self, path: &str) {
        let index = self.search(path.as_bytes());
        if self.is_at(index, path.as_bytes()) {
            self.entries.remove(index);
            self.invalidate(path);
        }
    }

    fn invalidate(&mut self, path: &str) {
        if let Some(root) = &mut self.cached_tree {
            root.invalidate(path.as_bytes());
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.bytes.len() + GROWTH_LEN);
        bytes.extend_from_slice(b"DIRC");
        bytes.extend_from_slice(&self.version.to_be_bytes());
        bytes.extend_from_slice(
            &u32::try_from(self.entries.len()).expect("as many as were read").to_be_bytes(),
        );
        let mut before: &[u8] = &[];
        for entry in &self.entries {
            self.encode_entry(&mut bytes, entry, before);
            before = entry.path(&self.bytes);
        }
        if let Some(root) = &self.cached_tree {
            let mut content = Vec::new();
            root.encode(&mut content);
            encode_extension(&mut bytes, b"TREE", &content);
        }
        if let Some(content) = &self.resolved {
            encode_extension(&mut bytes, b"REUC", &self.bytes[content.clone()]);
        }
        let checksum = if self.skips_hash { Oid::default() } else { Sha1::digest(&bytes).into() };
        bytes.extend_from_slice(&checksum);
        bytes
    }

    fn encode_entry(&self, bytes: &mut Vec<u8>, entry: &IndexEntry, before: &[u8]) {
        let (start, path) = (bytes.len(), entry.path(&self.bytes));
        bytes.extend_from_slice(entry.fixed(&self.bytes));
        bytes.extend_from_slice(entry.extended.as_ref().map_or(&[][..], |extended| extended));
        if self.version == 4 {
            let common = before.iter().zip(path).take_while(|(a, b)| a == b).count();
            bytes.extend(distance((before.len() - common) as u64));
            bytes.extend_from_slice(&path[common..]);
            bytes.push(0);
        } else {
            bytes.extend_from_slice(path);
            let len = bytes.len() - start;
            bytes.resize(start + (len / 8 + 1) * 8, 0);
        }
    }
}

fn encode_extension(bytes: &mut Vec<u8>, name: &[u8; 4], content: &[u8]) {
    bytes.extend_from_slice(name);
    bytes.extend_from_slice(
        &u32::try_from(content.len()).expect("as long as it was, or shorter").to_be_bytes(),
    );
    bytes.extend_from_slice(content);
}

pub(crate) struct Cursor<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(len)?)?;
        self.at += len;
        Some(taken)
    }

    fn number(&mut self) -> Option<u32> {
        self.take(4).map(|bytes| u32::from_be_bytes(bytes.try_into().expect("four bytes")))
    }

    fn entry(&mut self, version: u32, before: &[u8]) -> Option<IndexEntry> {
        let start = self.at;
        let fixed = self.take(FIXED_LEN)?;
        let flags = u16::from_be_bytes([fixed[60], fixed[61]]);
        let extended = match flags & EXTENDED_FLAG {
            0 => None,
            _ if version == 2 => return None,
            _ => Some(self.take(2)?.try_into().expect("two bytes")),
        };
        let mut kept = before.len();
        if version == 4 {
            kept = kept.checked_sub(self.distance()?)?;
        }
        let (path, rest) = (self.at, &self.bytes[self.at..]);
        let rest = self.take(rest.iter().position(|byte| *byte == 0)?)?;
        if version == 4 {
            self.take(1)?;
            let path = Path::New([&before[..kept], rest].concat().into());
            return Some(IndexEntry { fixed: Fixed::At(start), extended, path });
        }
        let path = Path::At(path..self.at);
        let len = self.at - start;
        self.take((len / 8 + 1) * 8 - len)?;
        Some(IndexEntry { fixed: Fixed::At(start), extended, path })
    }

    /// How much of the path before to drop, as the distances in packs are written.
    fn distance(&mut self) -> Option<usize> {
        let mut rest = self.bytes[self.at..].iter();
        let distance = read_distance(&mut rest)?;
        self.at = self.bytes.len() - rest.len();
        usize::try_from(distance).ok()
    }
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
            assert_eq!(read.get("collections/a.yaml"), Staged::File(FILE));
            assert_eq!(read.get("collections/c.yaml"), Staged::Nothing);
            assert_eq!(read.get("collections"), Staged::Conflict);
            assert_eq!(read.get("README.md/x"), Staged::Conflict);
            read.put("collections/a.yaml", None, [0; 10]);
            assert_eq!(read.get("collections/a.yaml"), Staged::Nothing);
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
