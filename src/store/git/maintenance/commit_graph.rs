//! The commit-graph, kept up by git itself.
//!
//! Whoever asks for the history of one file (`git log -- collections/posts.yaml`) makes git compare the trees of
//! every commit there is. A commit-graph (gitformat-commit-graph(5)) with a Bloom filter of the paths that each
//! commit has changed spares it that. It is for people and their tools; the service needs none. Git is run for it
//! (git-commit-graph(1)), at the lowest priority and as the first to be ended where memory is short, once there are
//! [enough](COMMITS_MIN) commits without it:
//!
//! ```text
//! git commit-graph write --reachable --changed-paths --split --expire-time=10.minutes.ago --no-progress
//! ```
//!
//! How far the graph goes is noted in `collectory/graph`. What was merged stays for ten minutes, for a git command
//! that has read the list just before.
//!
//! Nothing that the repository names runs by it: the command knows no hook and no filter and never looks at a work
//! tree; its output is no terminal, and what is missing is not fetched (`GIT_NO_LAZY_FETCH`, and for an older git
//! `GIT_ALLOW_PROTOCOL`). Its environment is empty but for that and `PATH`.
//!
//! No graph is written while git says in `gc.pid` that it collects, nor where git would not write or not read it:
//! with `core.commitGraph=false`, and in a history that is cut off or bent (`shallow`, grafts, `refs/replace`).
//!
//! A kill at any instant leaves everything readable: git flushes a new file and renames the list of files last. Only
//! if both of us are killed while git holds `commit-graph-chain.lock`, the lock stays. Which process writes is noted,
//! so the next start knows it for ours and removes it; one of somebody else's is theirs, and a warning names it.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, setpriority_process, test_kill_process};

use crate::domain::Revision;
use crate::store::StoreError;
use crate::store::git::disk::barrier::{Barrier, remove_if_there};
use crate::store::git::disk::open;
use crate::store::git::disk::state_file::StateFile;
use crate::store::git::object::id::unhex;
use crate::store::git::odb::objects::Objects;
use crate::store::git::read::recent_commits::RecentCommits;
use crate::store::git::read::walk::{cut_off, follow};
use crate::store::git::repo::branch::Branch;

/// So many commits that the graph does not have are worth a new file of it.
pub(crate) const COMMITS_MIN: usize = 1_000;

const COUNTED_LEN_MAX: usize = 10_000;

/// The lowest priority there is (setpriority(2)).
const PRIORITY_LOWEST: i32 = 19;

/// The first to be ended where memory is short (`proc_pid_oom_score_adj(5)`).
const OOM_SCORE_HIGHEST: &str = "1000";

/// Git holds its lock for as long as a file takes to write; one that is older was left by a kill.
const LOCK_AGE_MAX: Duration = Duration::from_secs(3_600);

/// How long it takes at most to note the number of a process that has begun.
const NOTING_TIME: Duration = Duration::from_secs(5);

/// So many attempts in a row that fail are the last: once may be for a `git gc` that came in between.
const FAILURES_MAX: u32 = 2;

const COMPLAINT_BYTES_MAX: u64 = 1_000;

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
    pub(crate) branch: Branch,
    // What need not be read to be counted.
    recent_commits: Arc<RecentCommits>,
    note: StateFile,
    // Which process writes it.
    writer: StateFile,
    // The git command.
    git: PathBuf,
    commits_min: usize,
    // How often in a row git could not do it.
    failures: AtomicU32,
    // Whether the lock that somebody left was told.
    lock_told: AtomicBool,
    running: Mutex<Running>,
}

#[derive(Debug, Default)]
struct Running {
    stopped: bool,
    // Taken away before the process is waited for, and so its number free for another one.
    pid: Option<Pid>,
}

/// How far a walk along the first parents has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Walked {
    /// To the commit that was looked for, over so many.
    Found(usize),
    /// To the first commit of all, which is one of so many.
    Root(usize),
    /// No further than it was to.
    Far,
}

/// How git has ended.
#[derive(Debug)]
enum Ended {
    /// The graph is written.
    Well,
    /// Somebody else writes it at this time, or it was ended by us.
    Early,
    /// Something is wrong.
    Badly(ExitStatus, String),
}

