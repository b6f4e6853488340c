//! A checkout of the served branch that reverted files to the version before a write.

use std::fs;
use std::time::{Duration, Instant};

use crate::store::git::tests::support::*;
use crate::store::git::{GitJournal, Options};
use crate::store::{Journal as _, StoreError};

/// Simulates a `git checkout main` that read `main` before the last writes.
fn check_out_late(repo: &Repo, from: &str) {
    repo.git(&["read-tree", "-m", "-u", "HEAD", from]);
    repo.git(&["symbolic-ref", "-m", "checkout: moving from main to main", "HEAD", "refs/heads/main"]);
}

/// A repository with three recent writes.
fn written() -> (Repo, GitJournal) {
    let repo = Repo::new();
    let mut journal = repo.open();
    append(&mut journal, &[set("a.yaml", "a0\n"), set("gone.yaml", "gone\n"), set("b.yaml", "b\n")]);
    append(&mut journal, &[set("a.yaml", "a1\n")]);
    append(&mut journal, &[set("a.yaml", "a2\n"), set("new.yaml", "new\n"), remove("gone.yaml")]);
    (repo, journal)
}

#[test]
fn what_a_racing_checkout_has_set_back_is_brought_forward_and_no_edit() {
    let (repo, mut journal) = written();
    check_out_late(&repo, "HEAD~4");
    assert_eq!((repo.saved("a.yaml"), repo.file("gone.yaml").exists()), ("a0\n".to_owned(), true));
    assert_eq!(edits(&mut journal), []);
    assert_eq!(repo.saved("a.yaml"), "a2\n");
    assert!(repo.file("new.yaml").exists() && !repo.file("gone.yaml").exists());
    assert_eq!(repo.status(), "");
}

#[test]
fn a_write_that_comes_before_it_is_noticed_stands_too() {
    let (repo, mut journal) = written();
    check_out_late(&repo, "HEAD~4");
    append(&mut journal, &[set("a.yaml", "a3\n"), set("b.yaml", "b3\n")]);
    assert_eq!(edits(&mut journal), []);
    assert_eq!((repo.saved("a.yaml"), repo.saved("b.yaml")), ("a3\n".to_owned(), "b3\n".to_owned()));
    assert_eq!(repo.status(), "");
}

#[test]
fn what_a_person_saves_meanwhile_is_theirs() {
    let (repo, mut journal) = written();
    check_out_late(&repo, "HEAD~4");
    repo.save("a.yaml", "by hand\n");
    assert_eq!(edits(&mut journal), [edit("a.yaml", "by hand\n")]);
    assert_eq!(repo.saved("a.yaml"), "by hand\n");
}

#[test]
fn what_a_person_takes_back_on_purpose_is_an_edit() {
    let repo = Repo::new();
    let mut journal = repo.open();
    append(&mut journal, &[set("a.yaml", "a0\n")]);
    check_out_late(&repo, "HEAD");
    append(&mut journal, &[set("a.yaml", "a1\n")]);
    repo.git(&["checkout", "-q", "HEAD~1", "--", "collections/a.yaml"]);
    assert_eq!(edits(&mut journal), [edit("a.yaml", "a0\n")]);
    journal.catch_up().unwrap();
    assert_eq!(edits(&mut journal), [edit("a.yaml", "a0\n")]);
}

#[test]
fn a_write_waits_for_a_rebase_that_goes_on_and_for_none_that_stands_still() {
    let repo = Repo::new();
    let mut journal = GitJournal::open(Options { lock_wait_ms_max: 60_000, ..repo.options() }).unwrap();
    append(&mut journal, &[set("a.yaml", "a\n")]);
    repo.git(&["checkout", "--quiet", "--detach"]);
    let folder = repo.path().join(".git/rebase-merge");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("head-name"), "refs/heads/other\n").unwrap();
    append(&mut journal, &[set("a.yaml", "b\n")]);
    let begun = Instant::now();
    fs::remove_file(folder.join("head-name")).unwrap();
    fs::write(folder.join("head-name"), "refs/heads/main\n").unwrap();
    let waited = try_append(&mut journal, &[set("a.yaml", "c\n")]);
    assert!(matches!(waited, Err(StoreError::HeadMoved { .. })), "it is decided again: {waited:?}");
    assert!(begun.elapsed() > Duration::from_millis(400), "{:?}", begun.elapsed());
    append(&mut journal, &[set("a.yaml", "c\n")]);
}
