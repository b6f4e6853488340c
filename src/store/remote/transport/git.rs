//! The `git` command, which talks to the remote.
//!
//! It runs in a private `GIT_DIR` whose `GIT_OBJECT_DIRECTORY` is that of the served repository: fetched objects are
//! available here, while the configuration, hooks and refs of the served repository have no effect. The operator's own
//! configuration applies, unless a flag of ours overrides it. It never prompts.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::domain::Revision;
use crate::store::git::REMOTE_FOLDER;
use crate::store::git_command::{self, VERSION_MIN};
use crate::store::remote::error::RemoteError;
use crate::store::remote::transport::access::RemoteSecrets;
use crate::store::remote::transport::branch::BranchName;
use crate::store::remote::transport::folder::{PrivateRef, fill};
use crate::store::remote::transport::process::{ProcessOutput, Processes};
use crate::store::remote::transport::pushed::{PushOutcome, status_of};
use crate::store::remote::transport::url::RemoteUrl;
use crate::store::remote::transport::words::{advised, sentence, unsound};

/// Settings of every command, which override the operator's configuration.
const SETTINGS: [&str; 12] = [
    // Don't ask a repository whose objects ours borrows for its refs.
    "core.alternateRefsCommand=true",
    "core.fsync=all",
    "core.fsmonitor=false",
    "core.askPass=",
    "fetch.unpackLimit=1",
    "fetch.fsckObjects=true",
    "fetch.writeCommitGraph=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "push.gpgSign=false",
    "push.negotiate=false",
    "submodule.recurse=false",
];

/// The number of branches named in the message when the wanted one is missing.
const BRANCHES_NAMED_MAX: usize = 5;

