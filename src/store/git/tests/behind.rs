//! Files of the work tree that can't be brought up to the branch.

use std::fs;
use std::path::PathBuf;

use super::support::*;
use crate::store::Journal as _;

/// What stands in the way of changing `a.yaml`, wherever its draft would be.
struct Obstacle(Vec<PathBuf>);

impl Obstacle {
    fn put(repo: &Repo) -> Self {
        let desk = repo.path().join(".git/collectory");
        let drawers = fs::read_dir(desk.join("drawers")).map(|drawers| drawers.map(|it| it.unwrap().path()));
        let folders = drawers.into_iter().flatten().chain([desk]);
        let obstacles: Vec<_> = folders.map(|folder| folder.join("file-a.yaml")).collect();
        obstacles.iter().for_each(|obstacle| fs::create_dir(obstacle).unwrap());
        Self(obstacles)
    }

    fn remove(self) {
        self.0.iter().for_each(|obstacle| fs::remove_dir(obstacle).unwrap());
    }
}

/// A repository with the file `a.yaml` as it was first, and what stands in the way of changing it.
fn stuck() -> (Repo, crate::store::git::GitJournal, Obstacle) {
    let repo = Repo::new();
    let mut journal = repo.open();
    append(&mut journal, &[set("a.yaml", "a1\n")]);
    let obstacle = Obstacle::put(&repo);
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
    obstacle.remove();
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
    obstacle.remove();
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
    obstacle.remove();
    journal.catch_up().unwrap();
    assert_eq!(repo.saved("a.yaml"), "by hand\n");
    assert_eq!(edits(&mut journal), [edit("a.yaml", "by hand\n")]);
}

#[test]
fn a_file_that_is_behind_and_deleted_by_a_person_stays_deleted() {
    let (repo, mut journal, obstacle) = stuck();
    append(&mut journal, &[set("a.yaml", "a2\n")]);
    fs::remove_file(repo.file("a.yaml")).unwrap();
    obstacle.remove();
    journal.catch_up().unwrap();
    assert_eq!(edits(&mut journal), [edit("a.yaml", "gone")]);
}
