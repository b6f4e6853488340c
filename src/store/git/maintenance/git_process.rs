//! Git, run to tidy up: one process at a time, at the lowest priority and as the first to be ended where memory is
//! short.
//!
//! Nothing that the repository names runs by it: the commands know no hook and no filter and never look at a work
//! tree; their output is no terminal, and what is missing is not fetched (`GIT_NO_LAZY_FETCH`, and for an older git
//! `GIT_ALLOW_PROTOCOL`). The environment is empty but for that and `PATH`.
//!
//! Which process it is stands in `collectory/graph-writer` as long as it runs, so that what it leaves when both of us
//! are killed is known for ours.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use rustix::process::{Pid, Signal, kill_process, setpriority_process};

use crate::store::git::disk::barrier::{Barrier, remove_if_there};
use crate::store::git::disk::state_file::StateFile;
use crate::store::git::repo::layout::Layout;
use crate::store::{AtPath as _, StoreError};

/// The lowest priority there is (setpriority(2)).
const PRIORITY_LOWEST: i32 = 19;

/// The first to be ended where memory is short (`proc_pid_oom_score_adj(5)`).
const OOM_SCORE_HIGHEST: &str = "1000";

/// How many fields stand between the state of a process and its start in its `stat`.
const START_BEHIND_STATE: usize = 18;

const COMPLAINT_BYTES_MAX: u64 = 1_000;

/// A process that runs, as `PID START`: another may have its number later, and not its start too (`proc_pid_stat(5)`).
/// One that has ended and that nobody has waited for runs no more.
pub(crate) fn alive(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program, in brackets, may hold anything.
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
    // Taken away before the process is waited for, and so its number free for another one.
    pid: Option<Pid>,
}

/// How git has ended.
#[derive(Debug)]
pub(crate) enum Ended {
    Well,
    /// It was ended by us, or not begun since we are to stop.
    Early,
    /// There is none.
    Missing,
    /// Something is wrong.
    Badly(ExitStatus, String),
}

impl GitProcess {
    pub(crate) fn new(git: PathBuf, layout: &Layout, barrier: &Barrier) -> Self {
        let note = StateFile::new(&layout.state(), "graph-writer", barrier);
        Self { git, git_dir: layout.git_dir.clone(), note, running: Mutex::default() }
    }

    /// Runs git, and waits for its end.
    pub(crate) fn run(&self, words: &[&str]) -> Result<Ended, StoreError> {
        let mut running = self.running();
        if running.stopped {
            return Ok(Ended::Early);
        }
        let child = match self.command(words).spawn() {
            Ok(child) => child,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Ended::Missing),
            Err(error) => return Err(error).at("run", &self.git),
        };
        running.pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        drop(running);
        let lowered = setpriority_process(Some(Pid::from_child(&child)), PRIORITY_LOWEST);
        let spared = fs::write(format!("/proc/{}/oom_score_adj", child.id()), OOM_SCORE_HIGHEST);
        // It would be as right at any other priority, and before a kernel that keeps no such file.
        tracing::debug!(?lowered, ?spared, command = words.join(" "), "git is run");
        if let Some(Err(error)) = alive(child.id()).map(|git| self.note.replace(git.as_bytes())) {
            tracing::debug!(%error, "a kill of both of us would leave a lock");
        }
        let ended = self.wait(child)?;
        if let Ended::Badly(status, complaint) = &ended {
            tracing::debug!(%status, complaint, command = words.join(" "), "git could not do it");
        }
        Ok(ended)
    }

    /// Ends the git that runs, and lets no other begin.
    pub(crate) fn stop(&self) {
        let mut running = self.running();
        running.stopped = true;
        if let Some(pid) = running.pid {
            let ended = kill_process(pid, Signal::TERM);
            // It may have come to its end by itself.
            tracing::debug!(?ended, "ending the git that tidies up");
        }
    }

    /// When a git of ours was begun that was killed together with us; `None` if it still runs, or there was none.
    pub(crate) fn left_at(&self) -> Result<Option<SystemTime>, StoreError> {
        let Some(noted) = self.note.read()? else { return Ok(None) };
        let pid = std::str::from_utf8(&noted).ok().and_then(|noted| noted.split(' ').next()?.parse().ok());
        if pid.and_then(alive).is_some_and(|git| git.as_bytes() == noted) {
            return Ok(None);
        }
        Ok(fs::symlink_metadata(self.note.path()).and_then(|metadata| metadata.modified()).ok())
    }

    pub(crate) fn forget_left(&self) -> Result<(), StoreError> {
        remove_if_there(self.note.path())
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        // Both fields are whole by themselves.
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
        let status = child.wait().at("wait for", &self.git)?;
        remove_if_there(self.note.path())?;
        Ok(match status.success() {
            true => Ended::Well,
            false if stopped => Ended::Early,
            false => Ended::Badly(status, String::from_utf8_lossy(&complaint).trim_end().to_owned()),
        })
    }
}
