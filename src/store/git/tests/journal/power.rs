//! Simulates a power cut at any moment.
//!
//! What was flushed is on disk. Of everything else, any part may have reached the disk, in any order: each name in
//! a folder is either as of the last flush of the folder or as it is now, and the same holds for each content.
//! Content that was never flushed may be lost; the file is then empty, or contains zeros or the previous data of
//! its blocks. [`Disk`] tracks what was flushed and creates repositories as such a power cut could leave them. Git
//! and then the service must find each of them intact.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::domain::Revision;
use crate::store::git::disk::barrier::Barrier;
use crate::store::git::disk::failpoint::{Failpoint, Hook};
use crate::store::git::packs::store::PACKS_MAX;
use crate::store::git::repo::checkpoint::boot_id;
use crate::store::git::repo::init;
use crate::store::git::tests::support::*;
use crate::store::git::{GitJournal, Options};
use crate::store::{Draft, Journal as _};

/// The number of simulated power cuts at each moment; `COLLECTORY_CRASH_ROUNDS` sets it for long runs.
#[expect(clippy::disallowed_methods, reason = "a test has no configuration but its environment")]
fn cuts_len() -> usize {
    std::env::var("COLLECTORY_CRASH_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2)
}

/// What a name in a folder refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    Folder,
    File { inode: u64 },
}

type Folder = HashMap<OsString, Held>;

/// Data of another file that was in a file's blocks before.
const FOREIGN: &[u8] = b"\xff\xfePACK\0\0\0\x02";

/// The state that has been flushed.
struct Disk {
    root: PathBuf,
    folders: HashMap<PathBuf, Folder>,
    contents: HashMap<u64, Vec<u8>>,
    // Kept open so that no inode number is reused.
    open: HashMap<u64, File>,
    random: fastrand::Rng,
}

