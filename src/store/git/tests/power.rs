//! A power cut at any instant, acted out.
//!
//! What was flushed is on disk. Of everything else any part may have reached it, in any order: each
//! name of a folder is what it was when the folder was flushed last or what it is now, and the same
//! holds for each content, which may be lost altogether when it was never flushed. [`Disk`] keeps
//! account of what was flushed and makes repositories as such a power cut could leave them, which
//! git and then the service must find in order.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::super::{GitJournal, Options};
use super::support::*;
use crate::store::Journal as _;
use crate::store::git::packs::store::PACKS_MAX;

/// How many ways a power cut goes at each instant; `COLLECTORY_CRASH_ROUNDS` sets the long run.
#[expect(clippy::disallowed_methods, reason = "a test has no configuration but its environment")]
fn cuts_len() -> usize {
    std::env::var("COLLECTORY_CRASH_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2)
}

/// What stands under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    Folder,
    File { inode: u64 },
}

type Folder = HashMap<OsString, Held>;

/// What has been flushed.
struct Disk {
    root: PathBuf,
    folders: HashMap<PathBuf, Folder>,
    contents: HashMap<u64, Vec<u8>>,
    // No inode comes back for another file as long as the first one is open.
    open: HashMap<u64, File>,
    random: fastrand::Rng,
}

impl Disk {
    /// All of a repository, flushed.
    fn of(root: &Path, seed: u64) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        let (folders, contents, open) = Default::default();
        let mut disk = Self { root: root.to_owned(), folders, contents, open, random };
        disk.flush_all(root);
        disk
    }

    fn flush(&mut self, path: &Path) {
        if *path == self.root {
            // Only the whole file system is flushed by this name.
            self.flush_all(path);
        } else if path.is_dir() {
            self.folders.insert(path.to_owned(), listing(path));
        } else {
            self.flush_file(path);
        }
    }

    fn flush_file(&mut self, path: &Path) {
        let file = File::open(path).unwrap();
        let inode = file.metadata().unwrap().ino();
        self.contents.insert(inode, fs::read(path).unwrap());
        self.open.insert(inode, file);
    }

    fn flush_all(&mut self, folder: &Path) {
        let listed = listing(folder);
        for (name, held) in &listed {
            match held {
                Held::Folder => self.flush_all(&folder.join(name)),
                Held::File { .. } => self.flush_file(&folder.join(name)),
            }
        }
        self.folders.insert(folder.to_owned(), listed);
    }

    /// Makes at `target` what a power cut of this instant could leave of a folder. A file with two
    /// names is made once, and noted in `made`.
    fn cut(&mut self, folder: &Path, target: &Path, made: &mut HashMap<u64, PathBuf>) {
        fs::create_dir(target).unwrap();
        let (flushed, now) = (self.folders.get(folder).cloned().unwrap_or_default(), listing(folder));
        let names: BTreeSet<&OsString> = flushed.keys().chain(now.keys()).collect();
        for name in names {
            let of = if self.random.bool() { &flushed } else { &now };
            match of.get(name) {
                None => (),
                Some(Held::Folder) => self.cut(&folder.join(name), &target.join(name), made),
                Some(Held::File { inode }) => {
                    let target = target.join(name);
                    if let Some(made) = made.get(inode) {
                        fs::hard_link(made, target).unwrap();
                        continue;
                    }
                    let there = now.get(name) == of.get(name);
                    let content = self.content(*inode, there.then(|| folder.join(name)));
                    fs::write(&target, content).unwrap();
                    made.insert(*inode, target);
                }
            }
        }
    }

    /// What could be left of a content that is now at `path`, if anywhere.
    fn content(&mut self, inode: u64, path: Option<PathBuf>) -> Vec<u8> {
        let flushed = self.contents.get(&inode).cloned().unwrap_or_default();
        let now = path.and_then(|path| fs::read(path).ok());
        now.filter(|_| self.random.bool()).unwrap_or(flushed)
    }
}

/// The names in a folder; a folder that is not there has none.
fn listing(folder: &Path) -> Folder {
    let Ok(entries) = fs::read_dir(folder) else { return Folder::new() };
    let held = |path: PathBuf| match fs::symlink_metadata(path).unwrap() {
        metadata if metadata.is_dir() => Held::Folder,
        metadata => Held::File { inode: metadata.ino() },
    };
    entries.map(|entry| entry.unwrap()).map(|entry| (entry.file_name(), held(entry.path()))).collect()
}

