//! The object folders of a repository: its own, and those it borrows from.
//!
//! ```text
//! objects/pack/pack-….{pack,idx}     searched first; one index in memory for all threads
//! objects/ce/013625030ba8db…         loose
//! objects/info/alternates            other object folders, one per line (gitrepository-layout(5))
//! ```
//!
//! Packs come and go (`git gc`), and damage may have been repaired. So the folders are read again when they have
//! changed and when an object is not found. A pack that has not changed is not read a second time.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use crate::store::StoreError;
use crate::store::git::disk::open;
use crate::store::git::odb::pack::Pack;

/// The maximum length of a chain of alternates, as in git (`link_alt_odb_entries` in `odb.c`).
const BORROWED_DEPTH_MAX: usize = 5;

/// The objects of a repository, shared by any number of threads.
#[derive(Debug)]
pub(crate) struct Database {
    folder: PathBuf,
    known: Mutex<Option<Arc<KnownFolders>>>,
}

/// The folders as they were when they were last read.
#[derive(Debug, Default)]
pub(crate) struct KnownFolders {
    /// The repository's own folder comes first.
    pub(crate) folders: Vec<ObjectFolder>,
    /// The first folder or file that could not be read, and may contain any object.
    unreadable: Option<Unreadable>,
}

#[derive(Debug)]
pub(crate) struct ObjectFolder {
    pub(crate) path: PathBuf,
    known_packs: Vec<KnownPack>,
    pub(crate) packs: Vec<Arc<Pack>>,
    modified: [Option<SystemTime>; 2],
}

/// A pack that has been opened; its `pack` is `None` if it is damaged.
#[derive(Debug, Clone)]
struct KnownPack {
    path: PathBuf,
    identity: [(u64, u64, Option<SystemTime>); 2],
    pack: Option<Arc<Pack>>,
}

#[derive(Debug)]
struct Unreadable {
    action: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl Database {
    pub(crate) fn new(common_dir: &Path) -> Self {
        Self { folder: common_dir.join("objects"), known: Mutex::default() }
    }

    /// Returns the folders, read again if they seem to have changed.
    pub(crate) fn now(&self) -> Arc<KnownFolders> {
        self.unless(KnownFolders::seems_current)
    }

    /// Returns the folders, always read again, for a reader that did not find an object. Modification times can
    /// miss the second of two changes within one tick.
    pub(crate) fn reload(&self) -> Arc<KnownFolders> {
        self.unless(|_| false)
    }

    /// Reports whether there are packs that refer to objects which only a remote has (`pack-*.promisor`).
    pub(crate) fn is_partial(&self) -> bool {
        let packs = std::fs::read_dir(self.folder.join("pack")).into_iter().flatten().flatten();
        packs.map(|entry| entry.path()).any(|path| path.extension().is_some_and(|it| it == "promisor"))
    }

    fn unless(&self, is_current: impl FnOnce(&KnownFolders) -> bool) -> Arc<KnownFolders> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match &*known {
            Some(known) if is_current(known) => Arc::clone(known),
            _ => {
                let found = Arc::new(KnownFolders::scan(&self.folder, known.as_deref()));
                *known = Some(Arc::clone(&found));
                found
            }
        }
    }
}

impl KnownFolders {
    fn seems_current(&self) -> bool {
        self.folders.iter().all(|folder| modified(&folder.path) == folder.modified)
    }

    /// Fails if something could not be read that may contain an object which was not found.
    pub(crate) fn check_readable(&self) -> Result<(), StoreError> {
        let Some(Unreadable { action, path, source }) = &self.unreadable else { return Ok(()) };
        Err(StoreError::at(action, path, io::Error::new(source.kind(), source.to_string())))
    }

    fn scan(own: &Path, before: Option<&Self>) -> Self {
        let mut found = Self::default();
        let mut open = vec![(own.to_owned(), 0)];
        while let Some((path, depth)) = open.pop() {
            if found.folders.iter().any(|folder| folder.path == path) {
                continue;
            }
            let known = before.and_then(|before| before.folders.iter().find(|folder| folder.path == path));
            let others = found.scan_objects(&path, known.map_or(&[], |folder| &folder.known_packs));
            if depth < BORROWED_DEPTH_MAX {
                open.extend(others.into_iter().map(|path| (path, depth + 1)));
            }
        }
        found
    }

