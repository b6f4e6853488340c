//! Expires the reflogs, which every write lengthens, as git does.
//!
//! `git gc` drops entries older than `gc.reflogExpire` (90 days), but a repository whose service tidies it up may
//! never see a `git gc`. Git rewrites the files itself, under its own locks and at the lowest priority:
//!
//! ```text
//! git reflog expire --expire=90.days --expire-unreachable=90.days refs/heads/main HEAD
//! ```
//!
//! Both ages are the same, because finding out what is unreachable takes long. They would override an age that is
//! configured for some refs, so such a repository is left to `git gc`. Git holds the lock of the branch meanwhile, for
//! 0.7 s with a million entries, so this is done once a day. Git does not flush reflogs, so everything is flushed
//! afterwards: a power cut in between may lose a reflog, but no commit.

use std::io::{BufRead as _, BufReader};
use std::path::Path;

use chrono::{DateTime, TimeDelta, Utc};

use crate::store::git::disk::barrier::Barrier;
use crate::store::git::disk::open::open;
use crate::store::git::disk::stamp::now;
use crate::store::git::maintenance::commit_graph::CommitGraph;
use crate::store::git::maintenance::git_process::GitOutcome;
use crate::store::git::repo::refs::kept::reflog_age;
use crate::store::git::repo::refs::reflog;
use crate::store::git_command::has_reflog_ages_of_refs;
use crate::store::{AtPath as _, StoreError};

/// How far the oldest entry must exceed the age before a reflog is rewritten; the longer it is, the longer that takes.
const SLACK: TimeDelta = TimeDelta::days(1);

pub(crate) fn expire(graph: &CommitGraph, barrier: &Barrier) -> Result<(), StoreError> {
    let layout = graph.layout();
    let Some(age) = reflog_age(layout)? else { return Ok(()) };
    let branch = graph.archive.branch.name.as_str();
    let logs = [(reflog(&layout.common_dir, branch), branch), (reflog(&layout.git_dir, "HEAD"), "HEAD")];
    let is_old = |log: &Path| oldest(log).is_some_and(|at| now() - at >= age + SLACK);
    let old: Vec<&str> = logs.iter().filter(|(log, _)| is_old(log)).map(|(_, name)| *name).collect();
    let has_ages_of_refs =
        || has_reflog_ages_of_refs(&layout.common_dir).at("read the configuration of", &layout.common_dir);
    if old.is_empty() || has_ages_of_refs()? {
        return Ok(());
    }
    let ages = ["expire", "expire-unreachable"].map(|it| format!("--{it}={}.seconds.ago", age.num_seconds()));
    let words = ["reflog", "expire", &ages[0], &ages[1]].into_iter().chain(old);
    match graph.git.run(&words.collect::<Vec<_>>())? {
        GitOutcome::Succeeded => barrier.file_system(&layout.common_dir),
        GitOutcome::Stopped | GitOutcome::NotInstalled | GitOutcome::Failed(..) => Ok(()),
    }
}

/// Returns the time of the first entry of a reflog.
fn oldest(log: &Path) -> Option<DateTime<Utc>> {
    let mut line = Vec::new();
    BufReader::new(open(log).ok()?).read_until(b'\n', &mut line).ok()?;
    let line = String::from_utf8_lossy(&line);
    let (actor, _) = line.split_once('\t')?;
    let seconds = actor[actor.rfind('>')? + 1..].split_whitespace().next()?;
    DateTime::from_timestamp(seconds.parse().ok()?, 0)
}