impl Graph {
    /// Prepares to keep the graph of a repository, for the commits of a branch, with this git command,
    /// whenever there are so many new ones.
    pub(crate) fn new(
        branch: Branch,
        recent_commits: Arc<RecentCommits>,
        git: PathBuf,
        commits_min: usize,
        barrier: &Barrier,
    ) -> Self {
        let note = StateFile::new(&branch.layout.state(), "graph", barrier);
        let writer = StateFile::new(&branch.layout.state(), "graph-writer", barrier);
        let failures = AtomicU32::new(if branch.layout.has_graph { 0 } else { FAILURES_MAX });
        let (lock_told, running) = (AtomicBool::new(false), Mutex::default());
        Self { branch, recent_commits, note, writer, git, commits_min, failures, lock_told, running }
    }

    /// Writes the graph if it lacks enough commits and nobody is in the way; answers whether it did.
    pub(crate) fn keep_up(&self) -> Result<bool, StoreError> {
        if self.has_given_up() || self.is_history_bent() || self.is_locked() {
            return Ok(false);
        }
        let Some(head) = self.branch.tip()? else { return Ok(false) };
        match self.walk(head, self.noted()?, self.commits_min)? {
            Walked::Far => self.write(head),
            Walked::Found(len) | Walked::Root(len) if len >= self.commits_min => self.write(head),
            Walked::Found(_) | Walked::Root(_) => Ok(false),
        }
    }

    /// Ends the git that writes, and lets no other begin.
    pub(crate) fn stop(&self) {
        let mut running = self.running();
        running.stopped = true;
        if let Some(pid) = running.pid {
            let ended = kill_process(pid, Signal::TERM);
            // It may have come to its end by itself.
            tracing::debug!(?ended, "ending the git that writes the commit-graph");
        }
    }

    /// How many commits there are, as far as that is known without a long walk.
    pub(crate) fn commits(&self) -> Result<Option<u64>, StoreError> {
        let Some(head) = self.branch.tip()? else { return Ok(Some(0)) };
        let noted = self.noted()?;
        Ok(match self.walk(head, noted, COUNTED_LEN_MAX)? {
            Walked::Root(len) => Some(len as u64),
            Walked::Found(len) => commits_in(&self.info()).map(|commits| commits + len as u64),
            Walked::Far => None,
        })
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        // Both fields are whole by themselves.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn info(&self) -> PathBuf {
        self.branch.layout.common_dir.join("objects/info")
    }

    /// Whether git would have no use for a graph (`commit_graph_compatible` in git's `commit-graph.c`).
    fn is_history_bent(&self) -> bool {
        let files = ["shallow", "info/grafts", "refs/replace"];
        files.iter().any(|file| self.branch.layout.common_dir.join(file).exists())
    }

    fn lock(&self) -> PathBuf {
        self.info().join("commit-graphs/commit-graph-chain.lock")
    }

