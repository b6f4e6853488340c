//! Locks of the service and of git, and whether the processes that held them are alive.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cli::doctor::ours::{named, states};
use crate::cli::doctor::{Finding, Fix, Repo};

const CHECK: &str = "locks";

const WHY: &str = "as long as it is there, git refuses to write, and so does the service";

/// The locks that block only updates of the commit-graph.
const OF_GRAPH: [&str; 2] = ["commit-graph-chain.lock", "commit-graph.lock"];

pub(super) fn check_locks(repo: &Repo, findings: &mut Vec<Finding>) {
    // The service's locks are links to these files, which distinguishes them from git's.
    let ours = named(&states(repo), |name| name.starts_with("lock-"));
    let ours: BTreeSet<_> = ours.iter().filter_map(|path| inode(path)).collect();
    for lock in locks(repo) {
        let Some(held) = inode(&lock) else { continue };
        let name = lock.display();
        if ours.contains(&held) {
            // While a service runs, the lock is in use or will be removed in a moment.
            if !repo.is_served {
                let what = format!(
                    "{name} was left by a service that is dead: it is a link to a file of ours, and no process holds the service lock"
                );
                findings.push(Finding::wrong(CHECK, what, WHY, Fix::Start));
            }
            continue;
        }
        // Its process may have removed it and ended in the meantime.
        if !is_dead(repo, held) || inode(&lock) != Some(held) {
            continue;
        }
        let age = age(&lock).map(|age| format!(" and it is {} s old", age.as_secs())).unwrap_or_default();
        let is_graph = lock.file_name().is_some_and(|file| OF_GRAPH.iter().any(|name| file == *name));
        let what = format!(
            "{name} was left by a git that is dead: no process has it open, no git works in the repository{age}"
        );
        findings.push(match is_graph {
            true => Finding::wrong(
                CHECK,
                what,
                "the commit-graph grows no further, and `git log` on a file takes longer and longer",
                Fix::Remove(lock),
            ),
            false => {
                let command = format!(
                    "when no git works in the repository from another machine: rm '{}'",
                    lock.display()
                );
                Finding::wrong(CHECK, what, WHY, command)
            }
        });
    }
}

/// Returns the lock files that stop git or the service from writing here.
fn locks(repo: &Repo) -> Vec<PathBuf> {
    let mut locks = Vec::new();
    for folder in BTreeSet::from([&repo.git_dir, &repo.common_dir]) {
        collect(folder, 0, &mut locks);
        collect(&folder.join("refs"), usize::MAX, &mut locks);
        collect(&folder.join("objects/info"), 1, &mut locks);
    }
    locks.sort();
    locks.dedup();
    locks
}

fn collect(folder: &Path, depth: usize, locks: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if depth > 0 {
                collect(&path, depth - 1, locks);
            }
        } else if path.extension().is_some_and(|ending| ending == "lock") {
            locks.push(path);
        }
    }
}

/// Reports whether no process can hold a lock: none has it open, and no git works here that may have closed it or hides
/// its files.
fn is_dead(repo: &Repo, lock: (u64, u64)) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else { return false };
    for process in processes.flatten() {
        let path = process.path();
        if !process.file_name().to_string_lossy().bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        let is_git = fs::read_to_string(path.join("comm")).unwrap_or_default().starts_with("git");
        match fs::read_dir(path.join("fd")) {
            Ok(mut open) => {
                if open.any(|file| file.is_ok_and(|file| inode(&file.path()) == Some(lock))) {
                    return false;
                }
            }
            // It has ended since the listing, so it holds nothing.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(_) if is_git => return false,
            Err(_) => {}
        }
        // A `git commit` that waits for its message holds the lock but has closed the file.
        if is_git && works_here(repo, &path) {
            return false;
        }
    }
    true
}

/// Reports whether a process, given by its folder in `/proc`, works in the repository.
fn works_here(repo: &Repo, process: &Path) -> bool {
    let Ok(cwd) = fs::read_link(process.join("cwd")) else { return false };
    let roots = [Some(&repo.git_dir), Some(&repo.common_dir), repo.work_tree.as_ref()];
    roots.into_iter().flatten().any(|root| fs::canonicalize(root).is_ok_and(|root| cwd.starts_with(root)))
}

fn inode(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

fn age(path: &Path) -> Option<Duration> {
    fs::metadata(path).ok()?.modified().ok()?.elapsed().ok()
}
