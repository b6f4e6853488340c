//! A repository in a temporary folder, and the real `git` to verify it.

mod history;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;

use chrono::DateTime;
pub(crate) use history::{CommitSpec, NewEntry, archive_at};
use rustix::io::Errno;
use tempfile::TempDir;

use crate::domain::{Actor, Revision};
use crate::store::git::disk::failpoint::{Failpoint, Hook};
use crate::store::git::{Access, GitJournal, Options};
use crate::store::{
    BlobId, Committed, Draft, Edit, GitLocks, Journal as _, Metrics, Paths, StoreError, TreeEntry, WorkTree,
    WorkTreeEntry,
};
use crate::telemetry::metrics::Histogram;

/// A repository that is removed when the test ends.
pub(crate) struct Repo {
    folder: TempDir,
    path: PathBuf,
    collections: &'static str,
}

impl Repo {
    /// Creates one with a work tree, as the service does.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("settings");
        assert!(GitJournal::init(&path).unwrap());
        Self { folder, path, collections: "collections" }
    }

    /// Creates one without a work tree, as git does.
    pub(crate) fn bare() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("settings.git");
        git_in(folder.path(), &["init", "-q", "--bare", "-b", "main", "settings.git"]);
        Self { folder, path, collections: "collections" }
    }

    /// Creates one without a work tree, with the collections in another folder.
    pub(crate) fn bare_with(collections: &'static str) -> Self {
        Self { collections, ..Self::bare() }
    }

    /// The temporary folder that contains the repository.
    pub(crate) fn outside(&self) -> &Path {
        self.folder.path()
    }

    /// Calls `act` before every step of the journal that serves it; an error makes the step fail.
    pub(crate) fn on_step(
        &self,
        act: impl FnMut(Failpoint<'_>, &Path) -> io::Result<()> + Send + 'static,
    ) -> Hook {
        Hook::new(&self.path, act)
    }

    /// Calls `act` with each path about to be flushed, `/` for a whole file system.
    pub(crate) fn on_flush(&self, mut act: impl FnMut(&Path) -> io::Result<()> + Send + 'static) -> Hook {
        self.on_step(move |step, path| match step {
            Failpoint::Flush => act(path),
            Failpoint::FlushFileSystem => act(Path::new("/")),
            _ => Ok(()),
        })
    }

    /// Calls `act` between the steps of a write.
    pub(crate) fn meanwhile(&self, mut act: impl FnMut() + Send + 'static) -> Hook {
        self.on_step(move |step, _| {
            if matches!(step, Failpoint::MoveBranch | Failpoint::UpdateWorkTree | Failpoint::LockIndex) {
                act();
            }
            Ok(())
        })
    }

    /// Makes every write fail before a step.
    pub(crate) fn stop_at(&self, stop: Failpoint<'static>) -> Hook {
        let stopped = || io::Error::other("stopped on demand");
        self.on_step(move |step, _| if step == stop { Err(stopped()) } else { Ok(()) })
    }

    /// Makes opening files of the work tree fail.
    pub(crate) fn fail_to_open(&self, fault: fn(&OsStr) -> Option<Errno>) -> Hook {
        self.on_step(move |step, _| match step {
            Failpoint::Open(name) => fault(name).map_or(Ok(()), |errno| Err(errno.into())),
            _ => Ok(()),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn options(&self) -> Options {
        Options { lock_wait_ms_max: 0, ..Options::new(&self.path) }
    }

    pub(crate) fn open(&self) -> GitJournal {
        GitJournal::open(self.options()).unwrap()
    }

    pub(crate) fn open_to_read(&self) -> GitJournal {
        GitJournal::open(Options { access: Access::Read, ..self.options() }).unwrap()
    }

    /// Runs git, which must succeed, and returns its output.
    #[track_caller]
    pub(crate) fn git(&self, args: &[&str]) -> String {
        git_in(&self.path, args)
    }

    /// Runs git, which must fail, and returns its error messages.
    #[track_caller]
    pub(crate) fn git_fails(&self, args: &[&str]) -> String {
        let output = run_git(&self.path, args);
        assert!(!output.status.success(), "git {args:?} should fail");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// Runs git, which may fail.
    pub(crate) fn try_git(&self, args: &[&str]) {
        drop(run_git(&self.path, args));
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join("collections").join(name)
    }

    pub(crate) fn save(&self, name: &str, content: &str) {
        fs::create_dir_all(self.path.join("collections")).unwrap();
        fs::write(self.file(name), content).unwrap();
    }

    #[track_caller]
    pub(crate) fn saved(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap()
    }

    /// Commits by hand.
    #[track_caller]
    pub(crate) fn commit(&self, files: &[(&str, &str)]) -> Revision {
        files.iter().for_each(|(name, content)| self.save(name, content));
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", "By hand"]);
        self.head()
    }

    #[track_caller]
    pub(crate) fn head(&self) -> Revision {
        self.git(&["rev-parse", "HEAD"]).trim().parse().unwrap()
    }

    #[track_caller]
    pub(crate) fn status(&self) -> String {
        self.git(&["status", "--porcelain"])
    }

    /// Runs every check that git has.
    #[track_caller]
    pub(crate) fn check(&self) {
        let output = run_git(&self.path, &["fsck", "--full", "--strict", "--no-dangling"]);
        let said =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && !said.contains("error"), "{said}");
        for pack in self.packs() {
            let index = fs::read(pack.with_extension("idx")).unwrap();
            let copy = self.path.join("../copy.pack");
            fs::copy(&pack, &copy).unwrap();
            let theirs = self.path.join("../copy.idx");
            drop(fs::remove_file(&theirs));
            self.git(&["index-pack", "--strict", copy.to_str().unwrap()]);
            assert!(fs::read(theirs).unwrap() == index, "git indexes {} otherwise", pack.display());
        }
    }

    pub(crate) fn pack_folder(&self) -> PathBuf {
        let git_dir = self.git(&["rev-parse", "--absolute-git-dir"]);
        Path::new(git_dir.trim()).join("objects/pack")
    }

    pub(crate) fn packs(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.pack_folder()).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths.filter(|path| path.extension().is_some_and(|ending| ending == "pack")).collect()
    }
}

fn run_git(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new("git");
    command.current_dir(folder).args(args).env_clear();
    #[expect(clippy::disallowed_methods, reason = "only to find git")]
    if let Ok(path) = std::env::var("PATH") {
        command.env("PATH", path);
    }
    let fixed = [
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_CONFIG_SYSTEM", "/dev/null"),
        ("GIT_AUTHOR_NAME", "Mara"),
        ("GIT_AUTHOR_EMAIL", "mara@example.org"),
        ("GIT_COMMITTER_NAME", "Mara"),
        ("GIT_COMMITTER_EMAIL", "mara@example.org"),
        ("LC_ALL", "C"),
        // Otherwise `git commit` repacks in the background, even after the test.
        ("GIT_CONFIG_COUNT", "1"),
        ("GIT_CONFIG_KEY_0", "maintenance.auto"),
        ("GIT_CONFIG_VALUE_0", "false"),
    ];
    command.envs(fixed).output().unwrap()
}

/// Runs git in any folder.
#[track_caller]
pub(crate) fn git_in(folder: &Path, args: &[&str]) -> String {
    let output = run_git(folder, args);
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A draft that sets or removes files.
pub(crate) fn draft(files: &[(&str, Option<&str>)]) -> Draft {
    let names: Vec<_> = files.iter().map(|(name, _)| *name).collect();
    Draft {
        files: files
            .iter()
            .map(|(name, text)| ((*name).to_owned(), text.map(|text| text.as_bytes().to_vec())))
            .collect(),
        message: format!("Change {}\n\nbecause\n\nCollectory-Key: x\n", names.join(", ")),
        author: Actor::new("Mara", "mara@example.org"),
        at: DateTime::from_timestamp(1_700_000_000, 0).unwrap(),
    }
}

pub(crate) fn set(name: &str, text: &str) -> Draft {
    draft(&[(name, Some(text))])
}

pub(crate) fn remove(name: &str) -> Draft {
    draft(&[(name, None)])
}

/// Appends on top of the current head.
#[track_caller]
pub(crate) fn append(journal: &mut GitJournal, drafts: &[Draft]) -> Vec<Committed> {
    try_append(journal, drafts).unwrap()
}

pub(crate) fn try_append(journal: &mut GitJournal, drafts: &[Draft]) -> Result<Vec<Committed>, StoreError> {
    let head = journal.head().unwrap();
    journal.append(head, drafts)
}

/// Returns the content of the folder at a revision, according to the journal.
#[track_caller]
pub(crate) fn files_at(journal: &mut GitJournal, revision: Option<Revision>) -> BTreeMap<String, String> {
    let changes = journal.commits().changes(None, revision).unwrap();
    let blobs: Vec<BlobId> = changes
        .iter()
        .map(|change| match change.after {
            Some(TreeEntry::File(blob)) => blob,
            other => panic!("{other:?}"),
        })
        .collect();
    let files = Mutex::new(BTreeMap::new());
    journal
        .commits()
        .contents(&blobs, &|index, content| {
            let text = String::from_utf8(content.unwrap().to_vec()).unwrap();
            files.lock().unwrap().insert(changes[index].name.clone(), text);
        })
        .unwrap();
    files.into_inner().unwrap()
}

/// Returns the uncommitted edits of the work tree, as text.
#[track_caller]
pub(crate) fn edits(journal: &mut GitJournal) -> Vec<(String, String)> {
    let head = journal.head().unwrap();
    match journal.work_tree(head, Paths::All, GitLocks::Respect).unwrap() {
        WorkTree::Available { edits, .. } => edits.into_iter().map(shown).collect(),
        other => panic!("{other:?}"),
    }
}

fn shown(edit: Edit) -> (String, String) {
    let now = match edit.current {
        WorkTreeEntry::File { bytes, .. } => String::from_utf8(bytes).unwrap(),
        WorkTreeEntry::Deleted => "gone".to_owned(),
        WorkTreeEntry::Special(what) => what.to_string(),
    };
    (edit.name, now)
}

/// An edit for comparison with [`edits`].
pub(crate) fn edit(name: &str, now: &str) -> (String, String) {
    (name.to_owned(), now.to_owned())
}

impl GitJournal {
    /// The number of flushes to disk so far.
    pub(crate) fn flushes(&self) -> u64 {
        let Metrics { files_flushed, folders_flushed, file_systems_flushed, .. } = &*self.metrics();
        [files_flushed, folders_flushed, file_systems_flushed].map(Histogram::sample_count).iter().sum()
    }
}

/// Appends a group of one write and a group of 40; returns how often each flushed something to the disk.
pub(crate) fn flushes_of_groups(journal: &mut GitJournal) -> [u64; 2] {
    append(journal, &[set("first.yaml", "x\n")]);
    [1, 40].map(|len| {
        let before = journal.flushes();
        let drafts: Vec<_> = (0..len).map(|i| set("a.yaml", &format!("{len} {i}\n"))).collect();
        append(journal, &drafts);
        journal.flushes() - before
    })
}

/// Runs the maintenance and waits for it.
#[track_caller]
pub(crate) fn run_maintenance(journal: &mut GitJournal) {
    journal.start_maintenance().unwrap();
    journal.finish_maintenance();
}
