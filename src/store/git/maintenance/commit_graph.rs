//! The commit-graph, kept up by git itself.
//!
//! Whoever asks for the history of one file (`git log -- collections/posts.yaml`) makes git compare the trees of
//! every commit there is. A commit-graph (gitformat-commit-graph(5)) with a Bloom filter of the paths that each
//! commit has changed spares it that. It is for people and their tools; the service needs none. Git is run for it
//! (git-commit-graph(1)) once there are [enough](COMMITS_MIN) commits without it:
//!
//! ```text
//! git commit-graph write --reachable --changed-paths --split --expire-time=10.minutes.ago --no-progress
//! ```
//!
//! How far the graph goes is noted in `collectory/graph`. What was merged stays for ten minutes, for a git command
//! that has read the list just before.
//!
//! No graph is written while git says in `gc.pid` that it collects, nor where git would not read it: in a history that
//! is cut off or bent (`shallow`, grafts, `refs/replace`), and with `core.commitGraph=false`, with which it writes none.
//!
//! A kill at any instant leaves everything readable: git flushes a new file and renames the list of files last. Only
//! if both of us are killed while git holds `commit-graph-chain.lock`, the lock stays. Which process writes is noted,
//! so the next start knows it for ours and removes it; one of somebody else's is theirs, and a warning names it.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::domain::Revision;
use crate::store::git::disk::barrier::{Barrier, remove_if_there};
use crate::store::git::disk::open;
use crate::store::git::disk::state_file::StateFile;
use crate::store::git::maintenance::git_process::{Ended, GitProcess};
use crate::store::git::object::id::unhex;
use crate::store::git::read::archive::GitArchive;
use crate::store::git::repo::layout::Layout;
use crate::store::{Archive as _, Line, StoreError};

/// So many commits that the graph does not have are worth a new file of it.
pub(crate) const COMMITS_MIN: usize = 1_000;

const COUNTED_LEN_MAX: usize = 10_000;

/// Git holds its lock for as long as a file takes to write; one that is older was left by a kill.
const LOCK_AGE_MAX: Duration = Duration::from_secs(3_600);

/// How long it takes at most to note the number of a process that has begun.
const NOTING_TIME: Duration = Duration::from_secs(5);

/// So many attempts in a row that fail are the last: once may be for a `git gc` that came in between.
const FAILURES_MAX: u32 = 2;

const WRITE: [&str; 7] = [
    "commit-graph",
    "write",
    "--reachable",
    "--changed-paths",
    "--split",
    "--expire-time=10.minutes.ago",
    "--no-progress",
];

/// Writes the commit-graph now and then.
#[derive(Debug)]
pub(crate) struct Graph {
    pub(crate) archive: GitArchive,
    pub(crate) git: GitProcess,
    note: StateFile,
    commits_min: usize,
    // How often in a row git could not do it.
    failures: AtomicU32,
    // Whether the lock that somebody left was told.
    lock_told: AtomicBool,
}

impl Graph {
    /// Prepares to keep the graph of a repository, for the commits of a branch, with this git command,
    /// whenever there are so many new ones.
    pub(crate) fn new(archive: GitArchive, git: PathBuf, commits_min: usize, barrier: &Barrier) -> Self {
        let layout = &archive.branch.layout;
        let note = StateFile::new(&layout.state(), "graph", barrier);
        let git = GitProcess::new(git, layout, barrier);
        let (failures, lock_told) = (AtomicU32::new(0), AtomicBool::new(false));
        Self { archive, git, note, commits_min, failures, lock_told }
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.archive.branch.layout
    }

    /// Writes the graph if it lacks enough commits and nobody is in the way; answers whether it did.
    pub(crate) fn keep_up(&self) -> Result<bool, StoreError> {
        if self.has_given_up() || self.is_history_bent() || self.is_locked() {
            return Ok(false);
        }
        let Some(head) = self.archive.head()? else { return Ok(false) };
        let lacking = self.commits_since(self.noted()?, head, self.commits_min)?;
        if lacking.revisions.len() < self.commits_min { Ok(false) } else { self.write(head) }
    }

    /// How many commits there are, as far as that is known without a long walk.
    pub(crate) fn commits(&self) -> Result<Option<u64>, StoreError> {
        let Some(head) = self.archive.head()? else { return Ok(Some(0)) };
        let noted = self.noted()?;
        let Line { revisions, onto } = self.commits_since(noted, head, COUNTED_LEN_MAX)?;
        let older = match onto {
            None => Some(0),
            onto if onto == noted => commits_in(&self.info()),
            Some(_) => None,
        };
        Ok(older.map(|older| older + revisions.len() as u64))
    }

    /// The commits along first parents until this one, and at most so many.
    fn commits_since(
        &self,
        noted: Option<Revision>,
        head: Revision,
        len_max: usize,
    ) -> Result<Line, StoreError> {
        let len = Cell::new(0);
        let is_far_enough =
            |revision: &Revision| Some(*revision) == noted || len.replace(len.get() + 1) == len_max;
        self.archive.first_parents(head, &is_far_enough)
    }

    fn info(&self) -> PathBuf {
        self.layout().common_dir.join("objects/info")
    }

