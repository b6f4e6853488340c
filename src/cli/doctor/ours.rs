//! The service's own files, and the work tree that it updates.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cli::doctor::{Finding, Fix, Repo};

/// The minimum age of leftovers, so that files of a running process are not reported.
const AGE_MIN: Duration = Duration::from_secs(600);

/// The length of the checksum at the end of a file.
const SUM_BYTES: usize = 4;

pub(super) fn check(repo: &Repo, findings: &mut Vec<Finding>) {
    odd(repo, findings);
    leftovers(repo, findings);
    kept(repo, findings);
    work_tree(repo, findings);
    index(repo, findings);
    packs(repo, findings);
}

/// Finds what stands in the place of a file of the service.
fn odd(repo: &Repo, findings: &mut Vec<Finding>) {
    let is_folder = |name: &str| ["remote", "scratch-index"].contains(&name) || name.starts_with("doctor-");
    let is_odd = |path: &PathBuf| path.symlink_metadata().is_ok_and(|there| !there.is_file());
    for path in named(&states(repo), |name| !is_folder(name)).into_iter().filter(is_odd) {
        let what = format!("{} is no ordinary file", path.display());
        let why = "the service can't start, or can't write, while it is there";
        findings.push(Finding::wrong("state", what, why, "move it away"));
    }
}

/// Finds unfinished files of killed processes. A running service may still be writing them.
fn leftovers(repo: &Repo, findings: &mut Vec<Finding>) {
    let ours = named(&states(repo), |name| {
        name.ends_with(".new") || name.starts_with("file-") || ["index-next", "scratch-index"].contains(&name)
    });
    if !repo.is_served && !ours.is_empty() {
        let what = format!(
            "{} that a killed service had begun: {}",
            crate::cli::counted(ours.len(), "file"),
            first(&ours)
        );
        findings.push(Finding::wrong(
            "leftovers",
            what,
            "they take room and are never looked at again",
            Fix::Start,
        ));
    }
    let packs = named(&[repo.common_dir.join("objects/pack")], |name| name.starts_with("tmp_"));
    let old: Vec<PathBuf> = packs.into_iter().filter(|path| is_old(path)).collect();
    if !old.is_empty() {
        let what = format!(
            "{} that a killed git had begun: {}",
            crate::cli::counted(old.len(), "pack"),
            first(&old)
        );
        let fix =
            "git gc removes them when they are two weeks old, `git prune-packed; git gc --prune=now` at once";
        findings.push(Finding::hint("leftovers", what, "they take room", fix));
    }
}

/// Finds files that a person saved and that the service put aside.
fn kept(repo: &Repo, findings: &mut Vec<Finding>) {
    let kept = named(&states(repo), |name| name.starts_with("kept-"));
    if !kept.is_empty() {
        let what = format!(
            "{} that somebody had saved and that had no other place: {}",
            crate::cli::counted(kept.len(), "file"),
            first(&kept)
        );
        let fix = "look whether what they hold is wanted, and remove them";
        findings.push(Finding::hint("kept", what, "nobody else removes them, and nobody reads them", fix));
    }
}

/// Finds a work tree that shows an older commit than the branch's head.
fn work_tree(repo: &Repo, findings: &mut Vec<Finding>) {
    if let Some(path) = repo.behind.first() {
        let count = crate::cli::counted(repo.behind.len(), "path");
        let what = format!("{count} behind the branch, in files or index: {path}");
        let why = "who commits there now would take back what came since";
        findings.push(Finding::wrong("work-tree", what, why, Fix::Start));
    }
}

/// Checks the history index, which is a copy of what git has.
fn index(repo: &Repo, findings: &mut Vec<Finding>) {
    let path = repo.state().join("history-index");
    let Ok(bytes) = fs::read(&path) else { return };
    let at = bytes.len().saturating_sub(SUM_BYTES);
    if crc32fast::hash(&bytes[..at]).to_le_bytes() != bytes[at..] {
        let what = format!("{} does not fit its sum", path.display());
        let why = "the next start reads the whole history again";
        findings.push(Finding::wrong("index", what, why, Fix::Remove(path)));
    }
}

/// Finds packs whose objects are all in another pack.
fn packs(repo: &Repo, findings: &mut Vec<Finding>) {
    let listed = fs::read_to_string(repo.state().join("spare-packs")).unwrap_or_default();
    let folder = repo.common_dir.join("objects/pack");
    // Each line names such a pack first, and then the pack that has its objects.
    let names = listed.lines().filter_map(|line| line.split_whitespace().next());
    let count = names.filter(|name| folder.join(name).with_extension("pack").exists()).count();
    if count > 0 && !repo.is_served {
        let what = format!("{} whose objects are in another one", crate::cli::counted(count, "pack"));
        let fix = "a running service removes them after ten minutes, `git gc` at once";
        findings.push(Finding::hint("packs", what, "they take room", fix));
    }
}

pub(super) fn states(repo: &Repo) -> Vec<PathBuf> {
    let mut folders = vec![repo.state(), repo.state_of_work_tree()];
    folders.dedup();
    folders
}

pub(super) fn named(folders: &[PathBuf], is_meant: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
    let mut found: Vec<PathBuf> = entries
        .filter(|entry| is_meant(&entry.file_name().to_string_lossy()))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found
}

fn first(files: &[PathBuf]) -> String {
    files.first().map(|file| file.display().to_string()).unwrap_or_default()
}

fn is_old(path: &Path) -> bool {
    let modified = fs::metadata(path).and_then(|file| file.modified());
    modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > AGE_MIN))
}
