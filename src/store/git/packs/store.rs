//! Our packs on disk: written, and told by their names; `maintenance::merge_packs` makes fewer of them.
//!
//! Which packs we wrote their names say: they all [begin](NAME_PREFIX) alike. The rest is random, as no two packs of
//! ours may ever share a name: a `git repack -d` removes by name what it found at its beginning, and a write that is
//! repeated makes the same pack again.
//!
//! A pack in the making is marked to be kept until its [`KeepFile`] is dropped; see `keep_files`. What a kill or a power
//! cut leaves is made good at the next start ([`Packs::mend_left`], [`Packs::clean_up`]), and told by this:
//!
//! | left | while | so it is |
//! |---|---|---|
//! | a draft | a pack was written or removed | removed |
//! | a marked pack without its index | it got its names | indexed if it is whole, else removed |
//! | another pack of ours without its index | git tidied | indexed if it is whole, else told |
//! | an index without its pack | a part was removed | removed, it holds nothing |
//! | a marked pack with its index | a write was under way | looked into (`worktree::apply::interrupted`), released |
//!
//! Nothing refers to a marked pack that is not whole: its index has a name only when the contents of both
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

use crate::store::git::disk::barrier::{Barrier, Unflushed, remove_if_there};
use crate::store::git::disk::state_file::StateFile;
use crate::store::git::object::id::Oid;
use crate::store::git::object::pack::{Pack, is_name};
use crate::store::git::odb;
use crate::store::git::odb::objects::Objects;
use crate::store::git::packs::keep_files::KeepFiles;
use crate::store::git::packs::obsolete::ObsoletePacks;
use crate::store::git::repo::layout::Layout;
use crate::store::{AtPath as _, StoreError};

/// How many packs of our own are left alone; more are merged.
pub(crate) const PACKS_MAX: usize = 24;

/// How many packs of our own are a burden to every reader, so that they are merged without a rest.
const CROWD_LEN: usize = 100;

/// How long a `gc.pid` is believed, as by git itself (`lock_repo_for_gc` in `builtin/gc.c`).
const COLLECTING_TIME_MAX: Duration = Duration::from_secs(12 * 3_600);

/// The number of bytes of what deltas are against that are kept at least: enough for who follows the versions of a
/// tree.
const READER_BYTES_MIN: usize = 1 << 20;

/// What the names of files in the making begin with. They end in neither `.pack` nor `.idx`: whatever
/// ends so is a pack to git, which would read it half-written, or count on it in a multi-pack index.
const DRAFT_PREFIX: &str = "collectory-";

/// What the names of our packs begin with. Git names its own by a hash, to which no digits mean anything either
/// (gitformat-pack(5)).
const NAME_PREFIX: &str = "pack-c011ec70";

/// Our packs; the writer's thread and that of the maintenance share them.
#[derive(Debug)]
pub(crate) struct Packs {
    folder: PathBuf,
    pub(super) barrier: Barrier,
    pub(super) keep_files: KeepFiles,
    /// A folder of our own for an index in the making, for a moment.
    pub(super) scratch: PathBuf,
    /// Packs of ours that have lost their index and are damaged as well.
    pub(super) damaged: Mutex<BTreeSet<String>>,
    /// The collections folder, part by part.
    pub(crate) parts: Vec<String>,
    // Those whose objects are all in another one.
    obsolete: Mutex<ObsoletePacks>,
    /// How many of the others are to be merged some time, as was seen last, and those that were written since.
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

    /// Reads what is in them, one tree after another.
    pub(crate) fn reader(&self) -> Objects {
        let objects = Objects::at(self.objects().parent().expect("objects are in the repository"));
        objects.keeping(READER_BYTES_MIN)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether git says that somebody collects garbage.
    pub(crate) fn is_git_collecting(&self) -> bool {
        let pid = self.objects().with_file_name("gc.pid");
        let since = fs::metadata(pid).and_then(|metadata| metadata.modified());
        since.is_ok_and(|since| since.elapsed().is_ok_and(|age| age < COLLECTING_TIME_MAX))
    }

    /// Whether there are so many that merging them can't wait.
    pub(crate) fn are_a_crowd(&self) -> bool {
        self.small_len.load(Ordering::Relaxed) >= CROWD_LEN
    }

    pub(crate) fn obsolete(&self) -> MutexGuard<'_, ObsoletePacks> {
        self.obsolete.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The packs of ours that are there, or are being made.
    pub(crate) fn ours(&self) -> Vec<String> {
        self.names_with("pack").into_iter().filter(|name| is_ours(name)).collect()
    }

    /// The packs that have a mark of ours.
    fn marked(&self) -> impl Iterator<Item = String> {
        let names = self.names_with("keep").into_iter();
        names.filter(|name| is_name(name.as_bytes()) && self.keep_files.is_ours(name))
    }

    /// Of the files that end so the names in front of that.
    pub(super) fn names_with(&self, ending: &str) -> BTreeSet<String> {
        let files = fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let files = files.filter(|path| path.extension() == Some(OsStr::new(ending)));
        files.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect()
    }

    /// Removes what a killed process of ours left unfinished, and makes ready for the first pack.
    /// Only for the holder of the service lock.
    pub(crate) fn clean_up(&self) -> Result<(), StoreError> {
        self.keep_files.prepare()?;
        let Ok(entries) = fs::read_dir(&self.folder) else { return Ok(()) };
        let drafts =
            entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(DRAFT_PREFIX));
        drafts.map(|entry| entry.path()).try_for_each(|path| remove_if_there(&path))?;
        for name in self.marked() {
            if !self.is_whole(&name) {
                remove_if_there(&self.file(&name, "idx"))?;
                remove_if_there(&self.file(&name, "pack"))?;
            }
            self.keep_files.remove(&name);
        }
        self.sweep()?;
        let mut indexed = self.names_with("idx");
        indexed.retain(|name| is_ours(name) && !self.file(name, "pack").exists());
        indexed.iter().try_for_each(|name| remove_if_there(&self.file(name, "idx")))
    }

