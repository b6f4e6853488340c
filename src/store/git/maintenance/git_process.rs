//! Runs git for maintenance: one process at a time, at the lowest priority, and the first to be killed when memory is
//! short.
//!
//! Nothing that the repository names is run: the commands use no hooks and no filters and never look at a work tree,
//! their output is not a terminal, and missing objects are not fetched (`GIT_NO_LAZY_FETCH`, and for an older git
//! `GIT_ALLOW_PROTOCOL`). The environment has `PATH` and what `command` sets, nothing else.
//!
//! `collectory/graph-writer` identifies the process while it runs, so that what it leaves if both of us are killed can
//! be recognised as ours.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use rustix::process::{Pid, Signal, kill_process_group, setpriority_process};

use crate::store::git::disk::barrier::{Barrier, remove_if_there};
use crate::store::git::disk::state_file::StateFile;
use crate::store::git::repo::layout::Layout;
use crate::store::{AtPath as _, StoreError};

/// The lowest priority (setpriority(2)).
const PRIORITY_LOWEST: i32 = 19;

/// The score of the first process to be killed when memory is short (`proc_pid_oom_score_adj(5)`).
const OOM_SCORE_HIGHEST: &str = "1000";

/// How many fields separate the state of a process from its start time in `/proc/PID/stat`.
const START_BEHIND_STATE: usize = 18;

const COMPLAINT_BYTES_MAX: u64 = 1_000;

/// Identifies a running process as `PID START`: another process may get its number later, but not also its start time
/// (`proc_pid_stat(5)`). A zombie is not running.
pub(crate) fn alive(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program name, in brackets, may contain anything.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next().filter(|state| !matches!(*state, "Z" | "X"));
    state.and_then(|_| Some(format!("{pid} {}\n", fields.nth(START_BEHIND_STATE)?)))
}

#[derive(Debug)]
pub(crate) struct GitProcess {
    // The git command.
    git: PathBuf,
    git_dir: PathBuf,
    note: StateFile,
    running: Mutex<Running>,
}

#[derive(Debug, Default)]
struct Running {
    stopped: bool,
    // Cleared before the process is waited for, which frees its number for another process.
    pid: Option<Pid>,
}

#[derive(Debug)]
pub(crate) enum GitOutcome {
    Succeeded,
    /// We ended it, or did not start it because we are stopping.
    Stopped,
    NotInstalled,
    Failed(ExitStatus, String),
}

impl GitProcess {
    pub(crate) fn new(git: PathBuf, layout: &Layout, barrier: &Barrier) -> Self {
        let note = StateFile::new(&layout.state(), "graph-writer", barrier);
        Self { git, git_dir: layout.git_dir.clone(), note, running: Mutex::default() }
    }

    pub(crate) fn run(&self, words: &[&str]) -> Result<GitOutcome, StoreError> {
        let mut running = self.running();
        if running.stopped {
            return Ok(GitOutcome::Stopped);
        }
        let child = match self.command(words).spawn() {
            Ok(child) => child,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(GitOutcome::NotInstalled),
            Err(error) => return Err(error).at("run", &self.git),
        };
        let pid = Pid::from_child(&child);
        running.pid = Some(pid);
        drop(running);
        let lowered = setpriority_process(Some(pid), PRIORITY_LOWEST);
        let spared = fs::write(format!("/proc/{}/oom_score_adj", child.id()), OOM_SCORE_HIGHEST);
        // Git works as well at any other priority, and on a kernel without this file.
        tracing::debug!(?lowered, ?spared, command = words.join(" "), "git is run");
        if let Some(Err(error)) = alive(child.id()).map(|git| self.note.replace(git.as_bytes())) {
            tracing::debug!(%error, "a kill of both of us would leave a lock");
        }
        let ended = self.wait(child)?;
        if let GitOutcome::Failed(status, complaint) = &ended {
            tracing::debug!(%status, complaint, command = words.join(" "), "git could not do it");
        }
        Ok(ended)
    }

    /// Ends the running git process and those that it has started, and starts no other.
    pub(crate) fn stop(&self) {
        let mut running = self.running();
        running.stopped = true;
        if let Some(pid) = running.pid {
            let ended = kill_process_group(pid, Signal::TERM);
            // It may have ended by itself.
            tracing::debug!(?ended, "ending the git that tidies up");
        }
    }

    /// Returns when a git process of ours was started that was killed together with us; `None` if it still runs or
    /// there was none.
    pub(crate) fn killed_since(&self) -> Result<Option<SystemTime>, StoreError> {
        let Some(noted) = self.note.read()? else { return Ok(None) };
        let pid = std::str::from_utf8(&noted).ok().and_then(|noted| noted.split(' ').next()?.parse().ok());
        if pid.and_then(alive).is_some_and(|git| git.as_bytes() == noted) {
            return Ok(None);
        }
        Ok(fs::symlink_metadata(self.note.path()).and_then(|metadata| metadata.modified()).ok())
    }

    pub(crate) fn forget_killed(&self) -> Result<(), StoreError> {
        remove_if_there(self.note.path())
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        // Each field is consistent by itself.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.git);
        command.args(words).current_dir(&self.git_dir).env_clear().env("GIT_DIR", &self.git_dir);
        command.envs(env::var_os("PATH").map(|path| (OsString::from("PATH"), path)));
        command.envs([
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_NO_LAZY_FETCH", "1"),
            ("GIT_ALLOW_PROTOCOL", ""),
            ("LC_ALL", "C"),
        ]);
        // A group of its own, so that the processes that it starts can be ended with it.
        command.process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }

    fn wait(&self, mut child: Child) -> Result<GitOutcome, StoreError> {
        let mut complaint = Vec::new();
        if let Some(mut stderr) = child.stderr.take() {
            // Ignored if it can't be read, because the status says enough.
            drop(stderr.by_ref().take(COMPLAINT_BYTES_MAX).read_to_end(&mut complaint));
            drop(io::copy(&mut stderr, &mut io::sink()));
        }
        let stopped = {
            let mut running = self.running();
            running.pid = None;
            running.stopped
        };
        let status = child.wait().at("wait for", &self.git)?;
        remove_if_there(self.note.path())?;
        Ok(match status.success() {
            true => GitOutcome::Succeeded,
            false if stopped => GitOutcome::Stopped,
            false => GitOutcome::Failed(status, String::from_utf8_lossy(&complaint).trim_end().to_owned()),
        })
    }
}