/// What names the branch of the remote.
#[derive(Debug, Clone, Copy)]
pub enum BranchSource<'a> {
    /// The operator.
    Operator(&'a str),
    /// The remote, if it could not be asked when the repository was made; the local name is used until it is.
    Remote(&'a str),
}

/// A branch of a remote, reached by the `git` command.
#[derive(Debug)]
pub struct Git {
    folder: PathBuf,
    objects: PathBuf,
    url: RemoteUrl,
    pub(super) branch: BranchName,
    access: RemoteSecrets,
    /// Why the `git` command can't be used, if so.
    unfit: Option<String>,
    /// Whether a mark was ever left: if nothing can be executed in our folder, a missing mark means nothing.
    leaves_marks: AtomicBool,
    pub(crate) processes: Processes,
}

impl Git {
    /// Prepares the private `GIT_DIR` inside a repository.
    ///
    /// # Errors
    ///
    /// Fails when it can't be written. If git is missing or too old, every later exchange fails as unreachable.
    pub fn open(
        common_dir: &Path,
        url: RemoteUrl,
        branch: BranchSource<'_>,
        access: RemoteSecrets,
    ) -> Result<Self, RemoteError> {
        let folder = common_dir.join(REMOTE_FOLDER);
        let failed = |error: io::Error| {
            RemoteError::Unreachable(format!("cannot write {}: {error}", folder.display()))
        };
        fill(&folder).map_err(failed)?;
        let objects = common_dir.join("objects");
        let branch = match branch {
            BranchSource::Operator(name) => BranchName::of(name),
            BranchSource::Remote(name) => BranchName::asked_for(name, &folder),
        };
        let unfit = match check_version() {
            Err(RemoteError::Unreachable(why)) => Some(why),
            Ok(()) | Err(_) => None,
        };
        Ok(Self {
            folder,
            objects,
            url,
            branch,
            access,
            unfit,
            leaves_marks: AtomicBool::new(false),
            processes: Processes::default(),
        })
    }

    /// The URL of the remote.
    pub const fn url(&self) -> &RemoteUrl {
        &self.url
    }

    /// The short name of its branch.
    pub fn branch(&self) -> &str {
        self.branch.as_str()
    }

    /// Asks for the head of the branch without fetching it; `None` if there is no such branch.
    pub(crate) fn remote_head(&self, until: Instant) -> Result<Option<Revision>, RemoteError> {
        let full = format!("refs/heads/{}", self.branch());
        let ended = self.talk(&["ls-remote", "--quiet", "--", &self.address(), &full], until)?;
        let line = |line: &str| {
            line.split_once('\t').filter(|(_, name)| *name == full).map(|(oid, _)| oid.to_owned())
        };
        match ended.output.lines().find_map(line) {
            None => Ok(None),
            Some(oid) => {
                oid.parse().map(Some).map_err(|_| RemoteError::Unreachable("it names no commit".to_owned()))
            }
        }
    }

    /// Fetches the branch and returns its head; `None` if there is no such branch.
    pub(crate) fn fetch(&self, note: PrivateRef, until: Instant) -> Result<Option<Revision>, RemoteError> {
        self.learn_branch(until)?;
        let refspec = format!("+refs/heads/{}:{}", self.branch(), note.name());
        let arguments = [
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-auto-maintenance",
            "--no-recurse-submodules",
            "--no-show-forced-updates",
            "--",
            &self.address(),
            &refspec,
        ];
        let is_first = [PrivateRef::Base, PrivateRef::Polled, PrivateRef::Judged]
            .iter()
            .all(|note| self.noted(*note).is_none());
        let fetched = if is_first { self.fetch_all(&arguments, until) } else { self.talk(&arguments, until) };
        match fetched {
            Ok(_) => Ok(self.noted(note)),
            // Only git's message says that there is no such branch, and it may have been created since.
            Err(error) => match self.ask_after_failure(note, until) {
                Ok(None) => Ok(None),
                Ok(Some(_)) => self.talk(&arguments, until).map(|_| self.noted(note)),
                Err(_) => Err(error),
            },
        }
    }

    /// Asks for the head after a failed fetch. Before that, removes what a killed git or a power cut leaves and would
    /// make every fetch fail: a stale lock (only one thread fetches each ref) and unreadable refs.
    fn ask_after_failure(&self, note: PrivateRef, until: Instant) -> Result<Option<Revision>, RemoteError> {
        drop(fs::remove_file(self.folder.join(note.name()).with_extension("lock")));
        self.remove_unreadable_notes();
        self.remote_head(until)
    }

    /// The first fetch, of the whole history: it may take as long as it makes progress.
    fn fetch_all(&self, arguments: &[&str], until: Instant) -> Result<ProcessOutput, RemoteError> {
        let arguments: Vec<&str> =
            arguments.iter().map(|it| if *it == "--quiet" { "--progress" } else { it }).collect();
        let url = self.url.to_string();
        let report = |line: &str| tracing::info!(remote = url, "cloning: {}", self.shown(line));
        let quiet_max = until.saturating_duration_since(Instant::now());
        self.check_fit()?;
        self.answer(not_run(self.processes.run_speaking(self.command(&arguments), quiet_max, &report))?)
    }

    /// Asks the side that takes pushes for the head of the branch, for a remote that is read from a replica.
    pub(crate) fn ask_writing_side(
        &self,
        tip: Revision,
        until: Instant,
    ) -> Result<Option<Revision>, RemoteError> {
        let refspec = format!("+{tip}:refs/heads/{}", self.branch());
        let arguments =
            ["-c", "core.abbrev=no", "push", "--dry-run", "--porcelain", "--", &self.address(), &refspec];
        let ended = self.talk(&arguments, until)?;
        Ok(match status_of(&ended.output, self.branch()) {
            Some(('=', _)) => Some(tip),
            Some((_, summary)) => summary.split("..").next().and_then(|old| old.parse().ok()),
            None => None,
        })
    }

    /// Asks the remote to move its branch from `lease` to `tip`.
    pub(crate) fn push(&self, tip: Revision, lease: Option<Revision>, until: Instant) -> PushOutcome {
        let lease = lease.map_or_else(String::new, |lease| lease.to_string());
        let lease = format!("--force-with-lease=refs/heads/{}:{lease}", self.branch());
        let refspec = format!("{tip}:refs/heads/{}", self.branch());
        let arguments = [
            "push",
            "--porcelain",
            "--no-follow-tags",
            "--no-recurse-submodules",
            &lease,
            "--",
            &self.address(),
            &refspec,
        ];
        let mark = self.folder.join("push-mark");
        drop(fs::remove_file(&mark));
        let mut command = self.command(&arguments);
        command.env("COLLECTORY_PUSH_MARK", &mark);
        let ended = match self.run(command, until) {
            Ok(ended) => ended,
            Err(error) => return PushOutcome::NotSent(error.to_string()),
        };
        let is_marked = mark.exists();
        if is_marked || !self.leaves_marks.load(Ordering::Relaxed) {
            self.leaves_marks.store(is_marked || self.can_leave_marks(&mark), Ordering::Relaxed);
        }
        let is_sent = is_marked || !self.leaves_marks.load(Ordering::Relaxed);
        let said = self.redacted_stderr(&ended);
        if ended.status.is_none() {
            self.access.forget_connections(&self.folder);
        }
        let output = self.access.without_secrets(&ended.output, &self.url);
        PushOutcome::of(&ProcessOutput { output, ..ended }, self.branch(), is_sent, said)
    }

    /// Returns whether our hook can be executed, if git has not run it yet.
    fn can_leave_marks(&self, mark: &Path) -> bool {
        let run = || {
            let mut hook = Command::new(self.folder.join("hooks/pre-push"));
            hook.env("COLLECTORY_PUSH_MARK", mark).stdin(Stdio::piped()).stdout(Stdio::null());
            let mut hook = hook.stderr(Stdio::null()).spawn()?;
            if let Some(mut input) = hook.stdin.take() {
                input.write_all(b"x\n")?;
            }
            hook.wait()
        };
        run().is_ok() && fs::remove_file(mark).is_ok()
    }

    pub(crate) fn are_related(
        &self,
        one: Revision,
        other: Revision,
        until: Instant,
    ) -> Result<bool, RemoteError> {
        self.merge_base(one, other, until).map(|base| base.is_some())
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn address(&self) -> String {
        self.url.for_git(!self.access.has_token())
    }

    /// Runs a command that changes nothing on the remote.
    pub(super) fn talk(&self, arguments: &[&str], until: Instant) -> Result<ProcessOutput, RemoteError> {
        self.answer(self.run(self.command(arguments), until)?)
    }

    fn run(&self, command: Command, until: Instant) -> Result<ProcessOutput, RemoteError> {
        self.check_fit()?;
        not_run(self.processes.run(command, until))
    }

    pub(crate) fn check_fit(&self) -> Result<(), RemoteError> {
        self.unfit.clone().map_or(Ok(()), |why| Err(RemoteError::Unreachable(why)))
    }

    /// Returns the result of such a command, or why it failed.
    fn answer(&self, ended: ProcessOutput) -> Result<ProcessOutput, RemoteError> {
        if ended.status.is_none() {
            self.access.forget_connections(&self.folder);
            return Err(RemoteError::Unreachable("it took longer than --remote-timeout-ms".to_owned()));
        }
        match ended.is_success() {
            true => Ok(ended),
            false => {
                let said = self.access.without_secrets(&ended.error, &self.url);
                Err(unsound(&said).unwrap_or_else(|| RemoteError::Unreachable(advised(&said))))
            }
        }
    }

    /// Returns the names of some branches of the remote.
    pub(crate) fn branches(&self, until: Instant) -> Result<Vec<String>, RemoteError> {
        let ended = self.talk(&["ls-remote", "--quiet", "--heads", "--", &self.address()], until)?;
        let name = |line: &str| Some(self.shown(line.split_once("\trefs/heads/")?.1));
        Ok(ended.output.lines().filter_map(name).take(BRANCHES_NAMED_MAX).collect())
    }

    /// Returns the error output, fit to be shown.
    pub(crate) fn redacted_stderr(&self, ended: &ProcessOutput) -> String {
        self.shown(&ended.error)
    }

    /// Makes output of git or the remote fit to be shown; secrets go first, before shortening can cut one in two.
    fn shown(&self, said: &str) -> String {
        sentence(&self.access.without_secrets(said, &self.url))
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = git_command::git();
        command
            .env("GIT_DIR", &self.folder)
            .env("GIT_OBJECT_DIRECTORY", &self.objects)
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .env("GIT_TERMINAL_PROMPT", "0")
            .current_dir(&self.folder);
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        command.arg("-c").arg(format!("core.hooksPath={}", self.folder.join("hooks").display()));
        self.access.configure_auth(&mut command, &self.url, Some(&self.folder));
        command.args(arguments);
        command
    }
}

pub(super) fn not_run<T>(ended: io::Result<T>) -> Result<T, RemoteError> {
    ended.map_err(|error| RemoteError::Unreachable(format!("cannot run git: {error}")))
}

/// Checks that the `git` command is installed and recent enough.
///
/// # Errors
///
/// Fails with what has to be installed.
pub fn check_version() -> Result<(), RemoteError> {
    let wanted = format!("{}.{} or newer has to be installed", VERSION_MIN.0, VERSION_MIN.1);
    let said = git_command::git().arg("version").output();
    let said = said.map_err(|error| RemoteError::Unreachable(format!("git {wanted}: {error}")))?;
    let text = String::from_utf8_lossy(&said.stdout);
    match git_command::is_recent(&text) {
        true => Ok(()),
        false => Err(RemoteError::Unreachable(format!("git {wanted}, this is {}", text.trim()))),
    }
}
