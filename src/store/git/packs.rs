//! Our packs on disk: written, remembered, merged.
//!
//! One pack a group is cheap to write and poison to keep: every reader looks through all of them.
//! [`Packs::merge_small`] merges the small ones, on the thread of `upkeep` and beside whatever the
//! writer does, and touches only packs that we wrote, listed in `collectory/packs`. The list is a
//! note, not a truth: a pack that it forgets (after a power cut) is left to `git gc`, a name in it
//! that is gone (because `git gc` ran) is dropped.
//!
//! A pack in the making is marked to be kept until [`Packs::release`]; see `marks`.
//!
//! A `git fsck` that has looked which packs there are fails when one goes before it is read. So the
//! parts of a merged pack are not removed at once: they are [spare](Packs::sweep) until the service
//! has had nothing to do for a while, or ends, or there are many of them and writes go on, when a
//! check would not be expected to stand still.
//!
//! Merging is safe against a kill at any instant. The merged pack is on disk before the first of
//! its parts is noted to be spare, and the same object in two packs is harmless. Spare parts are removed
//! at the next start, if what they were merged into is there. What is not whole is removed
//! at the next start ([`Packs::clean_up`]), and told by this:
//!
//! | left by a kill | while | so it is |
//! |---|---|---|
//! | a draft | a pack was written or removed | removed |
//! | a marked pack without its index | it got its names | removed, nothing refers to it |
//! | an index without its pack | a part was removed | removed, it holds nothing |
//! | a marked pack with its index | the branch was about to move | released |
//!
//! A pack that has lost its index in another way may hold what somebody needs, and stays.
//!
//! Merging is safe beside the writer, whose newest pack is marked. It is safe beside a `git gc` or
//! `git repack` of a person: while git says in `gc.pid` that it collects, nothing is merged; a part
//! that vanishes while it is read ends the attempt; and a pack that has anything to it but its index
//! (`.keep`, `.bitmap`, `.promisor`, `.mtimes`) or that a multi-pack index counts on is left alone.
//! All that is asked for once more right before the parts are removed.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use super::barrier::{Barrier, Unflushed, read_if_there, remove_if_there};
use super::choice::{MERGED_BYTES_MAX, Sized, chosen, objects_of};
use super::marks::Marks;
use super::pack::{Pack, is_name};
use super::place::Place;
use super::repack::merge;
use crate::store::StoreError;

/// So many packs of our own are left alone; more are merged.
pub(super) const PACKS_MAX: usize = 24;

/// So many packs of our own are a burden to every reader, so they are merged without a rest.
const CROWD_LEN: usize = 100;

/// So many parts of merged packs may be left while writes go on.
pub(super) const SPARES_MAX: usize = 300;

/// What the names of files in the making begin with. They end in neither `.pack` nor `.idx`: whatever
/// ends so is a pack to git, which would read it half-written, or count on it in a multi-pack index.
const DRAFT_PREFIX: &str = "collectory-";

/// A pack that is being removed.
const REMOVED: &str = "collectory-removed";

/// How long a `gc.pid` is believed, as by git itself (`lock_repo_for_gc` in `builtin/gc.c`).
const COLLECTING_TIME_MAX: Duration = Duration::from_secs(12 * 3_600);

/// Our packs; the writer's thread and that of the upkeep share them.
#[derive(Debug)]
pub(super) struct Packs {
    folder: PathBuf,
    marks: Marks,
    list: PathBuf,
    collecting: PathBuf,
    // The collections folder, part by part.
    parts: Vec<String>,
    // Names without their endings. Held while the list is written, too.
    ours: Mutex<BTreeSet<String>>,
    // Those of them whose objects are all in another one.
    spares: Mutex<Spares>,
}

/// Parts of merged packs, oldest merge first, each with the pack that has its objects now.
#[derive(Debug)]
struct Spares {
    note: PathBuf,
    parts: Vec<(String, String)>,
}

impl Spares {
    fn read(note: PathBuf) -> Self {
        let text = read_if_there(&note).ok().flatten().unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let pairs = text.lines().filter_map(|line| line.split_once(' '));
        let pairs = pairs.filter(|(part, whole)| is_name(part.as_bytes()) && is_name(whole.as_bytes()));
        Self { note, parts: pairs.map(|(part, whole)| (part.to_owned(), whole.to_owned())).collect() }
    }

