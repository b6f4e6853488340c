//! Checks of the file system, the free space and the clock.

use std::fs::{self, File};
use std::io;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use rustix::fs::statvfs;
use tokio::sync::mpsc;

use crate::cli::doctor::permissions::is_closed;
use crate::cli::doctor::{Finding, Repo, git};
use crate::cli::scratch::Scratch;
use crate::http::Clock;
use crate::watch::{self, WatchedPaths};

/// Less free space than this is soon used up.
const BYTES_MIN: u64 = 200 * 1024 * 1024;

/// The minimum number of free inodes: a commit needs a few files until packs are merged.
const INODES_MIN: u64 = 1_000;

/// How long a file system notification may take.
const NOTICE_WAIT_MAX: Duration = Duration::from_secs(2);

/// A slower flush makes every write slow.
const FLUSH_SLOW: Duration = Duration::from_millis(500);

/// How far the clock may be behind the newest commit.
const CLOCK_SLACK: TimeDelta = TimeDelta::minutes(1);

pub(super) fn check(repo: &Repo, findings: &mut Vec<Finding>) {
    room(repo, findings);
    clock(repo, findings);
    match scratch_in(&repo.state()) {
        Ok(scratch) => {
            if let Err(error) = file_system(scratch.path(), findings) {
                let what = format!(
                    "files can't be written, flushed and renamed in {}: {error}",
                    scratch.path().display()
                );
                let fix = "mend the file system, or move the repository to another one";
                findings.push(Finding::wrong("file-system", what, "no write can be made durable", fix));
            }
        }
        // The permissions check has already reported this.
        Err(_) if is_closed(&repo.state()) => {}
        Err(error) => {
            let what = format!("nothing can be made in {}: {error}", repo.state().display());
            let fix = "mend the file system, or move the repository to another one";
            findings.push(Finding::wrong("file-system", what, "nothing can be served", fix));
        }
    }
}

fn room(repo: &Repo, findings: &mut Vec<Finding>) {
    let Ok(room) = statvfs(&repo.common_dir) else { return };
    let bytes = room.f_bavail.saturating_mul(room.f_frsize);
    let fix = "make room; writes go on by themselves then";
    if bytes < BYTES_MIN {
        let what = format!("{} MB are free", bytes / 1024 / 1024);
        findings.push(Finding::wrong("room", what, "writes fail when the disk is full", fix));
    }
    // File systems without a fixed number of inodes report 0.
    if room.f_files > 0 && room.f_favail < INODES_MIN {
        let what = format!("{} inodes are free", room.f_favail);
        findings.push(Finding::wrong("room", what, "writes fail when there is none for another file", fix));
    }
}

fn clock(repo: &Repo, findings: &mut Vec<Finding>) {
    let newest = ["rev-list", "--max-count=1", "--timestamp", &repo.branch];
    let Ok(at) = git::said(repo, &newest) else { return };
    let at = at.split(' ').next().unwrap_or_default();
    let Some(at) = at.parse().ok().and_then(|at| DateTime::from_timestamp(at, 0)) else { return };
    let now: DateTime<Utc> = Clock::system().now();
    if at > now + CLOCK_SLACK {
        let what =
            format!("it is {} here, and the newest commit is of {}", now.to_rfc3339(), at.to_rfc3339());
        let fix = "set the clock, of this machine or of whoever made that commit";
        findings.push(Finding::wrong("clock", what, "times, `asOf` and the end of tokens are wrong", fix));
    }
}

/// Checks that files are written, flushed, renamed and noticed as they should be.
fn file_system(folder: &Path, findings: &mut Vec<Finding>) -> io::Result<()> {
    let (old, new) = (folder.join("old.yaml"), folder.join("new.yaml"));
    fs::write(&old, "old")?;
    let mut file = File::create(&new)?;
    file.write_all(b"new")?;
    let began = std::time::Instant::now();
    file.sync_all()?;
    fs::rename(&new, &old)?;
    File::open(folder)?.sync_all()?;
    let took = began.elapsed();
    if fs::read(&old)? != b"new" {
        return Err(io::Error::other("a rename does not replace"));
    }
    if took > FLUSH_SLOW {
        let what = format!("a flush takes {} ms", took.as_millis());
        let fix = "look for what else writes there, or for a disk that fails";
        findings.push(Finding::hint("file-system", what, "every write waits for at least one", fix));
    }
    if !is_noticed(folder)? {
        let fix = "serve with `--watch none`, so that nobody relies on notices, or raise fs.inotify.max_user_watches";
        let what = "the system tells nothing of changed files there";
        findings.push(Finding::hint(
            "file-system",
            what,
            "hand edits are found by the slow tick only (--tick-ms)",
            fix,
        ));
    }
    Ok(())
}

fn is_noticed(folder: &Path) -> io::Result<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let places =
        WatchedPaths { work_tree: Some((folder.to_owned(), folder.to_owned())), branch_files: Vec::new() };
    let (quiet, tick) = (Duration::from_millis(10), NOTICE_WAIT_MAX * 10);
    let options = watch::Options { quiet, quiet_unclosed: quiet, tick, notices: true };
    let (signals, mut noticed) = mpsc::channel(16);
    let watch = watch::start(places, options, signals)?;
    fs::write(folder.join("old.yaml"), "changed")?;
    let event = runtime.block_on(async { tokio::time::timeout(NOTICE_WAIT_MAX, noticed.recv()).await });
    drop(watch);
    Ok(matches!(event, Ok(Some(_))))
}

fn scratch_in(state: &Path) -> io::Result<Scratch> {
    fs::create_dir_all(state)?;
    Scratch::inside(state, "doctor")
}
