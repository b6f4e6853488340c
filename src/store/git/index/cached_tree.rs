//! The cached tree of an index: the id of each folder's tree, valid until something below it changes (the extension
//! `TREE` in gitformat-index(5)).
//!
//! ```text
//! <name> NUL <number of entries> blank <number of folders> LF <id>, then its folders
//! ```
//!
//! An invalid folder has `-1` entries and no id.

use crate::store::git::index::entry::IndexCursor;
use crate::store::git::object::id::Oid;

#[derive(Debug)]
pub(crate) struct CachedFolder {
    name: Vec<u8>,
    entries: i64,
    oid: Option<Oid>,
    folders: Vec<CachedFolder>,
}

/// The largest possible depth: a component has at least a letter and a slash, and a path at most 4,096 bytes.
const DEPTH_MAX: usize = 2_048;

impl CachedFolder {
    pub(crate) fn parse(content: &[u8]) -> Option<Self> {
        let mut reader = IndexCursor { bytes: content, at: 0 };
        let root = Self::read(&mut reader, 0)?;
        (reader.at == content.len()).then_some(root)
    }

    fn read(reader: &mut IndexCursor<'_>, depth: usize) -> Option<Self> {
        let name = Self::until(reader, 0)?.to_vec();
        let number = |bytes: &[u8]| std::str::from_utf8(bytes).ok()?.parse::<i64>().ok();
        let entries = number(Self::until(reader, b' ')?)?;
        let folder_count = number(Self::until(reader, b'\n')?)?;
        let oid = if entries < 0 { None } else { Some(reader.take(20)?.try_into().expect("twenty bytes")) };
        if depth > DEPTH_MAX {
            return None;
        }
        let folders = (0..folder_count).map(|_| Self::read(reader, depth + 1)).collect::<Option<_>>()?;
        Some(Self { name, entries, oid, folders })
    }

    fn until<'a>(reader: &mut IndexCursor<'a>, end: u8) -> Option<&'a [u8]> {
        let rest = reader.bytes.get(reader.at..)?;
        let taken = reader.take(rest.iter().position(|byte| *byte == end)?);
        reader.take(1)?;
        taken
    }

    /// Marks a changed path as invalid, like `do_invalidate_path` in git's `cache-tree.c`.
    pub(crate) fn invalidate(&mut self, path: &[u8]) {
        (self.entries, self.oid) = (-1, None);
        match path.iter().position(|byte| *byte == b'/') {
            None => self.folders.retain(|folder| folder.name != path),
            Some(at) => {
                if let Some(folder) = self.folders.iter_mut().find(|folder| folder.name == path[..at]) {
                    folder.invalidate(&path[at + 1..]);
                }
            }
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = self.name.clone();
        bytes.extend_from_slice(format!("\0{} {}\n", self.entries, self.folders.len()).as_bytes());
        bytes.extend(self.oid.iter().flatten());
        self.folders.iter().for_each(|folder| bytes.extend(folder.encode()));
        bytes
    }
}
