//! Measures bytes per commit after maintenance, against the same history imported and garbage-collected by git.

use std::path::Path;
use std::process::{Command, Stdio};

use collectory::benched::Journal as _;

use super::{GROUP_LEN, append, objects_bytes, open, pack_files};
use crate::support::{git, hermetic, repository, setting};
use crate::table::{Goal, Table};

pub(crate) const PART: &str = "size";

/// Prints both figures, for a history of groups and for one of single commits.
pub(crate) fn compare(table: &mut Table) {
    let collections = setting("COLLECTORY_BENCH_COLLECTIONS", 1_000);
    let commits = setting("COLLECTORY_BENCH_COMMITS", 6_400);
    println!("bytes per commit with {collections} files after {commits} commits:");
    println!("{:>9}  {:>9}  {:>8}  {:>20}  {:>6}", "group", "kept", "packs", "fast-import and gc", "ratio");
    for group_len in [1, 8, GROUP_LEN] {
        let (_seeded, seed) = repository(collections, true);
        git(&seed, &["gc", "-q"]);
        let seed = objects_bytes(&seed);
        let (_ours, path) = repository(collections, true);
        git(&path, &["gc", "-q"]);
        let mut journal = open(&path);
        append(&mut journal, (0, commits, group_len), collections, "size");
        journal.start_maintenance().expect("nobody is in the way");
        journal.finish_maintenance();
        drop(journal);
        let ours = per_commit(&path, seed, commits);
        let (_theirs, by_git) = imported(&path);
        let theirs = per_commit(&by_git, seed, commits);
        let packs = pack_files(&path);
        println!("{group_len:>9}  {ours:>9.0}  {packs:>8}  {theirs:>20.0}  {:>6.2}", ours / theirs);
        let what = format!("bytes a commit / `git fast-import` and `git gc`, groups of {group_len}");
        let bytes = [ours, theirs].map(|bytes| format!("{bytes:.0}"));
        table.compared(PART, what, bytes, ours / theirs, Goal::AtMost(1.5));
    }
}

fn per_commit(path: &Path, seed: u64, commits: usize) -> f64 {
    objects_bytes(path).saturating_sub(seed) as f64 / commits as f64
}

/// Imports the same history into a repository made by git.
fn imported(path: &Path) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let copy = folder.path().join("copy");
    std::fs::create_dir(&copy).expect("a folder can be made");
    git(&copy, &["init", "-q", "-b", "main", "--bare"]);
    let mut export = Command::new("git");
    hermetic(&mut export);
    let mut export = export
        .current_dir(path)
        .args(["fast-export", "main"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("git is installed");
    let mut import = Command::new("git");
    hermetic(&mut import);
    let import = import
        .current_dir(&copy)
        .args(["fast-import", "--quiet"])
        .stdin(export.stdout.take().expect("it is piped"))
        .status();
    assert!(import.expect("git is installed").success() && export.wait().expect("git ends").success());
    git(&copy, &["gc", "-q"]);
    (folder, copy)
}