    /// Adds a folder and returns the folders that it borrows from.
    fn scan_objects(&mut self, path: &Path, before: &[KnownPack]) -> Vec<PathBuf> {
        let modified = modified(path);
        if let Err(source) = fs::read_dir(path) {
            self.miss("open the folder", path, source);
        }
        let known_packs = self.scan_packs(&path.join("pack"), before);
        let packs = known_packs.iter().filter_map(|known| known.pack.clone()).collect();
        self.folders.push(ObjectFolder { path: path.to_owned(), known_packs, packs, modified });
        let list = path.join("info/alternates");
        match open::read(&list) {
            Ok(list) => {
                let list = String::from_utf8_lossy(&list);
                let lines = list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
                lines.map(|other| path.join(other)).collect()
            }
            Err(source) => {
                self.miss_unless_absent("read", &list, source);
                Vec::new()
            }
        }
    }

    fn scan_packs(&mut self, folder: &Path, before: &[KnownPack]) -> Vec<KnownPack> {
        let (known, is_complete) = self.list_packs(folder, before);
        // Git may have replaced the pack by another one since the folder was listed; or else it is lost.
        if is_complete { known } else { self.list_packs(folder, before).0 }
    }

    /// Returns the packs, and whether each index had its pack.
    fn list_packs(&mut self, folder: &Path, before: &[KnownPack]) -> (Vec<KnownPack>, bool) {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(source) => {
                self.miss_unless_absent("open the folder", folder, source);
                return (Vec::new(), true);
            }
        };
        let (mut known, mut is_complete) = (Vec::new(), true);
        for entry in entries {
            let path = match entry {
                Ok(entry) => entry.path(),
                Err(source) => {
                    self.miss("read the folder", folder, source);
                    continue;
                }
            };
            if path.extension().is_some_and(|extension| extension == "idx") {
                match KnownPack::open(&path.with_extension("pack"), before) {
                    Ok(pack) => known.push(pack),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => is_complete = false,
                    Err(source) => self.miss("open", &path.with_extension("pack"), source),
                }
            }
        }
        (known, is_complete)
    }

    fn miss_unless_absent(&mut self, action: &'static str, path: &Path, source: io::Error) {
        if source.kind() != io::ErrorKind::NotFound {
            self.miss(action, path, source);
        }
    }

    fn miss(&mut self, action: &'static str, path: &Path, source: io::Error) {
        self.unreadable.get_or_insert_with(|| Unreadable { action, path: path.to_owned(), source });
    }
}

impl KnownPack {
    /// Opens a pack, or reuses it from `before` if it has not changed.
    fn open(path: &Path, before: &[Self]) -> io::Result<Self> {
        let index = fs::metadata(path.with_extension("idx"))?;
        let identity = [identity_of(&fs::metadata(path)?), identity_of(&index)];
        if let Some(known) = before.iter().find(|known| known.path == path && known.identity == identity) {
            return Ok(known.clone());
        }
        let pack = match Pack::open(path) {
            Ok(pack) => {
                if pack.is_doubtful {
                    tracing::warn!(pack = %path.display(), "the index of a pack is damaged; what it still leads to is \
                        read and checked; `git index-pack` on the pack rebuilds it");
                }
                Some(Arc::new(pack))
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                tracing::warn!(pack = %path.display(), %error, "a pack is damaged and is passed over; \
                    `git fsck --full` tells more");
                None
            }
            Err(error) => return Err(error),
        };
        Ok(Self { path: path.to_owned(), identity, pack })
    }
}

fn identity_of(metadata: &Metadata) -> (u64, u64, Option<SystemTime>) {
    (metadata.ino(), metadata.len(), metadata.modified().ok())
}

/// When the packs of a folder and its list of alternates were last modified.
fn modified(folder: &Path) -> [Option<SystemTime>; 2] {
    ["pack", "info/alternates"]
        .map(|name| fs::metadata(folder.join(name)).and_then(|metadata| metadata.modified()).ok())
}
