//! Files of the work tree that can't be brought up to the branch.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;

use rustix::io::Errno;

use crate::store::git::disk::failpoint::Failpoint;
use crate::store::git::tests::support::*;
use crate::store::{GitLocks, Journal as _, Paths};

/// A repository with the file `a.yaml` as it was first, and what stands in the way of changing it.
fn stuck() -> (Repo, crate::store::git::GitJournal, PathBuf) {
    let repo = Repo::new();
    let state = repo.path().join(".git/collectory");
    let mut journal = repo.open();
    append(&mut journal, &[set("a.yaml", "a1\n")]);
    let obstacle = state.join("file-a.yaml");
    fs::create_dir(&obstacle).unwrap();
    (repo, journal, obstacle)
}

#[test]
fn a_file_that_can_not_be_changed_is_no_persons_edit_and_follows_when_it_can() {
    let (repo, mut journal, obstacle) = stuck();
    append(&mut journal, &[set("a.yaml", "a2\n")]);
    append(&mut journal, &[set("b.yaml", "b\n"), set("a.yaml", "a3\n")]);
    assert_eq!(repo.saved("a.yaml"), "a1\n");
    journal.catch_up().unwrap();
    assert_eq!(edits(&mut journal), []);
    drop(journal);
    fs::remove_dir(obstacle).unwrap();
    let mut journal = repo.open();
    assert_eq!(repo.saved("a.yaml"), "a1\n");
    assert_eq!(edits(&mut journal), []);
    journal.catch_up().unwrap();
    assert_eq!(repo.saved("a.yaml"), "a3\n");
    assert_eq!(edits(&mut journal), []);
    assert_eq!(repo.status(), "");
}

#[test]
fn a_file_that_can_not_be_removed_is_no_persons_either() {
    let (repo, mut journal, obstacle) = stuck();
    append(&mut journal, &[remove("a.yaml")]);
    assert_eq!(edits(&mut journal), []);
    fs::remove_dir(obstacle).unwrap();
    // The next write tries again before anything else.
    append(&mut journal, &[set("b.yaml", "b\n")]);
    assert!(!repo.file("a.yaml").exists());
    assert_eq!(repo.status(), "");
}

#[test]
fn what_a_person_makes_of_a_file_that_is_behind_is_theirs() {
    let (repo, mut journal, obstacle) = stuck();
    append(&mut journal, &[set("a.yaml", "a2\n"), set("b.yaml", "b\n")]);
    repo.save("a.yaml", "by hand\n");
    assert_eq!(edits(&mut journal), [edit("a.yaml", "by hand\n")]);
    fs::remove_dir(obstacle).unwrap();
    journal.catch_up().unwrap();
    assert_eq!(repo.saved("a.yaml"), "by hand\n");
    assert_eq!(edits(&mut journal), [edit("a.yaml", "by hand\n")]);
}

#[test]
fn a_file_that_is_behind_and_deleted_by_a_person_stays_deleted() {
    let (repo, mut journal, obstacle) = stuck();
    append(&mut journal, &[set("a.yaml", "a2\n")]);
    fs::remove_file(repo.file("a.yaml")).unwrap();
    fs::remove_dir(obstacle).unwrap();
    journal.catch_up().unwrap();
    assert_eq!(edits(&mut journal), [edit("a.yaml", "gone")]);
}

/// Whether this is the draft that has changed places with a file.
fn of_a_draft(name: &OsStr) -> Option<Errno> {
    name.to_string_lossy().starts_with("file-").then_some(Errno::IO)
}

#[test]
fn a_file_that_can_not_be_read_after_it_was_replaced_is_no_persons_edit() {
    let repo = Repo::new();
    let mut journal = repo.open();
    append(&mut journal, &[set("a.yaml", "a1\n"), set("gone.yaml", "gone\n")]);
    let fault = repo.fail_to_open(of_a_draft);
    append(&mut journal, &[set("a.yaml", "a2\n"), remove("gone.yaml")]);
    assert_eq!(edits(&mut journal), []);
    drop(fault);
    append(&mut journal, &[set("b.yaml", "b\n")]);
    assert_eq!(repo.saved("a.yaml"), "a2\n");
    assert!(!repo.file("gone.yaml").exists());
    assert_eq!(edits(&mut journal), []);
    assert_eq!(repo.status(), "");
}

#[test]
fn a_file_that_can_not_be_read_once_after_it_was_replaced_is_no_persons_edit() {
    for errno in [Errno::IO, Errno::MFILE, Errno::STALE] {
        let repo = Repo::new();
        let mut journal = repo.open();
        append(&mut journal, &[set("a.yaml", "a1\n"), set("gone.yaml", "gone\n")]);
        let mut failed = BTreeSet::new();
        let fault = repo.on_step(move |step, _| match step {
            Failpoint::Open(name) if of_a_draft(name).is_some() && failed.insert(name.to_owned()) => {
                Err(errno.into())
            }
            _ => Ok(()),
        });
        append(&mut journal, &[set("a.yaml", "a2\n"), remove("gone.yaml")]);
        assert_eq!(edits(&mut journal), [], "{errno}");
        drop(fault);
        append(&mut journal, &[set("b.yaml", "b\n")]);
        assert_eq!(repo.saved("a.yaml"), "a2\n");
        assert!(!repo.file("gone.yaml").exists());
        assert_eq!(repo.status(), "");
    }
}

#[test]
fn a_file_that_the_disk_has_lost_harms_only_itself() {
    let repo = Repo::new();
    let mut journal = repo.open();
    append(&mut journal, &[set("a.yaml", "a\n"), set("b.yaml", "b\n")]);
    repo.save("a.yaml", "by hand\n");
    repo.save("b.yaml", "by hand\n");
    let lost = repo.fail_to_open(|name| (name == "a.yaml").then_some(Errno::IO));
    let seen = edits(&mut journal);
    drop(lost);
    let _short = repo.fail_to_open(|name| (name == "a.yaml").then_some(Errno::MFILE));
    let head = journal.head().unwrap();
    let shortage = journal.work_tree(head, Paths::All, GitLocks::Respect);
    assert_eq!(seen, [edit("a.yaml", "a file that can't be read now"), edit("b.yaml", "by hand\n")]);
    assert!(shortage.is_err(), "{shortage:?}");
}
