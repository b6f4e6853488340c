//! The `git` command, for what git does better than we: to talk to a remote, to check everything, to make a copy.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

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

/// Switches off what the configuration of a repository may have git run even for a command that only reads: a
/// program that tells what has changed in the work tree (git-config(1), `core.fsmonitor`), one that lists the refs
/// of a repository whose objects are borrowed, one that checks signatures, and hooks.
const READS_ONLY: [&str; 4] = [
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.alternateRefsCommand=true",
    "log.showSignature=false",
];

/// Git, for no repository yet, whatever our own environment says.
pub(crate) fn git() -> Command {
    let mut command = Command::new("git");
    for name in LOCAL_VARIABLES {
        command.env_remove(name);
    }
    command.env("LC_ALL", "C");
    command
}

/// Git, in a repository of which nothing is run, and for which nothing that is missing is fetched.
pub(crate) fn git_reading(git_dir: &Path) -> Command {
    let mut command = git();
    command.env("GIT_DIR", git_dir).env("GIT_NO_LAZY_FETCH", "1").env("GIT_ALLOW_PROTOCOL", "");
    for setting in READS_ONLY {
        command.args(["-c", setting]);
    }
    command
}

/// The commit that a person means: a branch, a tag, an abbreviated id, `HEAD~2`; `None` when nothing is called so.
///
/// # Errors
///
/// Says why git could not be asked.
pub(crate) fn rev_parse(git_dir: &Path, name: &str) -> io::Result<Option<Revision>> {
    let mut command = git_reading(git_dir);
    command.args(["rev-parse", "--verify", "--quiet", "--end-of-options", &format!("{name}^{{commit}}")]);
    let output = command.stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    Ok(said.trim_end().parse().ok().filter(|_| output.status.success()))
}