/// A repository in which every flush is an occasion for power cuts.
struct Powered {
    repo: Repo,
    journal: GitJournal,
    disk: Arc<Mutex<Disk>>,
    // The head that was acknowledged last.
    acknowledged: Arc<Mutex<String>>,
}

impl Powered {
    fn new(seed: u64) -> Self {
        let repo = Repo::bare();
        repo.git(&["config", "core.logAllRefUpdates", "true"]);
        let mut journal = repo.open();
        append(&mut journal, &[set("a.yaml", "first\n")]);
        let disk = Arc::new(Mutex::new(Disk::of(&repo.path().canonicalize().unwrap(), seed)));
        let acknowledged = Arc::new(Mutex::new(repo.head().to_string()));
        journal.barrier.hook().set({
            let (disk, acknowledged) = (Arc::clone(&disk), Arc::clone(&acknowledged));
            move |path| {
                let mut disk = disk.lock().unwrap();
                survive(&mut disk, &acknowledged.lock().unwrap());
                disk.flush(path);
                Ok(())
            }
        });
        Self { repo, journal, disk, acknowledged }
    }

    /// Writes, and is cut off right after the answer.
    fn write(&mut self, text: &str) {
        append(&mut self.journal, &[set("a.yaml", text), set("b.yaml", text)]);
        *self.acknowledged.lock().unwrap() = self.repo.head().to_string();
        survive(&mut self.disk.lock().unwrap(), &self.acknowledged.lock().unwrap());
    }
}

/// Cuts the power a few times, and each time finds what was acknowledged.
fn survive(disk: &mut Disk, acknowledged: &str) {
    for _ in 0..cuts_len() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("cut.git");
        disk.cut(&disk.root.clone(), &root, &mut HashMap::new());
        remove_unknown_locks(&root);
        git_in(&root, &["fsck", "--full", "--strict", "--no-dangling"]);
        git_in(&root, &["merge-base", "--is-ancestor", acknowledged, "HEAD"]);
        let mut journal = GitJournal::open(Options::new(&root)).unwrap();
        append(&mut journal, &[set("c.yaml", "after the power cut\n")]);
        let head = journal.head().unwrap();
        assert!(files_at(&mut journal, head).contains_key("a.yaml"));
        git_in(&root, &["fsck", "--full", "--strict", "--no-dangling"]);
    }
}

/// Removes locks that have lost their private names, as a person must do then, since nobody can know any
/// more whose they are.
fn remove_unknown_locks(root: &Path) {
    for lock in ["refs/heads/main.lock", "HEAD.lock"].map(|name| root.join(name)) {
        if fs::metadata(&lock).is_ok_and(|metadata| metadata.nlink() == 1) {
            fs::remove_file(lock).unwrap();
        }
    }
}

#[test]
fn after_a_power_cut_every_acknowledged_write_is_there_and_git_finds_no_fault() {
    let mut powered = Powered::new(1);
    for round in 0..5 {
        powered.write(&format!("{round}\n"));
    }
}

#[test]
fn a_power_cut_while_git_collects_leaves_every_acknowledged_write() {
    let mut powered = Powered::new(3);
    fs::write(powered.repo.path().join("gc.pid"), "1 elsewhere").unwrap();
    for round in 0..3 {
        powered.write(&format!("{round}\n"));
    }
}

#[test]
fn a_power_cut_while_packs_are_merged_loses_nothing() {
    let mut powered = Powered::new(7);
    let hook = powered.journal.barrier.hook().take();
    for i in 0..=PACKS_MAX {
        append(&mut powered.journal, &[set("a.yaml", &format!("{i}\n"))]);
    }
    powered.disk.lock().unwrap().flush_all(&powered.repo.path().canonicalize().unwrap());
    *powered.acknowledged.lock().unwrap() = powered.repo.head().to_string();
    powered.journal.barrier.hook().put(hook);
    tend(&mut powered.journal);
    assert_eq!(powered.repo.packs().len(), 1);
    powered.write("after the merge\n");
}
