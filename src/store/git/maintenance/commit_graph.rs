//! Has git keep the commit-graph up to date.
//!
//! The history of one file (`git log -- collections/posts.yaml`) makes git compare the trees of every commit. A
//! commit-graph (gitformat-commit-graph(5)) with a Bloom filter of the paths that each commit has changed saves that
//! work. It is for people and their tools; the service does not need it. Git is run for it (git-commit-graph(1)) once
//! [enough](COMMITS_MIN) commits are missing from it:
//!
//! ```text
//! git commit-graph write --reachable --changed-paths --split --expire-time=10.minutes.ago --no-progress
//! ```
//!
//! `collectory/graph` records how far the graph goes. Merged files stay for ten minutes, for a git command that has
//! read the list just before.
//!
//! No graph is written while `gc.pid` says that git collects garbage, nor where git would not read it: in a history
//! that is cut off or altered (`shallow`, grafts, `refs/replace`). With `core.commitGraph=false` git itself writes
//! none.
//!
//! A kill at any instant leaves everything readable: git flushes a new file and renames the list of files last. The
//! lock `commit-graph-chain.lock` stays only if both of us are killed while git holds it. The writing process is
//! recorded, so the next start recognises the lock as ours and removes it. A failure of git, including a lock held by
//! another process, is logged when it is repeated.

use std::cell::Cell;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::domain::Revision;
use crate::store::git::disk::barrier::{Barrier, remove_if_there};
use crate::store::git::disk::state_file::StateFile;
use crate::store::git::maintenance::git_process::{GitOutcome, GitProcess};
use crate::store::git::object::id::unhex;
use crate::store::git::read::archive::GitArchive;
use crate::store::git::repo::layout::Layout;
use crate::store::{Archive as _, StoreError};

/// How many commits must be missing from the graph to be worth a new file.
pub(crate) const COMMITS_MIN: usize = 1_000;

/// The longest time between the start of a process and the record of its number.
const NOTING_TIME: Duration = Duration::from_secs(5);

/// How many failures in a row end the attempts: a single one may be due to a `git gc` in between.
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

#[derive(Debug)]
pub(crate) struct CommitGraph {
    pub(crate) archive: GitArchive,
    pub(crate) git: GitProcess,
    note: StateFile,
    commits_min: usize,
    // The number of failures in a row.
    failures: AtomicU32,
}

impl CommitGraph {
    /// Keeps the graph of a repository up to date for the commits of a branch, with this git command, whenever at
    /// least `commits_min` are new.
    pub(crate) fn new(archive: GitArchive, git: PathBuf, commits_min: usize, barrier: &Barrier) -> Self {
        let layout = &archive.branch.layout;
        let note = StateFile::new(&layout.state(), "graph", barrier);
        let git = GitProcess::new(git, layout, barrier);
        Self { archive, git, note, commits_min, failures: AtomicU32::new(0) }
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.archive.branch.layout
    }

    /// Writes the graph if enough commits are missing and nothing prevents it; returns whether it did.
    pub(crate) fn write_if_due(&self) -> Result<bool, StoreError> {
        if self.has_given_up() || self.is_history_bent() {
            return Ok(false);
        }
        let Some(head) = self.archive.head()? else { return Ok(false) };
        let (noted, len) = (self.noted()?, Cell::new(0));
        let is_far_enough =
            |revision: &Revision| Some(*revision) == noted || len.replace(len.get() + 1) == self.commits_min;
        let unwritten = self.archive.first_parents(head, &is_far_enough)?;
        if unwritten.revisions.len() < self.commits_min { Ok(false) } else { self.write(head) }
    }

    fn info(&self) -> PathBuf {
        self.layout().common_dir.join("objects/info")
    }

    /// Returns whether git would not use a graph (`commit_graph_compatible` in git's `commit-graph.c`).
    fn is_history_bent(&self) -> bool {
        let files = ["shallow", "info/grafts", "refs/replace"];
        files.iter().any(|file| self.layout().common_dir.join(file).exists())
    }

    /// Removes the lock left by a git process of ours that was killed together with us; one that still runs keeps it.
    /// Only for the holder of the service lock.
    pub(crate) fn remove_left(&self) -> Result<(), StoreError> {
        let Some(noted) = self.git.killed_since()? else { return Ok(()) };
        let lock = self.info().join("commit-graphs/commit-graph-chain.lock");
        let locked = fs::symlink_metadata(&lock).and_then(|metadata| metadata.modified());
        // Git may take the lock in the instant before its process is recorded.
        if locked.is_ok_and(|locked| locked >= noted - NOTING_TIME) {
            tracing::info!(path = %lock.display(), "removing the lock that a killed git of ours has left");
            remove_if_there(&lock)?;
        }
        self.git.forget_killed()
    }

    /// Returns the commit up to which there is a graph.
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
            // Git had a reason not to write it, and does not report that.
            GitOutcome::Succeeded if !self.is_there() => self.failed(1),
            GitOutcome::Succeeded => {
                self.failures.store(0, Ordering::Relaxed);
                self.note.replace(format!("{head}\n").as_bytes())?;
                let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
                tracing::debug!(duration_ms, "git has written the commit-graph");
                return Ok(true);
            }
            GitOutcome::Stopped => (),
            GitOutcome::NotInstalled => {
                self.failed(FAILURES_MAX);
                tracing::info!(
                    "git is not installed, so no commit-graph is written; only `git log` on a file would \
                     be faster by it"
                );
            }
            GitOutcome::Failed(status, complaint) => {
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

    fn has_given_up(&self) -> bool {
        self.failures.load(Ordering::Relaxed) >= FAILURES_MAX
    }

    fn failed(&self, times: u32) {
        self.failures.fetch_add(times, Ordering::Relaxed);
    }
}