    pub(crate) fn is_whole(&self, name: &str) -> bool {
        ["pack", "idx"].iter().all(|ending| self.file(name, ending).exists())
    }

    /// The objects of each whole pack that has a mark of ours.
    pub(crate) fn kept_objects(&self) -> Result<Vec<Vec<Oid>>, StoreError> {
        let mut packs = Vec::new();
        for name in self.marked().filter(|name| self.is_whole(name)) {
            let path = self.file(&name, "pack");
            match odb::pack::Pack::open(&path) {
                Ok(mut pack) => packs.push(pack.take_places().into_iter().map(|(oid, _)| oid).collect()),
                // It is damaged, or gone meanwhile.
                Err(error) if matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::NotFound) => (),
                Err(source) => return Err(StoreError::at("read", &path, source)),
            }
        }
        Ok(packs)
    }

    /// Puts a pack on disk, durably, since only what can be found after a power cut may be named by what may survive
    /// one, and flushes `others` with its files. What it answers with keeps
    /// the pack until the branch refers to it; nobody needs that of a pack whose objects are elsewhere as well.
    pub(crate) fn write(
        self: &Arc<Self>,
        pack: &Pack,
        others: &[&Unflushed],
    ) -> Result<KeepFile, StoreError> {
        self.barrier.make_folder(self.objects(), &self.folder)?;
        let name = new_name();
        // A full disk must not stay full because of us.
        self.put(&name, pack, others).inspect_err(|_| self.drop_unfinished(&name))?;
        self.small_len.fetch_add(1, Ordering::Relaxed);
        Ok(KeepFile { packs: Arc::clone(self), name })
    }

    fn put(&self, name: &str, pack: &Pack, others: &[&Unflushed]) -> Result<(), StoreError> {
        let write = |ending, bytes| Unflushed::write(self.draft_path(name, ending), bytes);
        let (content, index) = (write("pack", &pack.pack)?, write("idx", &pack.index)?);
        self.barrier.files(&[&[&content, &index], others].concat())?;
        // The mark is there before the pack, and the pack before the index, for which readers look first.
        self.keep_files.put(name)?;
        self.give_name(&content, name, "pack")?;
        self.give_name(&index, name, "idx")?;
        self.barrier.folder(&self.folder)
    }

    /// Gives a file of a pack its name.
    pub(super) fn give_name(&self, file: &Unflushed, name: &str, ending: &str) -> Result<(), StoreError> {
        let path = self.file(name, ending);
        let finish = || {
            // As git's own: nobody writes to it, and who may read it is as for every new file.
            let readers = fs::metadata(file.path())?.permissions().mode() & 0o444;
            fs::set_permissions(file.path(), Permissions::from_mode(readers))?;
            fs::rename(file.path(), &path)
        };
        finish().at("finish", &path)
    }

    /// Removes files in the making after trouble; what can't be removed now is at the next start.
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

/// Whether a pack is one of ours.
pub(super) fn is_ours(name: &str) -> bool {
    name.starts_with(NAME_PREFIX) && is_name(name.as_bytes())
}

/// A name that no pack has.
fn new_name() -> String {
    format!("{NAME_PREFIX}{}", Uuid::new_v4().simple())
}

/// The mark of a pack that nothing refers to yet; dropped, it is taken back.
#[must_use]
#[derive(Debug)]
pub(crate) struct KeepFile {
    packs: Arc<Packs>,
    /// What the pack is called, without an ending: `pack-` and 40 digits.
    pub(crate) name: String,
}

impl Drop for KeepFile {
    fn drop(&mut self) {
        self.packs.keep_files.remove(&self.name);
    }
}