    fn change(&mut self, change: impl FnOnce(&mut Vec<(String, String)>)) {
        let before = self.parts.len();
        change(&mut self.parts);
        if self.parts.len() != before {
            let text: String = self.parts.iter().map(|(part, whole)| format!("{part} {whole}\n")).collect();
            replace_note(&self.note, &text);
        }
    }

    fn has(&self, name: &str) -> bool {
        self.parts.iter().any(|(part, _)| part == name)
    }
}

/// A pack whose files are written and neither flushed nor named yet.
#[must_use]
#[derive(Debug)]
pub(super) struct PackDraft {
    name: String,
    files: [Unflushed; 2],
}

impl PackDraft {
    /// What there is to flush.
    pub(super) const fn files(&self) -> &[Unflushed; 2] {
        &self.files
    }
}

/// For what a pack is written; each has its own names for files in the making.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// What a write has made.
    Group,
    /// What was in several packs of ours.
    Merge,
    /// What was loose.
    Loose,
}

impl Purpose {
    const fn draft(self) -> &'static str {
        match self {
            Self::Group => "collectory-new",
            Self::Merge => "collectory-merged",
            Self::Loose => "collectory-loose",
        }
    }
}

impl Packs {
    /// Reads which packs are ours.
    pub(super) fn open(place: &Place) -> Self {
        let list = place.desk().join("packs");
        let text = read_if_there(&list).ok().flatten().unwrap_or_default();
        let names = text.split(|byte| *byte == b'\n').filter(|line| is_name(line));
        let ours = Mutex::new(names.map(|name| String::from_utf8_lossy(name).into_owned()).collect());
        let collecting = place.common_dir.join("gc.pid");
        let (folder, marks, parts) = (place.packs(), Marks::new(place), place.folder.clone());
        let spares = Mutex::new(Spares::read(place.desk().join("spare-packs")));
        Self { folder, marks, list, collecting, parts, ours, spares }
    }

    /// The folder of all objects.
    pub(super) fn objects(&self) -> &Path {
        self.folder.parent().expect("packs are below the objects")
    }

    /// The folder of the packs.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether there are so many that merging them can't wait.
    pub(super) fn are_a_crowd(&self) -> bool {
        self.needed_len() >= CROWD_LEN
    }

    /// How many of our packs have objects that no other one has.
    fn needed_len(&self) -> usize {
        self.ours().len().saturating_sub(self.spares_len())
    }

    /// How many parts of merged packs are left.
    pub(super) fn spares_len(&self) -> usize {
        self.spares().parts.len()
    }

