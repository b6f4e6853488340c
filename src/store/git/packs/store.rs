//! Our packs on disk: written, and recognised by their names; `maintenance::packing::merge_packs` reduces their number.
//!
//! The names of all our packs [begin](NAME_PREFIX) alike. The rest of a name is random, because no two of our packs
//! may ever share a name: `git repack -d` removes packs by the names that it found when it started, and a repeated
//! write produces the same pack again.
//!
//! A pack that is being written has a `.keep` file until its [`KeepFile`] is dropped; see `keep_files`. Leftovers of a
//! kill or a power cut are repaired at the next start ([`Packs::rebuild_all_lost_indexes`], [`Packs::clean_up`]), and
//! recognised as follows:
//!
//! | left behind | interrupted operation | remedy |
//! |---|---|---|
//! | a draft | a pack was written or removed | removed |
//! | a pack with our `.keep` and no index | files were given their names | indexed if it is whole, else removed |
//! | another pack of ours without its index | git removed garbage | indexed if it is whole, else logged |
//! | an index without its pack | an obsolete pack was removed | removed, it is useless |
//! | a pack with our `.keep` and its index | a write | examined (`worktree::apply::repair::interrupted`), then released |
//!
//! Nothing refers to a pack with a `.keep` that is not whole: its index gets its name only when the contents of both
//! are on disk, and the branch moves after that.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use uuid::Uuid;

use crate::store::git::disk::barrier::{Barrier, UnflushedFile, remove_if_there};
use crate::store::git::disk::state_file::StateFile;
use crate::store::git::object::id::Oid;
use crate::store::git::object::pack::{EncodedPack, is_name};
use crate::store::git::odb;
use crate::store::git::odb::objects::Objects;
use crate::store::git::packs::keep_files::KeepFiles;
use crate::store::git::packs::obsolete::ObsoletePacks;
use crate::store::git::repo::layout::Layout;
use crate::store::{AtPath as _, StoreError};

/// How many of our packs are left alone; more than that are merged.
pub(crate) const PACKS_MAX: usize = 24;

/// How many of our packs slow every reader down so much that they are merged without a pause.
const CROWD_LEN: usize = 100;

/// How long a `gc.pid` is trusted, as in git itself (`lock_repo_for_gc` in `builtin/gc.c`).
const COLLECTING_TIME_MAX: Duration = Duration::from_secs(12 * 3_600);

/// The minimum size of the delta base cache: enough for reading the versions of a tree one after another.
const READER_BYTES_MIN: usize = 1 << 20;

/// The prefix of drafts. They end in neither `.pack` nor `.idx`: git takes any such file for a pack, and would read
/// it half-written or include it in a multi-pack index.
const DRAFT_PREFIX: &str = "collectory-";

/// The prefix of our packs' names. Git names its packs by a hash and attaches no meaning to the digits either
/// (gitformat-pack(5)).
const NAME_PREFIX: &str = "pack-c011ec70";

/// Our packs; the writer thread and the maintenance thread share them.
#[derive(Debug)]
pub(crate) struct Packs {
    folder: PathBuf,
    pub(super) barrier: Barrier,
    pub(super) keep_files: KeepFiles,
    /// A temporary folder for the draft of an index.
    pub(super) scratch: PathBuf,
    /// Our packs that have lost their index and are damaged as well.
    pub(super) damaged: Mutex<BTreeSet<String>>,
    /// The components of the collections folder.
    pub(crate) parts: Vec<String>,
    // Packs whose objects are all in another one.
    obsolete: Mutex<ObsoletePacks>,
    /// The number of the other packs that are to be merged some time: as last counted, plus those written since.
    pub(crate) small_len: AtomicUsize,
}

impl Packs {
    pub(crate) fn open(layout: &Layout, barrier: &Barrier) -> Self {
        let (folder, state) = (layout.packs(), layout.state());
        let obsolete = ObsoletePacks::read(StateFile::new(&state, "spare-packs", barrier));
        let obsolete_len = obsolete.len();
        let packs = Self {
            barrier: barrier.clone(),
            keep_files: KeepFiles::new(layout, barrier),
            scratch: state.join("scratch-index"),
            obsolete: Mutex::new(obsolete),
            parts: layout.folder.clone(),
            damaged: Mutex::default(),
            small_len: AtomicUsize::default(),
            folder,
        };
        packs.small_len.store(packs.ours().len().saturating_sub(obsolete_len), Ordering::Relaxed);
        packs
    }

