//! A git repository in a temporary folder, driven by the `git` command and nothing else.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use super::fixtures::fixture;
use super::patience::DEADLINE;

/// The name and e-mail address of the person who edits by hand in these tests.
pub(crate) const PERSON: (&str, &str) = ("Hand Editor", "hand@example.org");

/// A repository at a path.
#[derive(Debug, Clone)]
pub(crate) struct Repo {
    path: PathBuf,
}

/// A `git` command without the configuration of the user and of the machine, and without automatic maintenance.
pub(crate) fn git_command(folder: &Path) -> Command {
    let mut command = Command::new("git");
    hermetic(&mut command, folder);
    command.current_dir(folder).args(["-c", "maintenance.auto=false"]);
    command
}

/// Removes the user's own settings from a command's environment.
pub(crate) fn hermetic(command: &mut Command, home: &Path) {
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("GIT_") || name.starts_with("COLLECTORY_") || name.starts_with("XDG_") {
            command.env_remove(&*name);
        }
    }
    command
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_EDITOR", "true")
        .env("GIT_AUTHOR_DATE", "2026-01-02T03:04:05+01:00")
        .env("GIT_COMMITTER_DATE", "2026-01-02T03:04:05+01:00")
        .env("HOME", home)
        .env("LC_ALL", "C")
        .env("TZ", "Pacific/Auckland");
}

impl Repo {
    /// Refers to the repository at a path, which may not exist yet.
    pub(crate) fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Creates an empty repository with a work tree and no commit.
    pub(crate) fn init(path: impl Into<PathBuf>) -> Self {
        let repo = Self::at(path);
        fs::create_dir_all(&repo.path).expect("a temporary folder can be made");
        repo.git(&["init", "--quiet", "--initial-branch=main"]);
        repo.configure_user();
        repo
    }

    /// Creates a repository whose first commit contains a fixture.
    pub(crate) fn seeded(path: impl Into<PathBuf>, name: &str) -> Self {
        let repo = Self::init(path);
        copy_folder(&fixture(name), &repo.path);
        repo.git(&["add", "--all"]);
        repo.git(&["commit", "--quiet", "--message=Seed"]);
        repo
    }

    /// Creates a bare repository with the same history.
    pub(crate) fn bare_clone(&self, path: impl Into<PathBuf>) -> Self {
        let clone = Self::at(path);
        let target = clone.path.to_str().expect("temporary paths are UTF-8");
        self.git(&["clone", "--quiet", "--bare", ".", target]);
        clone.git(&["remote", "remove", "origin"]);
        clone.configure_user();
        clone
    }

    /// Configures the person as git's user.
    pub(crate) fn configure_user(&self) {
        let config = OpenOptions::new().append(true).open(self.git_folder().join("config"));
        let person = format!("[user]\n\tname = {}\n\temail = {}\n", PERSON.0, PERSON.1);
        config.and_then(|mut file| file.write_all(person.as_bytes())).expect("git made it");
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Runs git, which must succeed, and returns its output.
    #[track_caller]
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        let output = self.try_git(arguments);
        assert!(
            output.status.success(),
            "git {arguments:?} failed:\n{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("git prints UTF-8 here").trim_end().to_owned()
    }

    /// Runs git and returns its output, whether it succeeds or not.
    pub(crate) fn try_git(&self, arguments: &[&str]) -> Output {
        git_command(&self.path).args(arguments).output().expect("git is installed")
    }

    /// Like [`try_git`](Self::try_git), but waits for a lock that the service holds for a moment, as a person would.
    pub(crate) fn git_when_free(&self, arguments: &[&str]) -> Output {
        let started = Instant::now();
        loop {
            let output = self.try_git(arguments);
            let is_locked = String::from_utf8_lossy(&output.stderr).contains(".lock");
            if !is_locked || started.elapsed() >= DEADLINE {
                return output;
            }
        }
    }

    /// Makes commits with `git fast-import`; the work tree is not updated.
    #[track_caller]
    pub(crate) fn fast_import(&self, stream: &str) {
        let mut command = git_command(&self.path);
        command.args(["fast-import", "--quiet", "--date-format=raw"]).stdin(Stdio::piped());
        let mut child = command.spawn().expect("git is installed");
        let mut stdin = child.stdin.take().expect("it is piped");
        stdin.write_all(stream.as_bytes()).expect("git takes the stream");
        drop(stdin);
        assert!(child.wait().expect("git ends").success(), "git fast-import failed");
    }

    /// Reads a file of the work tree.
    #[track_caller]
    pub(crate) fn read(&self, file: &str) -> String {
        let path = self.path.join(file);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("cannot read {path:?}: {error}"))
    }

    /// Reports whether the work tree has a file.
    pub(crate) fn has(&self, file: &str) -> bool {
        self.path.join(file).symlink_metadata().is_ok()
    }

    /// Reads a file of the head.
    #[track_caller]
    pub(crate) fn read_at_head(&self, file: &str) -> String {
        let mut text = self.git(&["show", &format!("HEAD:{file}")]);
        text.push('\n');
        text
    }

    /// Writes a file of the work tree in place.
    pub(crate) fn write(&self, file: &str, content: &str) {
        let path = self.path.join(file);
        fs::create_dir_all(path.parent().expect("a file stands in a folder")).expect("a folder can be made");
        fs::write(path, content).expect("a file can be written");
    }

