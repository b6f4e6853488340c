//! What git reports about the repository, and git's version.

use anyhow::{Context as _, bail};

use crate::cli::doctor::{Finding, Repo};
use crate::store::fsck::fsck;
use crate::store::git::staged_entries;
use crate::store::git_command::{git_read_only, is_recent};

/// How many lines of git's output are reported.
const LINES_MAX: usize = 20;

pub(super) fn check(repo: &Repo, findings: &mut Vec<Finding>) {
    let index = repo.git_dir.join("index");
    if repo.state_of_work_tree().join("work-tree").exists() && !index.exists() {
        let what = format!("{} is gone", index.display());
        let why = "git takes every file for removed, and the next commit by hand would remove them";
        findings.push(Finding::wrong("git-index", what, why, "`git reset` makes it anew"));
    }
    if let (Some(_), Err(error)) = (&repo.work_tree, staged_entries(&index, "")) {
        let fix =
            format!("`rm '{}'` and `git reset` rebuild it, and nothing is staged any more", index.display());
        let why = "nothing is written beside an index that can't be kept up, since the next commit by hand would take it back";
        let what = format!("{:#}", anyhow::Error::new(error));
        findings.push(Finding::wrong("git-index", what, why, fix));
    }
    match said(repo, &["--version"]) {
        Err(error) => {
            let fix = "install git, 2.36 or newer";
            let why = "without it there is no backup, no commit-graph and no shared branch, and nothing here was checked by it";
            return findings.push(Finding::wrong("git", format!("{error:#}"), why, fix));
        }
        Ok(said) if !is_recent(&said) => {
            let fix = "install git 2.36 or newer";
            findings.push(Finding::hint("git", said.trim_end(), "--remote needs a newer one", fix));
        }
        Ok(_) => {}
    }
    let wrong = match fsck(&repo.git_dir) {
        Err(error) => format!("cannot run git fsck: {error}"),
        Ok(faults) if faults.is_empty() => return,
        Ok(faults) => {
            let lines: Vec<_> = faults.into_iter().map(|fault| fault.text).take(LINES_MAX).collect();
            format!("git fsck says: {}", lines.join("; "))
        }
    };
    let fix = "bring back the objects that are named from a backup or a clone (`git fetch`), then look again";
    let why = "what is damaged can't be served, and may spoil clones and backups";
    findings.push(Finding::wrong("fsck", wrong, why, fix));
}

/// Returns git's output for the repository, regardless of its owner: git executes nothing that the repository names.
pub(super) fn said(repo: &Repo, arguments: &[&str]) -> anyhow::Result<String> {
    // With `GIT_DIR` set, git does not ask whose the repository is.
    let output = git_read_only(&repo.git_dir).args(arguments).output().context("cannot run git")?;
    if !output.status.success() {
        let all = [output.stdout, output.stderr].concat();
        let all = String::from_utf8_lossy(&all);
        let lines: Vec<&str> = all.lines().filter(|line| !line.is_empty()).take(LINES_MAX).collect();
        bail!("git {} says: {}", arguments.first().copied().unwrap_or_default(), lines.join("; "));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