    fn spares(&self) -> MutexGuard<'_, Spares> {
        self.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ours(&self) -> MutexGuard<'_, BTreeSet<String>> {
        // A set of names is whole whenever it can be seen.
        self.ours.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes what a killed process of ours left unfinished, and makes ready for the first pack.
    /// Only for the holder of the service lock.
    pub(super) fn clean_up(&self, barrier: &Barrier) -> Result<(), StoreError> {
        self.marks.prepare(barrier)?;
        let Ok(entries) = fs::read_dir(&self.folder) else { return Ok(()) };
        let drafts =
            entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(DRAFT_PREFIX));
        drafts.map(|entry| entry.path()).try_for_each(|path| remove_if_there(&path))?;
        for name in self.marks.all() {
            if !self.is_whole(&name) {
                remove_if_there(&self.file(&name, "idx"))?;
                remove_if_there(&self.file(&name, "pack"))?;
            }
            self.release(&name);
        }
        self.sweep()?;
        self.drop_halves()
    }

    /// Forgets packs of ours that are not whole.
    fn drop_halves(&self) -> Result<(), StoreError> {
        let ours = self.ours().clone();
        let halves: Vec<_> = ours.iter().filter(|name| !self.is_whole(name)).collect();
        for name in &halves {
            let (pack, index) = (self.file(name, "pack"), self.file(name, "idx"));
            if !pack.exists() {
                remove_if_there(&index)?;
            } else if !index.exists() {
                let path = pack.display();
                tracing::warn!(%path, "a pack has lost its index, so git can't read it; `git index-pack` makes one");
            }
        }
        self.forget(halves.into_iter());
        Ok(())
    }

    fn is_whole(&self, name: &str) -> bool {
        ["pack", "idx"].iter().all(|ending| self.file(name, ending).exists())
    }

    /// Lets git do with a pack as it likes, now that the branch refers to it.
    pub(super) fn release(&self, name: &str) {
        self.marks.remove(name);
    }

    /// Writes the files of a group's pack, for the caller to flush and then to
    /// [`finish`](Self::finish).
    pub(super) fn draft(&self, pack: &Pack, barrier: &Barrier) -> Result<PackDraft, StoreError> {
        self.draft_for(Purpose::Group, pack, barrier)
    }

    fn draft_for(&self, purpose: Purpose, pack: &Pack, barrier: &Barrier) -> Result<PackDraft, StoreError> {
        barrier.make_folder(&self.folder)?;
        let write = |ending: &str, bytes: &[u8]| Unflushed::write(self.draft_path(purpose, ending), bytes);
        let files = write("pack", &pack.pack).and_then(|file| Ok([file, write("idx", &pack.index)?]));
        if files.is_err() {
            // A full disk must not stay full because of us.
            self.drop_drafts(purpose);
        }
        Ok(PackDraft { name: pack.name.clone(), files: files? })
    }

    /// Gives a pack its name and a mark, now that its content is on disk. The folder is the
    /// caller's to flush, and the mark to [`release`](Self::release).
    pub(super) fn finish(&self, draft: PackDraft) -> Result<(), StoreError> {
        self.marks.put(&draft.name)?;
        self.remember(&draft.name);
        // Readers look for the index first, so the pack gets its name before.
        for (file, ending) in draft.files.iter().zip(["pack", "idx"]) {
            let path = self.file(&draft.name, ending);
            let finish = || {
                fs::set_permissions(file.path(), Permissions::from_mode(0o444))?;
                fs::rename(file.path(), &path)
            };
            finish().map_err(|source| StoreError::at("finish", &path, source))?;
        }
        Ok(())
    }

    /// Removes what is left of a group's pack that was not finished.
    pub(super) fn abandon(&self) {
        self.drop_drafts(Purpose::Group);
    }

    /// Removes files in the making after trouble; what can't be removed now is at the next start.
    fn drop_drafts(&self, purpose: Purpose) {
        for ending in ["pack", "idx"] {
            drop(remove_if_there(&self.draft_path(purpose, ending)));
        }
    }

    fn draft_path(&self, purpose: Purpose, ending: &str) -> PathBuf {
        self.folder.join(format!("{}-{ending}", purpose.draft()))
    }

    /// Merges small packs of ours once, if there are too many; answers whether that was done.
    pub(super) fn merge_small(&self, barrier: &Barrier, stop: &AtomicBool) -> Result<bool, StoreError> {
        if self.needed_len() <= PACKS_MAX {
            return Ok(false);
        }
        let mut sized = self.mergeable()?;
        if sized.len() <= PACKS_MAX {
            return Ok(false);
        }
        sized.sort_unstable();
        let names: Vec<String> = chosen(&sized).iter().map(|pack| pack.name.clone()).collect();
        let packs: Vec<_> = names.iter().map(|name| self.file(name, "pack")).collect();
        let Some(merged) = merge(&packs, &self.parts, stop)? else { return Ok(false) };
        self.write_whole(Purpose::Merge, &merged, None, barrier)?;
        let parts = names.into_iter().filter(|name| *name != merged.name);
        self.spares().change(|spares| spares.extend(parts.map(|part| (part, merged.name.clone()))));
        Ok(true)
    }

    /// Removes the parts of merged packs, but those that somebody has come to count on, which are as
    /// good in two packs. Answers whether there were any.
    pub(super) fn sweep(&self) -> Result<bool, StoreError> {
        let parts = self.spares().parts.clone();
        if parts.is_empty() {
            return Ok(false);
        }
        let names: Vec<String> = parts.iter().map(|(part, _)| part.clone()).collect();
        let free: BTreeSet<String> = self.free(&names)?.into_iter().collect();
        let mut removed = Vec::new();
        // In this order, what a part was merged into is there even if it is spare itself.
        for (part, whole) in &parts {
            if free.contains(part) && self.is_whole(whole) {
                self.remove(part)?;
                removed.push(part);
            }
        }
        self.forget(removed.iter().copied());
        self.spares().change(|spares| spares.retain(|spare| !parts.contains(spare)));
        Ok(!removed.is_empty())
    }

    /// Puts a pack on disk that nobody waits for, dated back if need be. What is in it is elsewhere as
    /// well, so the mark is only for a kill to leave.
    pub(super) fn write_whole(
        &self,
        purpose: Purpose,
        pack: &Pack,
        modified: Option<SystemTime>,
        barrier: &Barrier,
    ) -> Result<(), StoreError> {
        let draft = self.draft_for(purpose, pack, barrier)?;
        let [content, index] = draft.files();
        let written = modified.map_or(Ok(()), |time| content.date(time));
        let written = written.and_then(|()| barrier.files(&[content, index]));
        let written = written.and_then(|()| self.finish(draft)).and_then(|()| barrier.folder(&self.folder));
        match &written {
            Ok(()) => self.release(&pack.name),
            Err(_) => self.drop_drafts(purpose),
        }
        written
    }

    /// Removes a pack whose objects are in another one. The pack goes before its index, by a rename,
    /// so that a kill never leaves the one without the other that might be needed.
    fn remove(&self, name: &str) -> Result<(), StoreError> {
        let (pack, removed) = (self.file(name, "pack"), self.folder.join(REMOVED));
        if let Err(error) = fs::rename(&pack, &removed)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(StoreError::at("remove", &pack, error));
        }
        for ending in ["idx", "rev"] {
            remove_if_there(&self.file(name, ending))?;
        }
        remove_if_there(&removed)
    }

    /// Whether git says that somebody collects garbage.
    pub(super) fn is_git_collecting(&self) -> bool {
        let since = fs::metadata(&self.collecting).and_then(|metadata| metadata.modified());
        since.is_ok_and(|since| since.elapsed().is_ok_and(|age| age < COLLECTING_TIME_MAX))
    }

    /// Our packs that may be merged, with their sizes; forgets those that are gone.
    fn mergeable(&self) -> Result<Vec<Sized>, StoreError> {
        let mut ours = self.ours().clone();
        let spares = self.spares();
        ours.retain(|name| !spares.has(name));
        drop(spares);
        // Asked for in this order, since the mark of one in the making goes when it is whole.
        let is_there = |name: &String| self.file(name, "keep").exists() || self.is_whole(name);
        let (present, gone): (Vec<String>, Vec<String>) = ours.into_iter().partition(is_there);
        self.forget(gone.iter());
        let len = |name: &String, ending| Some(fs::metadata(self.file(name, ending)).ok()?.len());
        let sized = self.free(&present)?.into_iter().filter_map(|name| {
            let (index_len, bytes) = (len(&name, "idx")?, len(&name, "pack")?);
            Some(Sized { objects: objects_of(index_len), bytes, name })
        });
        Ok(sized.filter(|pack| pack.bytes < MERGED_BYTES_MAX).collect())
    }

    /// Those of some packs that nobody counts on at this instant; none while git collects.
    fn free(&self, names: &[String]) -> Result<Vec<String>, StoreError> {
        if self.is_git_collecting() || self.folder.join("multi-pack-index.d").is_dir() {
            return Ok(Vec::new());
        }
        let counted_on = read_if_there(&self.folder.join("multi-pack-index"))?.unwrap_or_default();
        let is_free = |name: &&String| {
            let attached = ["keep", "bitmap", "promisor", "mtimes"];
            let needle = format!("{name}.");
            !attached.iter().any(|ending| self.file(name, ending).exists())
                && !counted_on.windows(needle.len()).any(|window| window == needle.as_bytes())
        };
        Ok(names.iter().filter(is_free).cloned().collect())
    }

    fn file(&self, name: &str, ending: &str) -> PathBuf {
        self.folder.join(format!("{name}.{ending}"))
    }

    fn remember(&self, name: &str) {
        self.spares().change(|spares| spares.retain(|(part, _)| part != name));
        let mut ours = self.ours();
        if ours.insert(name.to_owned()) {
            let add = || {
                OpenOptions::new()
                    .append(true)
                    .create(true)
                    .open(&self.list)?
                    .write_all(format!("{name}\n").as_bytes())
            };
            note(&self.list, add());
        }
    }

    fn forget<'a>(&self, names: impl Iterator<Item = &'a String>) {
        let mut ours = self.ours();
        let before = ours.len();
        for name in names {
            ours.remove(name);
        }
        if ours.len() == before {
            return;
        }
        let text: String = ours.iter().map(|name| format!("{name}\n")).collect();
        replace_note(&self.list, &text);
    }
}

fn replace_note(path: &Path, text: &str) {
    let draft = path.with_extension("new");
    note(path, fs::write(&draft, text).and_then(|()| fs::rename(&draft, path)));
}

/// A note that can't be kept costs only that a pack is merged by `git gc` instead of us.
fn note(path: &Path, result: io::Result<()>) {
    if let Err(error) = result {
        tracing::warn!(%error, path = %path.display(), "cannot note a pack; `git gc` will have to merge it");
    }
}