    pub(crate) fn objects(&self) -> &Path {
        self.folder.parent().expect("packs are below the objects")
    }

    /// Creates a reader of our packs for one tree after another.
    pub(crate) fn reader(&self) -> Objects {
        let objects = Objects::at(self.objects().parent().expect("objects are in the repository"));
        objects.keeping(READER_BYTES_MIN)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Reports whether git's lock file says that a garbage collection is running.
    pub(crate) fn is_git_collecting(&self) -> bool {
        let pid = self.objects().with_file_name("gc.pid");
        let since = fs::metadata(pid).and_then(|metadata| metadata.modified());
        since.is_ok_and(|since| since.elapsed().is_ok_and(|age| age < COLLECTING_TIME_MAX))
    }

    /// Reports whether there are so many packs that merging them can't wait.
    pub(crate) fn is_merge_urgent(&self) -> bool {
        self.small_len.load(Ordering::Relaxed) >= CROWD_LEN
    }

    pub(crate) fn obsolete(&self) -> MutexGuard<'_, ObsoletePacks> {
        self.obsolete.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns our packs that exist or are being written; none if that can't be determined.
    pub(crate) fn ours(&self) -> Vec<String> {
        self.names_with("pack").unwrap_or_default().into_iter().filter(|name| is_ours(name)).collect()
    }

    /// Returns the packs that have a `.keep` file of ours.
    fn marked(&self) -> Result<Vec<String>, StoreError> {
        let mut marked = Vec::new();
        for name in self.names_with("keep")? {
            if is_name(name.as_bytes()) && self.keep_files.is_ours(&name)? {
                marked.push(name);
            }
        }
        Ok(marked)
    }

    /// Returns the stems of the files with this extension.
    pub(super) fn names_with(&self, ending: &str) -> Result<BTreeSet<String>, StoreError> {
        let mut names = BTreeSet::new();
        for entry in fs::read_dir(&self.folder).at_if_there("read", &self.folder)?.into_iter().flatten() {
            let path = entry.at("read", &self.folder)?.path();
            if path.extension() == Some(OsStr::new(ending)) {
                names.extend(path.file_stem().and_then(OsStr::to_str).map(str::to_owned));
            }
        }
        Ok(names)
    }

    /// Removes what a killed process of ours left unfinished, and prepares for the first pack. Only for the holder
    /// of the service lock. While the write that was under way `is_unmended`, its `.keep` file stays.
    pub(crate) fn clean_up(&self, is_unmended: bool) -> Result<(), StoreError> {
        self.keep_files.prepare()?;
        fs::remove_dir_all(&self.scratch).at_if_there("remove", &self.scratch)?;
        let Ok(entries) = fs::read_dir(&self.folder) else { return Ok(()) };
        let drafts =
            entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(DRAFT_PREFIX));
        drafts.map(|entry| entry.path()).try_for_each(|path| remove_if_there(&path))?;
        for name in self.marked()? {
            if !self.is_whole(&name)? {
                remove_if_there(&self.file(&name, "idx"))?;
                remove_if_there(&self.file(&name, "pack"))?;
            } else if is_unmended {
                continue;
            }
            self.keep_files.remove(&name);
        }
        self.remove_obsolete()?;
        for name in self.names_with("idx")?.into_iter().filter(|name| is_ours(name)) {
            if !self.has(&name, "pack")? {
                remove_if_there(&self.file(&name, "idx"))?;
            }
        }
        Ok(())
    }

    pub(super) fn has(&self, name: &str, ending: &str) -> Result<bool, StoreError> {
        let path = self.file(name, ending);
        path.try_exists().at("look at", &path)
    }

    pub(crate) fn is_whole(&self, name: &str) -> Result<bool, StoreError> {
        Ok(self.has(name, "pack")? && self.has(name, "idx")?)
    }

