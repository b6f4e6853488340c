//! Reads objects that may be damaged: truncated, with flipped bits, or crafted to be huge.
//!
//! Every read has a length limit that is known before anything is inflated. A damaged object is an error of that
//! object alone. If something that contains many objects can't be read, that is a different error, because it says
//! nothing about any single object.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::domain::Revision;
use crate::store::cache::Cache;
use crate::store::git::disk::open;
use crate::store::git::object::commit::RawCommit;
use crate::store::git::object::delta;
use crate::store::git::object::id::{self, ObjectKind, Oid, hex};
use crate::store::git::object::tree::RawTree;
use crate::store::git::odb::database::{Database, KnownFolders, ObjectFolder};
use crate::store::git::odb::inflate::{Inflater, damaged};
use crate::store::git::odb::loose::{self, FoundObject};
use crate::store::git::odb::pack::{Base, Pack};
use crate::store::{BlobId, Damage, FILE_BYTES_KEPT_MAX, StoreError, TreeId};

/// The largest object that is read whole: the tree of a folder of a million files.
pub(crate) const OBJECT_BYTES_MAX: usize = 64 << 20;

/// How much of a commit is read; the message of a larger one is truncated.
pub(crate) const COMMIT_BYTES_MAX: usize = 1 << 20;

/// The longest chain of deltas, as in git (`pack.depth`).
const CHAIN_LEN_MAX: usize = 4095;

/// The minimum size of the cache of delta bases; it holds up to twice as much.
const BASES_BYTES_MIN: usize = 8 << 20;

/// A reader of a repository's objects; each thread has its own.
pub(crate) struct Objects {
    database: Arc<Database>,
    known: Option<Arc<KnownFolders>>,
    inflater: Inflater,
    /// The cache of delta bases, by pack and offset.
    bases: Cache<(usize, u64), FoundObject>,
    /// The index of the pack in which an object was found last.
    last_pack: usize,
}

impl Objects {
    pub(crate) fn new(database: &Arc<Database>) -> Self {
        Self {
            database: Arc::clone(database),
            known: None,
            inflater: Inflater::default(),
            bases: Cache::new(BASES_BYTES_MIN),
            last_pack: 0,
        }
    }

    /// Creates a reader with a database of its own.
    pub(crate) fn at(common_dir: &Path) -> Self {
        Self::new(&Arc::new(Database::new(common_dir)))
    }

    /// Sets the minimum size of the cache of delta bases.
    pub(crate) fn keeping(self, bytes_min: usize) -> Self {
        Self { bases: Cache::new(bytes_min), ..self }
    }

    pub(crate) const fn database(&self) -> &Arc<Database> {
        &self.database
    }

    pub(crate) fn clear_caches(&mut self) {
        *self = Self::new(&self.database);
    }

    /// Reports whether an object exists, damaged or not.
    ///
    /// # Errors
    ///
    /// Fails if it was not found, and something that may contain it can't be read.
    pub(crate) fn has(&mut self, oid: &Oid) -> Result<bool, StoreError> {
        match self.kind(oid) {
            Err(StoreError::Damaged { .. }) => Ok(true),
            kind => Ok(kind?.is_some()),
        }
    }

    pub(crate) fn kind(&mut self, oid: &Oid) -> Result<Option<ObjectKind>, StoreError> {
        Ok(self.read(oid, 0)?.map(|found| found.kind))
    }

