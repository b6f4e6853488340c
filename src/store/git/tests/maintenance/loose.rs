//! Packing of the loose objects from commits by hand.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::Duration;

use crate::store::git::GitJournal;
use crate::store::git::maintenance::packing::loose_objects::{LOOSE_AGE_MIN, LOOSE_LEN_MIN};
use crate::store::git::tests::support::*;

const COMMITS_LEN: usize = 5;

/// A repository with enough loose objects from a person's commits to be packed, and a collection that the service
/// wrote before and another after them.
fn by_hand() -> Repo {
    let repo = Repo::new();
    append(&mut repo.open(), &[set("first.yaml", "first\n")]);
    for round in 0..COMMITS_LEN {
        let file = |number| (format!("c{number}.yaml"), format!("{round} {number}\n"));
        let files: Vec<_> = (0..LOOSE_LEN_MIN / COMMITS_LEN).map(file).collect();
        repo.commit(&files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect::<Vec<_>>());
    }
    append(&mut repo.open(), &[set("last.yaml", "last\n")]);
    assert!(loose(&repo).len() > LOOSE_LEN_MIN);
    repo
}

fn loose(repo: &Repo) -> Vec<PathBuf> {
    let folders = fs::read_dir(repo.path().join(".git/objects")).unwrap().map(|entry| entry.unwrap().path());
    let folders = folders.filter(|path| path.file_name().unwrap().len() == 2);
    folders.flat_map(|path| fs::read_dir(path).unwrap()).map(|entry| entry.unwrap().path()).collect()
}

/// Backdates files, as if they had been there for a while.
fn age(files: &[PathBuf], age: Duration) {
    for file in files {
        let file = File::open(file).unwrap();
        let modified = file.metadata().unwrap().modified().unwrap();
        file.set_modified(modified - age).unwrap();
    }
}

/// Opens the journal and does the maintenance.
fn tend_once(repo: &Repo) -> GitJournal {
    let mut journal = repo.open();
    run_maintenance(&mut journal);
    journal
}

#[test]
fn what_people_committed_a_while_ago_is_packed_and_all_is_there() {
    let repo = by_hand();
    let log = repo.git(&["log", "--format=%H %T"]);
    age(&loose(&repo), LOOSE_AGE_MIN);
    let mut journal = tend_once(&repo);
    assert_eq!(loose(&repo), [""; 0].map(PathBuf::from));
    assert_eq!(repo.packs().len(), 3);
    assert_eq!(repo.git(&["log", "--format=%H %T"]), log);
    let head = Some(repo.head());
    assert_eq!(files_at(&mut journal, head)["c7.yaml"], format!("{} 7\n", COMMITS_LEN - 1));
    append(&mut journal, &[set("c7.yaml", "by the service\n")]);
    assert_eq!(repo.status(), "");
    repo.check();
}

#[test]
fn what_is_young_or_little_stays_loose() {
    let repo = by_hand();
    let all = loose(&repo);
    age(&all[..LOOSE_LEN_MIN - 1], LOOSE_AGE_MIN);
    tend_once(&repo);
    assert_eq!(loose(&repo).len(), all.len(), "too few are old enough");
    age(&all[LOOSE_LEN_MIN - 1..LOOSE_LEN_MIN], LOOSE_AGE_MIN);
    tend_once(&repo);
    assert_eq!(loose(&repo).len(), all.len() - LOOSE_LEN_MIN);
    repo.check();
}

#[test]
fn loose_objects_are_left_alone_while_git_collects_and_where_objects_are_precious() {
    let repo = by_hand();
    age(&loose(&repo), LOOSE_AGE_MIN);
    let all = loose(&repo).len();
    let collecting = repo.path().join(".git/gc.pid");
    fs::write(&collecting, "1 elsewhere").unwrap();
    tend_once(&repo);
    assert_eq!(loose(&repo).len(), all);
    fs::remove_file(&collecting).unwrap();
    repo.git(&["config", "core.repositoryFormatVersion", "1"]);
    repo.git(&["config", "extensions.preciousObjects", "true"]);
    tend_once(&repo);
    assert_eq!(loose(&repo).len(), all);
}

#[test]
fn a_collection_that_begins_while_loose_objects_are_packed_finds_them_all() {
    let repo = by_hand();
    age(&loose(&repo), LOOSE_AGE_MIN);
    let all = loose(&repo).len();
    let mut journal = repo.open();
    let collecting = repo.path().join(".git/gc.pid");
    let _hook = repo.on_flush(move |_| fs::write(&collecting, "1 elsewhere"));
    run_maintenance(&mut journal);
    assert_eq!((loose(&repo).len(), repo.packs().len()), (all, 3));
    repo.check();
}

#[test]
fn a_kill_between_the_pack_and_the_removal_leaves_everything_readable() {
    let repo = by_hand();
    age(&loose(&repo), LOOSE_AGE_MIN);
    let all = loose(&repo);
    let copies: Vec<_> = all.iter().map(|path| (path, fs::read(path).unwrap())).collect();
    drop(tend_once(&repo));
    copies.iter().for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
    repo.check();
    age(&all, LOOSE_AGE_MIN);
    tend_once(&repo);
    assert_eq!((loose(&repo).len(), repo.packs().len()), (0, 4), "in two packs, and nothing loose");
    repo.check();
}

#[test]
fn what_is_damaged_or_a_tag_stays_where_it_is() {
    let repo = by_hand();
    repo.git(&["tag", "-a", "-m", "A tag", "v1"]);
    let tag = repo.git(&["rev-parse", "v1"]);
    let tag = repo.path().join(".git/objects").join(&tag[..2]).join(tag[2..].trim());
    // The content of another object under this id.
    let wrong = repo.path().join(".git/objects/00").join("0".repeat(38));
    fs::create_dir_all(wrong.parent().unwrap()).unwrap();
    fs::copy(loose(&repo).into_iter().find(|path| *path != tag).unwrap(), &wrong).unwrap();
    age(&loose(&repo), LOOSE_AGE_MIN);
    tend_once(&repo);
    let mut left = loose(&repo);
    left.sort();
    assert_eq!(left, [wrong.clone(), tag]);
    fs::remove_file(wrong).unwrap();
    repo.check();
}

#[test]
fn packs_of_loose_objects_are_merged_with_the_others() {
    let repo = by_hand();
    age(&loose(&repo), LOOSE_AGE_MIN);
    let mut journal = tend_once(&repo);
    for i in 0..=crate::store::git::packs::store::PACKS_MAX {
        // Many more objects than the loose ones, which would otherwise not be worth copying.
        let group: Vec<_> = (0..10).map(|j| set("a.yaml", &format!("{i} {j}\n"))).collect();
        append(&mut journal, &group);
    }
    run_maintenance(&mut journal);
    assert_eq!(repo.packs().len(), 1);
    repo.check();
}