    /// Saves a file as careful editors do: a temporary file beside it, renamed over it.
    pub(crate) fn write_by_rename(&self, file: &str, content: &str) {
        let path = self.path.join(file);
        let name = path.file_name().expect("a file has a name").to_string_lossy().into_owned();
        let beside = path.with_file_name(format!(".{name}.saving"));
        fs::write(&beside, content).expect("a file can be written");
        fs::rename(beside, path).expect("a file can be renamed");
    }

    /// Removes a file of the work tree.
    pub(crate) fn remove(&self, file: &str) {
        fs::remove_file(self.path.join(file)).expect("a file can be removed");
    }

    /// Commits everything in the work tree; returns the commit.
    pub(crate) fn commit(&self, message: &str) -> String {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", message]);
        self.head()
    }

    /// Returns the id of the head.
    #[track_caller]
    pub(crate) fn head(&self) -> String {
        self.git(&["rev-parse", "HEAD"])
    }

    /// Returns the tip of a branch, if it has one.
    pub(crate) fn tip(&self, branch: &str) -> Option<String> {
        let name = format!("refs/heads/{branch}");
        let output = self.try_git(&["rev-parse", "--quiet", "--verify", &name]);
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Returns the number of commits that the head reaches.
    pub(crate) fn commit_count(&self) -> usize {
        self.git(&["rev-list", "--count", "HEAD"]).parse().expect("a count is a number")
    }

    /// Returns the subjects, newest first.
    pub(crate) fn subjects(&self) -> Vec<String> {
        self.git(&["log", "--format=%s"]).lines().map(str::to_owned).collect()
    }

    /// Returns one field of a commit, in git's own format language.
    pub(crate) fn field(&self, revision: &str, format: &str) -> String {
        self.git(&["log", "-1", &format!("--format={format}"), revision])
    }

    /// Returns the trailers of a commit, as `git interpret-trailers` reads them.
    pub(crate) fn trailers(&self, revision: &str) -> Vec<(String, String)> {
        let message = self.field(revision, "%B");
        let file = self.path.with_extension("message");
        fs::write(&file, message).expect("a file can be written");
        let name = file.to_str().expect("temporary paths are UTF-8");
        let parsed = self.git(&["interpret-trailers", "--parse", name]);
        fs::remove_file(&file).expect("a file can be removed");
        let pair = |line: &str| {
            line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned())).expect("a trailer")
        };
        parsed.lines().map(pair).collect()
    }

    /// Returns the values of one trailer of a commit.
    pub(crate) fn trailer(&self, revision: &str, name: &str) -> Vec<String> {
        self.trailers(revision)
            .into_iter()
            .filter(|(found, _)| found == name)
            .map(|(_, value)| value)
            .collect()
    }

    /// Returns the output of `git status`, one line per file.
    #[track_caller]
    pub(crate) fn status(&self) -> String {
        self.git(&["status", "--porcelain", "--untracked-files=all"])
    }

    /// Asserts that git finds nothing wrong in the repository.
    #[track_caller]
    pub(crate) fn fsck(&self) {
        let output = self.try_git(&["fsck", "--full", "--strict", "--no-dangling", "--no-progress"]);
        let said =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let unborn = |line: &&str| line.starts_with("notice: ") || line.contains("unborn branch");
        let faults: Vec<_> = said.lines().filter(|line| !unborn(line)).collect();
        assert!(output.status.success() && faults.is_empty(), "git fsck: {faults:#?}");
    }

    /// Reports whether the repository has no work tree.
    pub(crate) fn is_bare(&self) -> bool {
        !self.has(".git")
    }

    /// Returns the folder with git's own files.
    pub(crate) fn git_folder(&self) -> PathBuf {
        let inner = self.path.join(".git");
        match inner.is_dir() {
            true => inner,
            // The repository is bare, or a linked work tree of another one.
            false => self.path.join(self.git(&["rev-parse", "--git-common-dir"])),
        }
    }

    /// Returns the file of a loose object.
    pub(crate) fn object_file(&self, name: &str) -> PathBuf {
        let id = self.git(&["rev-parse", name]);
        self.git_folder().join("objects").join(&id[..2]).join(&id[2..])
    }

    /// Returns the lock files and temporary files of git that no process holds any more.
    ///
    /// The service's own lock file may stay, because an advisory lock does not depend on the file's existence.
    pub(crate) fn leftover_files(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        walk(&self.git_folder(), &mut |path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let temporary = name.ends_with(".lock") || name.starts_with("tmp_") || name.ends_with(".tmp");
            if temporary && !path.to_string_lossy().contains("collectory") {
                found.push(path.to_owned());
            }
        });
        found
    }
}

/// Visits every file below a folder.
pub(crate) fn walk(folder: &Path, visit: &mut impl FnMut(&Path)) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            walk(&path, visit);
        } else {
            visit(&path);
        }
    }
}

/// Copies a folder with everything in it.
pub(crate) fn copy_folder(from: &Path, to: &Path) {
    walk(from, &mut |path| {
        let target = to.join(path.strip_prefix(from).expect("a walk stays below its root"));
        fs::create_dir_all(target.parent().expect("a file stands in a folder"))
            .expect("a folder can be made");
        fs::copy(path, target).expect("a file can be copied");
    });
}
