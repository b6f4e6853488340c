//! What somebody pushes into the repository.

use std::fs;
use std::path::Path;

use crate::store::Journal as _;
use crate::store::git::tests::support::*;

/// Pushes what a change makes of a clone.
fn push(repo: &Repo, change: impl FnOnce(&Path)) {
    let there = tempfile::tempdir().unwrap();
    git_in(there.path(), &["clone", "-q", repo.path().to_str().unwrap(), "clone"]);
    let clone = there.path().join("clone");
    change(&clone.join("collections"));
    git_in(&clone, &["add", "-A"]);
    git_in(&clone, &["commit", "-q", "-m", "Push"]);
    repo.git(&["config", "receive.denyCurrentBranch", "ignore"]);
    git_in(&clone, &["push", "-q"]);
}

/// More than is read of a collection.
fn large(letter: &str) -> String {
    letter.repeat(3 << 20)
}

#[test]
fn a_large_file_comes_and_goes_as_any_other_and_stays_where_a_person_has_edited_it() {
    let repo = Repo::new();
    let old = large("o");
    repo.commit(&[("changed.yaml", &old), ("shrunk.yaml", &old), ("gone.yaml", &old), ("mine.yaml", &old)]);
    let mut journal = repo.open();
    journal.catch_up().unwrap();
    repo.save("mine.yaml", &large("m"));
    push(&repo, |folder| {
        for name in ["changed.yaml", "new.yaml", "mine.yaml"] {
            fs::write(folder.join(name), large("n")).unwrap();
        }
        fs::write(folder.join("shrunk.yaml"), "small\n").unwrap();
        fs::remove_file(folder.join("gone.yaml")).unwrap();
    });
    journal.catch_up().unwrap();
    assert_eq!(repo.status(), " M collections/mine.yaml\n");
    assert!(repo.saved("changed.yaml") == large("n") && repo.saved("mine.yaml") == large("m"));
    repo.save("mine.yaml", &large("n"));
    repo.git(&["add", "-A"]);
    assert_eq!(edits(&mut journal), []);
}

#[test]
fn a_large_file_is_deleted_with_its_collection() {
    let repo = Repo::new();
    repo.commit(&[("a.yaml", &large("a"))]);
    let mut journal = repo.open();
    append(&mut journal, &[remove("a.yaml")]);
    assert!(!repo.file("a.yaml").exists());
    assert_eq!(repo.status(), "");
}