    /// Returns the objects of each whole pack that has a `.keep` file of ours.
    pub(crate) fn kept_objects(&self) -> Result<Vec<Vec<Oid>>, StoreError> {
        let mut packs = Vec::new();
        for name in self.marked()? {
            if !self.is_whole(&name)? {
                continue;
            }
            let path = self.file(&name, "pack");
            match odb::pack::Pack::open(&path) {
                Ok(mut pack) => packs.push(pack.take_places().into_iter().map(|(oid, _)| oid).collect()),
                // The pack is damaged, or has been removed in the meantime.
                Err(error) if matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::NotFound) => (),
                Err(source) => return Err(StoreError::at("read", &path, source)),
            }
        }
        Ok(packs)
    }

    /// Writes a pack, durably, because a reference that may survive a power cut must not name objects that may not;
    /// flushes `others` with its files. The returned guard protects the pack until the branch refers to it. A pack
    /// whose objects exist elsewhere too needs no protection.
    pub(crate) fn write(
        self: &Arc<Self>,
        pack: &EncodedPack,
        others: &[&UnflushedFile],
    ) -> Result<KeepFile, StoreError> {
        self.barrier.make_folder(self.objects(), &self.folder)?;
        let name = new_name();
        // The space is freed, so that our leftovers don't keep a full disk full.
        self.put(&name, pack, others).inspect_err(|_| self.drop_unfinished(&name))?;
        self.small_len.fetch_add(1, Ordering::Relaxed);
        Ok(KeepFile { packs: Arc::clone(self), name })
    }

    fn put(&self, name: &str, pack: &EncodedPack, others: &[&UnflushedFile]) -> Result<(), StoreError> {
        let write = |ending, bytes| UnflushedFile::write(self.draft_path(name, ending), bytes);
        let (content, index) = (write("pack", &pack.pack)?, write("idx", &pack.index)?);
        self.barrier.files(&[&[&content, &index], others].concat())?;
        // The `.keep` file is created before the pack, and the pack before the index, which readers look for first.
        self.keep_files.put(name)?;
        self.give_name(&content, name, "pack")?;
        self.give_name(&index, name, "idx")?;
        self.barrier.folder(&self.folder)
    }

    /// Renames a draft to its final name.
    pub(super) fn give_name(&self, file: &UnflushedFile, name: &str, ending: &str) -> Result<(), StoreError> {
        let path = self.file(name, ending);
        let finish = || {
            // As for git's own packs: read-only, and readable by those who may read any new file.
            let readers = fs::metadata(file.path())?.permissions().mode() & 0o444;
            fs::set_permissions(file.path(), Permissions::from_mode(readers))?;
            fs::rename(file.path(), &path)
        };
        finish().at("finish", &path)
    }

    /// Removes drafts after an error; what can't be removed now is removed at the next start.
    fn drop_unfinished(&self, name: &str) {
        for ending in ["pack", "idx"] {
            drop(remove_if_there(&self.draft_path(name, ending)));
        }
        if !self.file(name, "idx").exists() {
            drop(remove_if_there(&self.file(name, "pack")));
            self.keep_files.remove(name);
        }
    }

    pub(super) fn draft_path(&self, name: &str, ending: &str) -> PathBuf {
        self.folder.join(format!("{DRAFT_PREFIX}{name}-{ending}"))
    }

    pub(crate) fn file(&self, name: &str, ending: &str) -> PathBuf {
        self.folder.join(format!("{name}.{ending}"))
    }
}

pub(super) fn is_ours(name: &str) -> bool {
    name.starts_with(NAME_PREFIX) && is_name(name.as_bytes())
}

fn new_name() -> String {
    format!("{NAME_PREFIX}{}", Uuid::new_v4().simple())
}

/// Guards a pack that nothing refers to yet; removes its `.keep` file on drop.
#[must_use]
#[derive(Debug)]
pub(crate) struct KeepFile {
    packs: Arc<Packs>,
    /// The name of the pack without extension: `pack-` and 40 digits.
    pub(crate) name: String,
}

impl Drop for KeepFile {
    fn drop(&mut self) {
        self.packs.keep_files.remove(&self.name);
    }
}