    /// Removes the lock that a git of ours has left which was killed together with us; one that still runs keeps it.
    /// Only for the holder of the service lock.
    pub(crate) fn remove_left(&self) -> Result<(), StoreError> {
        let Some(text) = self.writer.read()? else { return Ok(()) };
        let pid = std::str::from_utf8(&text).ok().and_then(|text| Pid::from_raw(text.trim().parse().ok()?));
        if pid.is_some_and(|pid| test_kill_process(pid).is_ok()) {
            return Ok(());
        }
        let since = |path: &Path| fs::symlink_metadata(path).and_then(|metadata| metadata.modified());
        // Git may make it in the instant before its number is noted.
        let noted = since(self.writer.path()).map(|noted| noted - NOTING_TIME);
        if let (Ok(noted), Ok(locked)) = (noted, since(&self.lock()))
            && locked >= noted
        {
            tracing::info!(path = %self.lock().display(), "removing the lock that a killed git of ours has left");
            remove_if_there(&self.lock())?;
        }
        remove_if_there(self.writer.path())
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

    fn walk(&self, from: Revision, to: Option<Revision>, len_max: usize) -> Result<Walked, StoreError> {
        let mut objects = None;
        let (mut len, mut outcome) = (0, None);
        follow(&cut_off(&self.branch.layout)?, from, |revision| {
            outcome = match len {
                _ if Some(revision) == to => Some(Walked::Found(len)),
                _ if len == len_max => Some(Walked::Far),
                _ => {
                    let parent = match self.recent_commits.first_parent(revision) {
                        Some(parent) => Ok(parent),
                        None => objects
                            .get_or_insert_with(|| Objects::at(&self.branch.layout.common_dir))
                            .commit(revision, |commit| commit.parents.first().copied()),
                    };
                    return parent.inspect(|_| len += 1);
                }
            };
            Ok(None)
        })?;
        Ok(outcome.unwrap_or(Walked::Root(len)))
    }

    /// Has git write the graph, with at least what `head` reaches.
    fn write(&self, head: Revision) -> Result<bool, StoreError> {
        let started = Instant::now();
        let Some(child) = self.start(&WRITE)? else { return Ok(false) };
        match self.wait(child)? {
            // Git had a reason not to, and says nothing.
            Ended::Well if !self.is_there() => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                Ok(false)
            }
            Ended::Well => {
                self.failures.store(0, Ordering::Relaxed);
                self.note.replace(format!("{head}\n").as_bytes())?;
                let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
                tracing::debug!(duration_ms, "git has written the commit-graph");
                Ok(true)
            }
            Ended::Early => Ok(false),
            Ended::Badly(status, complaint) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                if self.has_given_up() {
                    tracing::warn!(
                        %status,
                        complaint,
                        "git could not write the commit-graph, so `git log` on a file takes longer; it is \
                         not tried again before the next start"
                    );
                } else {
                    tracing::debug!(%status, complaint, "git could not write the commit-graph");
                }
                Ok(false)
            }
        }
    }

    /// Has git do something else that it keeps well, at the lowest priority; answers whether it did.
    pub(crate) fn run(&self, words: &[&str]) -> Result<bool, StoreError> {
        let Some(child) = self.start(words)? else { return Ok(false) };
        match self.wait(child)? {
            Ended::Well => Ok(true),
            Ended::Early => Ok(false),
            Ended::Badly(status, complaint) => {
                tracing::debug!(%status, complaint, command = words.join(" "), "git could not do it");
                Ok(false)
            }
        }
    }

    /// Whether another attempt would not mend it.
    fn has_given_up(&self) -> bool {
        self.failures.load(Ordering::Relaxed) >= FAILURES_MAX
    }

    fn give_up(&self) {
        self.failures.store(FAILURES_MAX, Ordering::Relaxed);
    }

    /// Starts git; nothing if there is none, or if we are to stop.
    fn start(&self, words: &[&str]) -> Result<Option<Child>, StoreError> {
        let mut running = self.running();
        if running.stopped {
            return Ok(None);
        }
        match self.command(words).spawn() {
            Ok(child) => {
                running.pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
                let lowered = running.pid.map(|pid| setpriority_process(Some(pid), PRIORITY_LOWEST));
                // Where memory is short, it is what the system can do without; before a kernel that keeps no such file
                // the service would be as right.
                let spared = fs::write(format!("/proc/{}/oom_score_adj", child.id()), OOM_SCORE_HIGHEST);
                // It would be as right at any other priority.
                tracing::debug!(?lowered, ?spared, command = words.join(" "), "git is run");
                if let Err(error) = self.writer.replace(format!("{}\n", child.id()).as_bytes()) {
                    tracing::debug!(%error, "a kill of both of us would leave a lock");
                }
                Ok(Some(child))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.give_up();
                tracing::info!(
                    "git is not installed, so no commit-graph is written; only `git log` on a file would \
                     be faster by it"
                );
                Ok(None)
            }
            Err(source) => {
                self.give_up();
                Err(StoreError::at("run", &self.git, source))
            }
        }
    }

    fn command(&self, words: &[&str]) -> Command {
        let git_dir = &self.branch.layout.git_dir;
        let mut command = Command::new(&self.git);
        command.args(words).current_dir(git_dir).env_clear().env("GIT_DIR", git_dir);
        command.envs(env::var_os("PATH").map(|path| (OsString::from("PATH"), path)));
        command.envs([
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_NO_LAZY_FETCH", "1"),
            ("GIT_ALLOW_PROTOCOL", ""),
            ("LC_ALL", "C"),
        ]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }

    fn wait(&self, mut child: Child) -> Result<Ended, StoreError> {
        let mut complaint = Vec::new();
        if let Some(mut stderr) = child.stderr.take() {
            // What can't be read is not told, and the status says enough.
            drop(stderr.by_ref().take(COMPLAINT_BYTES_MAX).read_to_end(&mut complaint));
            drop(io::copy(&mut stderr, &mut io::sink()));
        }
        let stopped = {
            let mut running = self.running();
            running.pid = None;
            running.stopped
        };
        let status = child.wait().map_err(|source| StoreError::at("wait for", &self.git, source))?;
        remove_if_there(self.writer.path())?;
        let complaint = String::from_utf8_lossy(&complaint).trim_end().to_owned();
        Ok(match status.success() {
            true => Ended::Well,
            false if stopped || complaint.contains("commit-graph-chain.lock") => Ended::Early,
            false => Ended::Badly(status, complaint),
        })
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
