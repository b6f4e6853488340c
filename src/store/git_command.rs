//! The `git` command, for what git does better than we do: talking to a remote, checking everything, making a copy.

use std::io;
use std::path::Path;
use std::process::Command;

use chrono::{DateTime, TimeDelta, Utc};

use crate::domain::Revision;

/// Variables that would point git at another repository or configuration (`git rev-parse --local-env-vars`).
const LOCAL_VARIABLES: [&str; 16] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_PARAMETERS",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
];

/// Switches off the programs that a repository's configuration can have git run even for a command that only reads:
/// one that reports changes in the work tree (git-config(1), `core.fsmonitor`), one that lists the refs of a
/// repository whose objects are borrowed, one that checks signatures, and hooks.
const READS_ONLY: [&str; 4] = [
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.alternateRefsCommand=true",
    "log.showSignature=false",
];

/// The oldest git that knows `core.fsync`, which a remote requires.
pub(crate) const VERSION_MIN: (u32, u32) = (2, 36);

/// Builds a git command without a repository, whatever repository our own environment names.
pub(crate) fn git() -> Command {
    let mut command = Command::new("git");
    for name in LOCAL_VARIABLES {
        command.env_remove(name);
    }
    command.env("LC_ALL", "C");
    command
}

/// Builds a git command in a repository that runs none of its programs and fetches no missing objects.
pub(crate) fn git_read_only(git_dir: &Path) -> Command {
    let mut command = git();
    command.env("GIT_DIR", git_dir).env("GIT_NO_LAZY_FETCH", "1").env("GIT_ALLOW_PROTOCOL", "");
    for setting in READS_ONLY {
        command.args(["-c", setting]);
    }
    command
}

/// Reports whether the output of `git --version` names a version that can be used.
pub(crate) fn is_recent(said: &str) -> bool {
    let mut numbers = said.split(|it: char| !it.is_ascii_digit()).filter_map(|number| number.parse().ok());
    numbers.next().is_some_and(|major| (major, numbers.next().unwrap_or(0)) >= VERSION_MIN)
}

/// Quotes a text as one word for the shell.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Resolves the name of a commit: a branch, a tag, an abbreviated id, `HEAD~2`; `None` if nothing has that name.
///
/// # Errors
///
/// Fails when git can't be run.
pub(crate) fn rev_parse(git_dir: &Path, name: &str) -> io::Result<Option<Revision>> {
    let mut command = git_read_only(git_dir);
    command.args(["rev-parse", "--verify", "--quiet", "--end-of-options", &format!("{name}^{{commit}}")]);
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    Ok(said.trim_end().parse().ok().filter(|_| output.status.success()))
}

/// Removes a ref, loose or packed.
///
/// # Errors
///
/// Fails with git's message.
pub(crate) fn delete_ref(git_dir: &Path, name: &str) -> io::Result<()> {
    let output = git_read_only(git_dir).args(["update-ref", "--no-deref", "-d", name]).output()?;
    let said = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
    if output.status.success() { Ok(()) } else { Err(io::Error::other(said)) }
}

/// Returns how long the repository's own configuration keeps reflog entries (`gc.reflogExpire`); `None` for ever, for
/// a setting that makes no sense, and without git.
///
/// # Errors
///
/// Fails when git can't be run.
pub(crate) fn reflog_age(git_dir: &Path, now: DateTime<Utc>) -> io::Result<Option<TimeDelta>> {
    let mut command = git_read_only(git_dir);
    command.args([
        "config",
        "--local",
        "--type=expiry-date",
        "--default=90.days",
        "--get",
        "gc.reflogExpire",
    ]);
    let output = match command.output() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        output => output?,
    };
    // Git prints seconds since 1970: 0 for never, and more than `now` for all entries.
    let until: Option<u64> = String::from_utf8_lossy(&output.stdout).trim_end().parse().ok();
    let until = until.filter(|until| output.status.success() && *until > 0);
    let age = |until| now.timestamp().saturating_sub(i64::try_from(until).unwrap_or(i64::MAX)).max(0);
    Ok(until.map(age).map(TimeDelta::seconds))
}

/// Returns whether the repository has ages of its own for the reflogs of some refs (`gc.<pattern>.reflogExpire`).
pub(crate) fn has_reflog_ages_of_refs(git_dir: &Path) -> io::Result<bool> {
    let mut command = git_read_only(git_dir);
    command.args(["config", "--local", "--get-regexp", r"^gc\..+\.reflogexpire(unreachable)?$"]);
    Ok(command.output()?.status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_git_is_as_old_as_it_says() {
        assert!(
            !is_recent("git version 2.35.9\n") && !is_recent("git version 1.8.3.1") && !is_recent("gitoxide")
        );
        assert!(is_recent("git version 2.36.0") && is_recent("git version 3.0.rc1"));
    }
}