impl Disk {
    /// Starts with all of a repository flushed.
    fn of(root: &Path, seed: u64) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        let (folders, contents, open) = Default::default();
        let mut disk = Self { root: root.to_owned(), folders, contents, open, random };
        disk.flush_all(root);
        disk
    }

    fn flush(&mut self, path: &Path) {
        if path == Path::new("/") {
            self.flush_all(&self.root.clone());
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

    /// Creates at `target` what a power cut at this moment could leave of a folder. A file with two names is
    /// created once, and recorded in `made`.
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

    /// Returns what could be left of a content, which is now at `path` or nowhere.
    fn content(&mut self, inode: u64, path: Option<PathBuf>) -> Vec<u8> {
        let now = path.and_then(|path| fs::read(path).ok());
        let len = now.as_ref().map_or(0, Vec::len);
        let lost = match self.random.u8(..3) {
            0 => Vec::new(),
            1 => vec![0; len],
            _ => FOREIGN.iter().copied().cycle().take(len).collect(),
        };
        let flushed = self.contents.get(&inode).cloned().unwrap_or(lost);
        now.filter(|_| self.random.bool()).unwrap_or(flushed)
    }
}

/// Lists a folder; one that does not exist is empty.
fn listing(folder: &Path) -> Folder {
    let Ok(entries) = fs::read_dir(folder) else { return Folder::new() };
    let held = |path: PathBuf| match fs::symlink_metadata(path).unwrap() {
        metadata if metadata.is_dir() => Held::Folder,
        metadata => Held::File { inode: metadata.ino() },
    };
    entries.map(|entry| entry.unwrap()).map(|entry| (entry.file_name(), held(entry.path()))).collect()
}

/// A repository in which every flush triggers simulated power cuts.
struct Powered {
    repo: Repo,
    journal: GitJournal,
    shared: Arc<Mutex<Shared>>,
    hooks: Option<[Hook; 2]>,
}

struct Shared {
    disk: Disk,
    acknowledged: String,
    /// The expected output of `git status` after a start.
    status: &'static str,
}

/// The expected status when a person has an uncommitted edit.
const EDITED: &str = " M collections/mine.yaml\n";

impl Powered {
    fn new(seed: u64) -> Self {
        let repo = Repo::bare();
        repo.git(&["config", "core.logAllRefUpdates", "true"]);
        let mut journal = repo.open();
        append(&mut journal, &[set("a.yaml", "first\n")]);
        Self::of(repo, journal, "", seed)
    }

    /// Creates one with a work tree, in which a person has edited a file.
    fn with_work_tree(seed: u64) -> Self {
        let repo = Repo::new();
        repo.commit(&[("mine.yaml", "mine\n")]);
        repo.save("mine.yaml", "mine, edited\n");
        let mut journal = repo.open();
        append(&mut journal, &[set("a.yaml", "first\n")]);
        Self::of(repo, journal, EDITED, seed)
    }

    fn of(repo: Repo, journal: GitJournal, status: &'static str, seed: u64) -> Self {
        let disk = Disk::of(&repo.path().canonicalize().unwrap(), seed);
        let shared = Shared { disk, acknowledged: repo.head().to_string(), status };
        let shared = Arc::new(Mutex::new(shared));
        let hooks = cut_at_every_step(&repo, &shared);
        Self { repo, journal, shared, hooks: Some(hooks) }
    }

    /// Writes, and cuts the power right after the write is acknowledged.
    fn write(&mut self, drafts: &[Draft]) {
        append(&mut self.journal, drafts);
        let mut shared = self.shared.lock().unwrap();
        shared.acknowledged = self.repo.head().to_string();
        shared.survive();
    }
}

/// Cuts the power before every flush and between the steps of a write.
fn cut_at_every_step(repo: &Repo, shared: &Arc<Mutex<Shared>>) -> [Hook; 2] {
    let at_flushes = repo.on_flush({
        let shared = Arc::clone(shared);
        move |path| {
            let mut shared = shared.lock().unwrap();
            shared.survive();
            shared.disk.flush(path);
            Ok(())
        }
    });
    let shared = Arc::clone(shared);
    [at_flushes, repo.meanwhile(move || shared.lock().unwrap().survive())]
}

impl Shared {
    /// Cuts the power a few times, and each time checks that the acknowledged head is there.
    fn survive(&mut self) {
        for _ in 0..cuts_len() {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path().join("settings");
            self.disk.cut(&self.disk.root.clone(), &root, &mut HashMap::new());
            let git_dir = if root.join(".git").exists() { root.join(".git") } else { root.clone() };
            restart(&git_dir);
            self.judge(&root);
        }
    }

    fn judge(&self, root: &Path) {
        // Until the service has run, the index may be damaged.
        if is_index_whole(root) {
            check(root);
        }
        git_in(root, &["merge-base", "--is-ancestor", &self.acknowledged, "HEAD"]);
        let mut journal = GitJournal::open(Options::new(root)).unwrap();
        journal.catch_up().unwrap();
        self.check_work_tree(root);
        append(&mut journal, &[set("z.yaml", "after the power cut\n")]);
        self.check_work_tree(root);
        let head = journal.head().unwrap();
        assert!(files_at(&mut journal, head).contains_key("a.yaml"));
        check(root);
    }

    /// Checks that `git status` reports no edits but the person's.
    #[track_caller]
    fn check_work_tree(&self, root: &Path) {
        if root.join(".git").exists() {
            assert_eq!(git_in(root, &["status", "--porcelain"]), self.status);
        }
    }
}

#[track_caller]
fn check(root: &Path) {
    git_in(root, &["fsck", "--full", "--strict", "--no-dangling"]);
}

fn is_index_whole(root: &Path) -> bool {
    let mut command = std::process::Command::new("git");
    command.current_dir(root).args(["ls-files", "--cached"]);
    !root.join(".git/index").exists() || command.output().unwrap().status.success()
}

/// Turns a repository that a power cut left into one on a rebooted system.
fn restart(git_dir: &Path) {
    let note = git_dir.join("collectory/work-tree");
    if let Ok(text) = fs::read_to_string(&note) {
        fs::write(&note, text.replace(&boot_id(), &"x".repeat(boot_id().len()))).unwrap();
    }
    remove_unknown_locks(git_dir);
}

/// Removes locks that have lost their private names, as a person has to do, because their owner can't be determined
/// any more.
fn remove_unknown_locks(git_dir: &Path) {
    for lock in ["refs/heads/main.lock", "HEAD.lock", "index.lock"].map(|name| git_dir.join(name)) {
        if fs::metadata(&lock).is_ok_and(|metadata| metadata.nlink() == 1) {
            fs::remove_file(lock).unwrap();
        }
    }
}

#[test]
fn after_a_power_cut_every_acknowledged_write_is_there_and_git_finds_no_fault() {
    let mut powered = Powered::new(1);
    for round in 0..5 {
        let text = format!("{round}\n");
        powered.write(&[set("a.yaml", &text), set("b.yaml", &text)]);
    }
}

#[test]
fn a_power_cut_while_git_collects_leaves_every_acknowledged_write() {
    let mut powered = Powered::new(3);
    fs::write(powered.repo.path().join("gc.pid"), "1 elsewhere").unwrap();
    for round in 0..3 {
        powered.write(&[set("a.yaml", &format!("{round}\n"))]);
    }
}

#[test]
fn a_power_cut_while_packs_are_merged_loses_nothing() {
    let mut powered = Powered::new(7);
    powered.hooks.take();
    for i in 0..=PACKS_MAX {
        append(&mut powered.journal, &[set("a.yaml", &format!("{i}\n"))]);
    }
    {
        let mut shared = powered.shared.lock().unwrap();
        shared.disk.flush_all(&powered.repo.path().canonicalize().unwrap());
        shared.acknowledged = powered.repo.head().to_string();
    }
    powered.hooks = Some(cut_at_every_step(&powered.repo, &powered.shared));
    run_maintenance(&mut powered.journal);
    assert_eq!(powered.repo.packs().len(), 1);
    powered.write(&[set("a.yaml", "after the merge\n")]);
}

#[test]
fn after_a_power_cut_nothing_is_edited_or_staged_that_nobody_has() {
    let mut powered = Powered::with_work_tree(11);
    for round in 0..2 {
        powered.write(&[set("a.yaml", &format!("{round}\n")), set(&format!("b{round}.yaml"), "b\n")]);
        powered.write(&[remove(&format!("b{round}.yaml")), set("c.yaml", &format!("{round}\n"))]);
    }
}

#[test]
fn a_power_cut_takes_back_nothing_that_was_deleted_or_undone_after_a_rest() {
    let mut powered = Powered::with_work_tree(12);
    for _ in 0..2 {
        powered.write(&[set("b.yaml", "created\n"), set("a.yaml", "changed\n")]);
        // Everything is flushed, except the record that it was.
        run_maintenance(&mut powered.journal);
        powered.write(&[remove("b.yaml"), set("a.yaml", "first\n")]);
    }
}

#[test]
fn a_power_cut_at_the_first_start_leaves_what_can_be_started() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let disk = Arc::new(Mutex::new(Disk::of(&root, 13)));
    let _hook = Hook::new(&root, {
        let disk = Arc::clone(&disk);
        move |step, path| {
            let mut disk = disk.lock().unwrap();
            match step {
                Failpoint::Flush | Failpoint::FlushFileSystem => start_again(&mut disk, None),
                _ => return Ok(()),
            }
            disk.flush(if step == Failpoint::Flush { path } else { Path::new("/") });
            Ok(())
        }
    });
    let path = root.join("settings");
    assert!(init::init(&path, init::NewRepository::default(), &Barrier::default()).unwrap());
    start_again(&mut disk.lock().unwrap(), None);
    let options = Options { lock_wait_ms_max: 0, ..Options::new(&path) };
    let mut journal = GitJournal::open(options).unwrap();
    journal.catch_up().unwrap();
    for round in 0..3 {
        append(&mut journal, &[set("a.yaml", &format!("{round}\n"))]);
        let head = journal.head().unwrap();
        start_again(&mut disk.lock().unwrap(), head);
    }
}