    /// Returns the ids with this prefix, of objects of any kind.
    pub(crate) fn beginning_with(&mut self, digits: &str) -> Vec<Oid> {
        let known = self.look_again();
        let padded: String = digits.chars().chain(std::iter::repeat('0')).take(40).collect();
        let Some(first) = id::unhex(padded.as_bytes()) else { return Vec::new() };
        let mut found = Vec::new();
        for folder in &known.folders {
            for pack in &folder.packs {
                let fitting = pack.names_from(&first).take_while(|oid| hex(oid).starts_with(digits));
                found.extend(fitting.copied());
            }
            let (fan, rest) = digits.split_at(2);
            let entries = std::fs::read_dir(folder.path.join(fan)).into_iter().flatten().flatten();
            found.extend(entries.filter_map(|entry| {
                let name = entry.file_name().into_string().ok().filter(|name| name.starts_with(rest))?;
                id::unhex(format!("{fan}{name}").as_bytes())
            }));
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Passes a parsed commit to `take`.
    pub(crate) fn commit<T>(
        &mut self,
        revision: Revision,
        take: impl FnOnce(&RawCommit<'_>) -> T,
    ) -> Result<T, StoreError> {
        let oid = revision.as_bytes();
        let found = self.read_existing(ObjectKind::Commit, oid, COMMIT_BYTES_MAX)?;
        let is_cut = found.len > found.content.len() as u64;
        let commit = RawCommit::parse(&found.content, is_cut);
        Ok(take(&commit.map_err(|why| corrupt(ObjectKind::Commit, oid, why))?))
    }

    /// Returns a tree for lookups by name.
    pub(crate) fn tree(&mut self, id: TreeId) -> Result<RawTree, StoreError> {
        let bytes = self.raw_tree(id)?;
        RawTree::parse(Arc::unwrap_or_clone(bytes))
            .map_err(|error| corrupt(ObjectKind::Tree, id.as_bytes(), error.to_string()))
    }

    pub(crate) fn raw_tree(&mut self, id: TreeId) -> Result<Arc<Vec<u8>>, StoreError> {
        self.whole(ObjectKind::Tree, id.as_bytes())
    }

    /// Returns the content of a collection file, truncated to [`FILE_BYTES_KEPT_MAX`] like that of a saved file.
    pub(crate) fn content(&mut self, id: BlobId) -> Result<Arc<Vec<u8>>, StoreError> {
        Ok(self.read_existing(ObjectKind::Blob, id.as_bytes(), FILE_BYTES_KEPT_MAX)?.content)
    }

    /// Returns the whole content of a file, for the work tree.
    pub(crate) fn blob(&mut self, id: BlobId) -> Result<Vec<u8>, StoreError> {
        self.whole(ObjectKind::Blob, id.as_bytes()).map(Arc::unwrap_or_clone)
    }

    pub(crate) fn whole(&mut self, kind: ObjectKind, oid: &Oid) -> Result<Arc<Vec<u8>>, StoreError> {
        let found = self.read_existing(kind, oid, OBJECT_BYTES_MAX)?;
        if found.len > OBJECT_BYTES_MAX as u64 {
            return Err(damage_of(kind, oid, Damage::TooLarge(found.len)));
        }
        Ok(found.content)
    }

    fn read_existing(
        &mut self,
        kind: ObjectKind,
        oid: &Oid,
        len_max: usize,
    ) -> Result<FoundObject, StoreError> {
        let found = self.read(oid, len_max).map_err(|error| match error {
            StoreError::Damaged { damage, .. } => damage_of(kind, oid, damage),
            error => error,
        })?;
        match found {
            Some(found) if found.kind == kind => Ok(found),
            Some(found) => Err(corrupt(kind, oid, format!("it is a {}", found.kind.word()))),
            None if self.database.is_partial() => Err(damage_of(kind, oid, Damage::Promised)),
            None => Err(damage_of(kind, oid, Damage::Missing)),
        }
    }

    /// Reads at most `len_max` bytes of an object; `None` if it does not exist.
    fn read(&mut self, oid: &Oid, len_max: usize) -> Result<Option<FoundObject>, StoreError> {
        let known = self.known();
        if let Ok(Some(found)) = self.read_in(&known, oid, len_max) {
            return Ok(Some(found));
        }
        let known = self.look_again();
        match self.read_in(&known, oid, len_max)? {
            Some(found) => Ok(Some(found)),
            None => known.check_readable().map(|()| None),
        }
    }

    /// Tries every copy of an object: one may be intact where another is damaged.
    fn read_in(
        &mut self,
        known: &KnownFolders,
        oid: &Oid,
        len_max: usize,
    ) -> Result<Option<FoundObject>, StoreError> {
        let mut fault = None;
        for folder in &known.folders {
            let len = folder.packs.len();
            for turn in 0..len {
                let number = (self.last_pack + turn) % len;
                let pack = &folder.packs[number];
                let Some(at) = pack.find(oid) else { continue };
                match self.unpack(pack, at, oid, len_max) {
                    Ok(found) => {
                        self.last_pack = number;
                        return Ok(Some(found));
                    }
                    Err(error) => fault = Some((pack.path.clone(), error)),
                }
            }
            let path = loose_path(folder, oid);
            match open::open(&path) {
                Ok(file) => match loose::read(file, &mut self.inflater, len_max) {
                    Ok(found) => return Ok(Some(found)),
                    Err(error) => fault = Some((path, error)),
                },
                Err(error) if error.kind() == io::ErrorKind::NotFound => (),
                Err(source) => return Err(StoreError::at("open", &path, source)),
            }
        }
        match fault {
            None => Ok(None),
            Some((_, error)) if error.kind() == io::ErrorKind::InvalidData => {
                Err(corrupt(ObjectKind::Blob, oid, error.to_string()))
            }
            Some((path, source)) => Err(StoreError::at("read", &path, source)),
        }
    }

    /// Reads an object from a pack; if the pack's index is doubtful, the object's id is verified.
    fn unpack(&mut self, pack: &Arc<Pack>, at: u64, oid: &Oid, len_max: usize) -> io::Result<FoundObject> {
        if !pack.is_doubtful {
            return self.resolve(pack, at, len_max);
        }
        let mut found = self.resolve(pack, at, OBJECT_BYTES_MAX)?;
        if id::hash_object(found.kind, &found.content).ok() != Some(*oid) {
            return Err(damaged("the index of its pack leads to another one"));
        }
        if found.content.len() > len_max {
            found.content = Arc::new(found.content[..len_max].to_vec());
        }
        Ok(found)
    }

    /// Reads the object at an offset of a pack, resolving deltas where necessary.
    pub(crate) fn resolve(&mut self, pack: &Arc<Pack>, at: u64, len_max: usize) -> io::Result<FoundObject> {
        let pack_id = Arc::as_ptr(pack) as usize;
        let mut deltas: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut at = at;
        let mut found = loop {
            if let Some(known) =
                self.bases.get(&(pack_id, at)).filter(|it| !deltas.is_empty() || it.len <= len_max as u64)
            {
                break known;
            }
            let head = pack.head(&mut self.inflater, at)?;
            self.inflater.skip(head.head_len);
            let room = if deltas.is_empty() && head.kind.is_ok() { len_max } else { OBJECT_BYTES_MAX };
            let content = self.inflater.content(Vec::new(), head.len, room)?;
            let base = match head.kind {
                Ok(kind) => break FoundObject { kind, len: head.len, content: Arc::new(content) },
                Err(base) => base,
            };
            if content.len() as u64 != head.len || deltas.len() == CHAIN_LEN_MAX {
                return Err(damaged("its chain of deltas is too long"));
            }
            deltas.push((at, content));
            at = match base {
                Base::At(at) => at,
                Base::Named(oid) => {
                    pack.find(&oid).ok_or_else(|| damaged("the base of its delta is missing"))?
                }
            };
        };
        while let Some((next, delta)) = deltas.pop() {
            if found.content.len() as u64 != found.len {
                return Err(damaged("the base of its delta is too large"));
            }
            self.bases.put((pack_id, at), found.clone(), found.content.len());
            let room = if deltas.is_empty() { len_max } else { OBJECT_BYTES_MAX };
            let (len, content) = delta::patch(&found.content, &delta, room)
                .ok_or_else(|| damaged("a delta does not fit what it is against"))?;
            (at, found) = (next, FoundObject { kind: found.kind, len, content: Arc::new(content) });
            if deltas.is_empty() && found.kind == ObjectKind::Tree && found.content.len() as u64 == found.len
            {
                // The next tree of a walk is usually a delta against this one.
                self.bases.put((pack_id, at), found.clone(), found.content.len());
            }
        }
        Ok(found)
    }

    fn known(&mut self) -> Arc<KnownFolders> {
        Arc::clone(self.known.get_or_insert_with(|| self.database.now()))
    }

    fn look_again(&mut self) -> Arc<KnownFolders> {
        let known = self.database.reload();
        if self.known.as_ref().is_none_or(|before| !Arc::ptr_eq(before, &known)) {
            // A new pack may get the address of one that is gone.
            self.bases = Cache::new(BASES_BYTES_MIN);
        }
        self.known = Some(Arc::clone(&known));
        known
    }
}

fn loose_path(folder: &ObjectFolder, oid: &Oid) -> std::path::PathBuf {
    let name = hex(oid);
    folder.path.join(&name[..2]).join(&name[2..])
}

fn damage_of(kind: ObjectKind, oid: &Oid, damage: Damage) -> StoreError {
    StoreError::Damaged { kind: kind.word(), id: hex(oid), damage }
}

/// Creates the error for an object that exists and is malformed.
pub(crate) fn corrupt(kind: ObjectKind, oid: &Oid, why: impl Into<String>) -> StoreError {
    damage_of(kind, oid, Damage::Corrupt(why.into()))
}
