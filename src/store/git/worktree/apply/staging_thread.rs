//! Drafts that are made ahead, on a thread of their own, while a group of commits is built and flushed.
//!
//! Making a file is the dearest part of bringing a work tree up to a group, and until the branch has moved
//! there is time for it. But a draft that is made ahead may have a content that never gets into git, and
//! after a kill nobody could tell it from what a person saved. So as long as such drafts may only have
//! been made and none has changed places with a file, a mark says so, in a file of our own.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};

use rustix::fs::{FileType, Mode};

use crate::store::Draft;
use crate::store::git::disk::stamp::{Inode, kind};
use crate::store::git::disk::worker::Helper;
use crate::store::git::index::file::{IndexDraft, Purpose};
use crate::store::git::object::tree::{EXECUTABLE, FILE};
use crate::store::git::repo::checkpoint::system_id;
use crate::store::git::repo::layout::Place;
use crate::store::git::worktree::apply::staging::{Desk, ahead_draft_of, mode_of};
use crate::store::git::worktree::scan::folder::{Folder, Found};

/// How many drafts are made ahead; the others are made one after the other.
const DRAFTS_LEN_MAX: usize = 256;

/// For what a group needs an index, in this order.
const INDEXES: [Purpose; 2] = [Purpose::Ahead, Purpose::Last];

/// The mark while drafts are only made, and after; both are as long.
const MADE: &str = "made";
const USED: &str = "used";

/// The thread that makes drafts.
#[derive(Debug)]
pub(crate) struct Drafter {
    thread: Helper<Job>,
    mark: OnceLock<Option<Mark>>,
}

impl Default for Drafter {
    fn default() -> Self {
        Self { thread: Helper::new("drafter", 1, Job::carry_out), mark: OnceLock::new() }
    }
}

/// What is to be made.
#[derive(Debug)]
struct Job {
    desk: Arc<Desk>,
    folder: Folder,
    files: BTreeMap<String, Vec<u8>>,
    made: SyncSender<Made>,
    own: PathBuf,
    indexes: SyncSender<(Purpose, IndexDraft)>,
}

/// The drafts that were made, by the names of their files.
type Made = BTreeMap<String, Ahead>;

/// A draft that was made ahead.
#[derive(Debug)]
struct Ahead {
    inode: Inode,
    /// The mode of the file that stood there then.
    replaced: Option<Mode>,
}

/// Drafts that are being made; dropped, those that were not [taken](Self::take) are removed.
#[must_use]
#[derive(Debug)]
pub(crate) struct Drafts {
    desk: Arc<Desk>,
    mark: Mark,
    coming: Receiver<Made>,
    made: Made,
    /// Drafts of the index.
    indexes: Receiver<(Purpose, IndexDraft)>,
}

impl Drafter {
    /// Begins to make the files that a group leaves behind; `None` if that can't be done ahead.
    pub(crate) fn begin(&self, place: &Place, group: &[Draft]) -> Option<Drafts> {
        let Ok(Found::Folder(folder)) = Folder::collections(place, false) else { return None };
        let thread = self.thread.get()?;
        let desk = Arc::new(Desk::near(place, &folder).ok().filter(Desk::is_apart)?);
        let mark = self.mark.get_or_init(|| Mark::open(place).ok()).clone()?;
        mark.set(MADE).ok()?;
        let (made, coming) = sync_channel(1);
        let (to_indexes, indexes) = sync_channel(INDEXES.len());
        thread
            .send(Job {
                desk: Arc::clone(&desk),
                folder,
                files: left_behind(group),
                made,
                own: place.work_tree_desk(),
                indexes: to_indexes,
            })
            .ok()?;
        Some(Drafts { desk, mark, coming, made: Made::new(), indexes })
    }
}

/// The files that a group leaves behind, as many as are made ahead.
fn left_behind(group: &[Draft]) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for (name, content) in group.iter().flat_map(|draft| &draft.files) {
        match content {
            Some(content) if files.len() < DRAFTS_LEN_MAX || files.contains_key(name) => {
                files.insert(name.clone(), content.clone());
            }
            Some(_) => (),
            None => drop(files.remove(name)),
        }
    }
    files
}