/// Cuts the power a few times, and each time starts the service as if for the first time.
fn start_again(disk: &mut Disk, acknowledged: Option<Revision>) {
    for _ in 0..cuts_len() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("cut");
        disk.cut(&disk.root.clone(), &root, &mut HashMap::new());
        let path = root.join("settings");
        restart(&path.join(".git"));
        GitJournal::init(&path).unwrap();
        let mut journal = GitJournal::open(Options::new(&path)).unwrap();
        journal.catch_up().unwrap();
        if let Some(acknowledged) = acknowledged {
            let head = journal.head().unwrap().unwrap();
            assert!(journal.commits().descends(head, acknowledged).unwrap());
        }
        assert_eq!(git_in(&path, &["status", "--porcelain"]), "");
        append(&mut journal, &[set("z.yaml", "after the power cut\n")]);
        assert_eq!(git_in(&path, &["status", "--porcelain"]), "");
        check(&path);
    }
}

#[test]
fn an_index_that_a_restart_left_with_bytes_of_another_file_is_made_anew_and_the_bytes_are_kept() {
    let repo = Repo::new();
    repo.commit(&[("mine.yaml", "mine\n")]);
    append(&mut repo.open(), &[set("a.yaml", "a1\n")]);
    repo.save("mine.yaml", "mine, edited\n");
    let git_dir = repo.path().join(".git");
    fs::write(git_dir.join("index"), FOREIGN).unwrap();
    repo.git_fails(&["status"]);
    restart(&git_dir);
    let mut journal = repo.open();
    journal.catch_up().unwrap();
    assert_eq!(repo.status(), EDITED);
    assert_eq!(fs::read(git_dir.join("collectory/kept-index")).unwrap(), FOREIGN);
    append(&mut journal, &[set("a.yaml", "a2\n")]);
    assert_eq!((repo.status().as_str(), repo.saved("a.yaml").as_str()), (EDITED, "a2\n"));
    check(repo.path());
}

#[test]
fn the_index_names_new_objects_only_when_their_pack_has_its_name_for_good() {
    let repo = Repo::new();
    let mut journal = repo.open();
    append(&mut journal, &[set("a.yaml", "a1\n")]);
    let (index, packs) = (repo.path().join(".git/index"), journal.writer.packs.folder().to_owned());
    let before = fs::read(&index).unwrap();
    let flushed = Arc::new(Mutex::new(0));
    let _hook = repo.on_flush({
        let (index, before, flushed) = (index.clone(), before.clone(), Arc::clone(&flushed));
        move |path| {
            if path == packs {
                assert_eq!(fs::read(&index).unwrap(), before);
                *flushed.lock().unwrap() += 1;
            }
            Ok(())
        }
    });
    append(&mut journal, &[set("a.yaml", "a2\n")]);
    assert_eq!(*flushed.lock().unwrap(), 1);
    assert_ne!(fs::read(&index).unwrap(), before);
}