    /// Whether git would have no use for a graph (`commit_graph_compatible` in git's `commit-graph.c`).
    fn is_history_bent(&self) -> bool {
        let files = ["shallow", "info/grafts", "refs/replace"];
        files.iter().any(|file| self.layout().common_dir.join(file).exists())
    }

    fn lock(&self) -> PathBuf {
        self.info().join("commit-graphs/commit-graph-chain.lock")
    }

    /// Removes the lock that a git of ours has left which was killed together with us; one that still runs keeps it.
    /// Only for the holder of the service lock.
    pub(crate) fn remove_left(&self) -> Result<(), StoreError> {
        let Some(noted) = self.git.left_at()? else { return Ok(()) };
        let locked = fs::symlink_metadata(self.lock()).and_then(|metadata| metadata.modified());
        // Git may make it in the instant before its number is noted.
        if locked.is_ok_and(|locked| locked >= noted - NOTING_TIME) {
            tracing::info!(path = %self.lock().display(), "removing the lock that a killed git of ours has left");
            remove_if_there(&self.lock())?;
        }
        self.git.forget_left()
    }

    fn is_locked(&self) -> bool {
        let lock = self.lock();
        let Ok(since) = fs::metadata(&lock).and_then(|metadata| metadata.modified()) else { return false };
        let is_left = since.elapsed().is_ok_and(|age| age > LOCK_AGE_MAX);
        if is_left && !self.lock_told.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                path = %lock.display(),
                "a lock of git's was left behind, so the commit-graph is not kept up; remove it if no git is running"
            );
        }
        true
    }

    /// The commit up to which there is a graph.
    fn noted(&self) -> Result<Option<Revision>, StoreError> {
        if !self.is_there() {
            return Ok(None);
        }
        let text = self.note.read()?.unwrap_or_default();
        Ok(unhex(text.trim_ascii_end()).map(Revision::new))
    }

    fn is_there(&self) -> bool {
        ["commit-graph", "commit-graphs/commit-graph-chain"]
            .iter()
            .any(|file| self.info().join(file).exists())
    }

    /// Has git write the graph, with at least what `head` reaches.
    fn write(&self, head: Revision) -> Result<bool, StoreError> {
        let started = Instant::now();
        match self.git.run(&WRITE).inspect_err(|_| self.failed(FAILURES_MAX))? {
            // Git had a reason not to, and says nothing.
            Ended::Well if !self.is_there() => self.failed(1),
            Ended::Well => {
                self.failures.store(0, Ordering::Relaxed);
                self.note.replace(format!("{head}\n").as_bytes())?;
                let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
                tracing::debug!(duration_ms, "git has written the commit-graph");
                return Ok(true);
            }
            // Somebody else writes it at this time.
            Ended::Badly(_, complaint) if complaint.contains("commit-graph-chain.lock") => (),
            Ended::Early => (),
            Ended::Missing => {
                self.failed(FAILURES_MAX);
                tracing::info!(
                    "git is not installed, so no commit-graph is written; only `git log` on a file would \
                     be faster by it"
                );
            }
            Ended::Badly(status, complaint) => {
                self.failed(1);
                if self.has_given_up() {
                    tracing::warn!(
                        %status,
                        complaint,
                        "git could not write the commit-graph, so `git log` on a file takes longer; it is \
                         not tried again before the next start"
                    );
                }
            }
        }
        Ok(false)
    }

    /// Whether another attempt would not mend it.
    fn has_given_up(&self) -> bool {
        self.failures.load(Ordering::Relaxed) >= FAILURES_MAX
    }

    fn failed(&self, times: u32) {
        self.failures.fetch_add(times, Ordering::Relaxed);
    }
}

/// How many commits the graph in this folder has: git reads the file that is not split first.
fn commits_in(info: &Path) -> Option<u64> {
    let whole = info.join("commit-graph");
    if whole.exists() {
        return commits_of(&whole);
    }
    let folder = info.join("commit-graphs");
    let chain = String::from_utf8(open::read(&folder.join("commit-graph-chain")).ok()?).ok()?;
    chain.lines().map(|name| commits_of(&folder.join(format!("graph-{name}.graph")))).sum()
}

/// How many commits one file of a graph has: the last number of its fan-out (gitformat-commit-graph(5)).
fn commits_of(path: &Path) -> Option<u64> {
    const HEADER_LEN: usize = 8;
    const ENTRY_LEN: usize = 12;
    const FAN_OUT_LEN: u64 = 256 * 4;
    let file = open::open(path).ok()?;
    let mut header = [0; HEADER_LEN];
    read_at(&file, &mut header, 0)?;
    let chunks = usize::from(header[6]);
    let mut table = vec![0; chunks * ENTRY_LEN];
    read_at(&file, &mut table, HEADER_LEN as u64)?;
    let entry = table.chunks_exact(ENTRY_LEN).find(|entry| entry.starts_with(b"OIDF"))?;
    let offset = u64::from_be_bytes(entry[4..].try_into().ok()?);
    let mut last = [0; 4];
    read_at(&file, &mut last, offset.checked_add(FAN_OUT_LEN - 4)?)?;
    Some(u64::from(u32::from_be_bytes(last)))
}

fn read_at(file: &fs::File, bytes: &mut [u8], offset: u64) -> Option<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset).ok()
}
