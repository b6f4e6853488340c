//! What is flushed, in which order, and what becomes of a write whose flush fails.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::super::GitJournal;
use super::support::*;

/// The reflog of the branch.
fn reflog(repo: &Repo) -> PathBuf {
    repo.path().join(".git/logs/refs/heads/main")
}

/// What was about to be flushed, and whether the files that name commits named the new one.
type Seen = Arc<Mutex<Vec<(PathBuf, bool)>>>;

/// Notes every flush, and whether one of `files` differed by then from what it is now.
fn watch(journal: &GitJournal, files: Vec<PathBuf>) -> Seen {
    let seen = Seen::default();
    let read = move || files.iter().map(|file| fs::read(file).unwrap()).collect::<Vec<_>>();
    let before = read();
    journal.barrier.hook().set({
        let seen = Arc::clone(&seen);
        move |path| {
            seen.lock().unwrap().push((path.to_owned(), read() != before));
            Ok(())
        }
    });
    seen
}

#[test]
fn nothing_names_a_commit_before_its_pack_would_survive_a_power_cut() {
    let repo = Repo::new();
    let mut journal = repo.open();
    append(&mut journal, &[set("a.yaml", "a1\n")]);
    let git_dir = repo.path().join(".git");
    let names = [reflog(&repo), git_dir.join("logs/HEAD"), git_dir.join("refs/heads/main")];
    let seen = watch(&journal, names.to_vec());
    append(&mut journal, &[set("a.yaml", "a2\n")]);
    let seen = seen.lock().unwrap();
    let at = |path: &Path| seen.iter().position(|(flushed, _)| flushed == path).unwrap();
    let packs = at(&repo.pack_folder());
    assert!(seen[..=packs].iter().all(|(_, is_named)| !is_named), "{seen:#?}");
    assert!(at(&names[0]) > packs && at(&git_dir.join("refs/heads")) > packs, "{seen:#?}");
}
