//! Pack indexes that are lost, to a `git gc` or because a person removed them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::store::Journal as _;
use crate::store::git::disk::failpoint::Failpoint;
use crate::store::git::tests::support::*;
use crate::store::git::{GitJournal, Options};

/// A bare repository with some commits.
fn written() -> (Repo, GitJournal) {
    let repo = Repo::bare();
    let mut journal = repo.open();
    for text in ["a1\n", "a2\n", "a3\n"] {
        append(&mut journal, &[set("a.yaml", text), set("b.yaml", text)]);
    }
    (repo, journal)
}

fn remove_indexes(repo: &Repo) {
    repo.packs().iter().for_each(|pack| fs::remove_file(pack.with_extension("idx")).unwrap());
}

/// Returns the files that are neither packs nor their indexes.
fn others(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_whole = |path: &PathBuf| ["pack", "idx"].iter().all(|ending| path.with_extension(ending).exists());
    let is_pack = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "pack" || ending == "idx");
    paths.filter(|path| !is_pack(path) || !is_whole(path)).collect()
}

#[track_caller]
fn all_is_whole(repo: &Repo) {
    assert_eq!(others(&repo.pack_folder()), Vec::<PathBuf>::new());
    repo.check();
}

#[test]
fn packs_of_ours_get_their_indexes_back_at_the_start() {
    let (repo, mut journal) = written();
    let head = journal.head().unwrap();
    drop(journal);
    remove_indexes(&repo);
    repo.git_fails(&["fsck"]);
    let mut journal = repo.open();
    assert_eq!(files_at(&mut journal, head)["a.yaml"], "a3\n");
    all_is_whole(&repo);
}

#[test]
fn packs_of_ours_get_their_indexes_back_while_writes_go_on() {
    let (repo, mut journal) = written();
    remove_indexes(&repo);
    append(&mut journal, &[set("a.yaml", "a4\n")]);
    run_maintenance(&mut journal);
    all_is_whole(&repo);
    let head = journal.head().unwrap();
    assert_eq!(files_at(&mut journal, head)["b.yaml"], "a3\n");
}

#[test]
fn without_maintenance_indexes_are_made_anew_all_the_same() {
    let (repo, journal) = written();
    drop(journal);
    let mut journal = GitJournal::open(Options { maintain: false, ..repo.options() }).unwrap();
    remove_indexes(&repo);
    run_maintenance(&mut journal);
    all_is_whole(&repo);
}

#[test]
fn a_pack_that_loses_its_index_between_the_branch_s_move_and_a_kill_is_whole_again() {
    let (repo, mut journal) = written();
    let before = repo.packs();
    append(&mut journal, &[set("a.yaml", "a4\n")]);
    drop(journal);
    let newest = repo.packs().into_iter().find(|pack| !before.contains(pack)).unwrap();
    fs::remove_file(newest.with_extension("idx")).unwrap();
    fs::write(newest.with_extension("keep"), "collectory\n").unwrap();
    drop(repo.open());
    all_is_whole(&repo);
}

#[test]
fn a_pack_of_somebody_else_is_theirs_to_index() {
    let (repo, journal) = written();
    drop(journal);
    let (ours, pack) =
        (repo.packs().pop().unwrap(), repo.pack_folder().join(format!("pack-{}.pack", "7".repeat(40))));
    for ending in ["pack", "idx"] {
        fs::rename(ours.with_extension(ending), pack.with_extension(ending)).unwrap();
    }
    let (index, aside) = (pack.with_extension("idx"), repo.path().join("aside.idx"));
    fs::rename(&index, &aside).unwrap();
    drop(GitJournal::open(repo.options()));
    assert!(!index.exists());
    fs::rename(&aside, &index).unwrap();
    repo.check();
}

#[test]
fn the_same_write_again_is_another_pack() {
    let (repo, mut journal) = written();
    let before = repo.packs().len();
    let stop = repo.stop_at(Failpoint::MoveBranch);
    for _ in 0..2 {
        assert!(try_append(&mut journal, &[set("a.yaml", "a4\n")]).is_err());
    }
    drop(stop);
    append(&mut journal, &[set("a.yaml", "a4\n")]);
    assert_eq!(repo.packs().len(), before + 3, "so nobody who removes the first ones removes the last");
}