impl Job {
    /// Makes what can be made; whoever needs the others makes them, and tells why they can't be.
    fn carry_out(self) {
        for purpose in INDEXES {
            // It is asked for first.
            match IndexDraft::make(&self.own, purpose) {
                Ok(draft) => drop(self.indexes.send((purpose, draft))),
                Err(error) => tracing::debug!(%error, "an index was not made ahead"),
            }
        }
        let mut made = Made::new();
        for (name, content) in self.files {
            let Ok(stat) = self.folder.stat(&name) else { continue };
            if stat.is_some_and(|stat| kind(&stat) != FileType::RegularFile) {
                continue;
            }
            let replaced = stat.as_ref().map(mode_of);
            match self.desk.write_new(&ahead_draft_of(&name), (FILE, &content), replaced) {
                Ok(inode) => drop(made.insert(name, Ahead { inode, replaced })),
                Err(error) => tracing::debug!(%error, "a draft was not made ahead"),
            }
        }
        // Whoever has found other trouble removes them.
        drop(self.made.send(made));
    }
}

impl Drafts {
    /// Waits until all are made, and says that they are used from now on; answers whether they can be, for
    /// files of this folder.
    pub(crate) fn are_for(&mut self, folder: &Folder) -> bool {
        self.wait();
        self.desk.is_near(folder) && self.mark.set(USED).is_ok()
    }

    /// The desk that they are in.
    pub(crate) fn desk(&self) -> Arc<Desk> {
        Arc::clone(&self.desk)
    }

    /// Takes the draft of an index; those are for one purpose after the other.
    pub(crate) fn take_index(&self, purpose: Purpose) -> Option<IndexDraft> {
        let (made_for, draft) = self.indexes.recv().ok()?;
        (made_for == purpose).then_some(draft)
    }

    /// Takes the draft of a file that has this mode in the head, and that one in the work tree.
    pub(crate) fn take(&mut self, name: &str, mode: u32, replaced: Option<Mode>) -> Option<(String, Inode)> {
        let fits = self.made.get(name)?.replaced == replaced && (mode != EXECUTABLE || replaced.is_some());
        let made = if fits { self.made.remove(name) } else { None };
        made.map(|made| (ahead_draft_of(name), made.inode))
    }

    fn wait(&mut self) {
        self.made.append(&mut self.coming.recv().unwrap_or_default());
    }
}

impl Drop for Drafts {
    fn drop(&mut self) {
        self.wait();
        for name in self.made.keys() {
            if let Err(error) = self.desk.remove(&ahead_draft_of(name)) {
                tracing::debug!(%error, "a draft that was not used is left behind");
            }
        }
    }
}

/// Whether drafts that were made ahead can have changed places with files.
#[derive(Debug, Clone)]
struct Mark {
    file: Arc<File>,
    system: Arc<str>,
}

impl Mark {
    fn open(place: &Place) -> io::Result<Self> {
        let file = File::options().write(true).create(true).truncate(false).open(mark_of(place))?;
        Ok(Self { file: Arc::new(file), system: system_id().into() })
    }

    /// Each takes as many bytes, so there is never half of one.
    fn set(&self, what: &str) -> io::Result<()> {
        self.file.write_all_at(mark(what, &self.system).as_bytes(), 0)
    }
}

/// What the mark is as long as this system runs; one of another start says nothing, since nobody flushed it.
fn mark(what: &str, system: &str) -> String {
    format!("{what} {system}\n")
}

/// Where the mark is: who serves in one work tree may find what was left by another.
fn mark_of(place: &Place) -> PathBuf {
    place.desk().join("drafts")
}

/// Whether no draft that was made ahead and is left can be what a person saved.
pub(crate) fn none_was_used(place: &Place) -> bool {
    fs::read_to_string(mark_of(place)).is_ok_and(|found| found == mark(MADE, &system_id()))
}
