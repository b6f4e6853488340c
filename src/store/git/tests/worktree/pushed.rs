//! Pushes into the repository.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use crate::store::Journal as _;
use crate::store::git::tests::support::*;

/// Pushes the result of changing a clone.
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

/// A text longer than the part of a collection file that is read.
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

#[test]
fn what_is_pushed_of_who_may_execute_a_file_comes_as_well() {
    for counts in ["true", "false"] {
        let repo = Repo::new();
        repo.commit(&[("a.yaml", "a1\n"), ("b.yaml", "b1\n"), ("mine.yaml", "m1\n")]);
        repo.git(&["config", "core.fileMode", counts]);
        let mut journal = repo.open();
        journal.catch_up().unwrap();
        let chmod = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        let modes = || {
            let mode = |name| fs::metadata(repo.file(name)).unwrap().permissions().mode() & 0o777;
            ["a.yaml", "b.yaml", "mine.yaml"].map(mode)
        };
        chmod(&repo.file("a.yaml"), 0o640);
        chmod(&repo.file("b.yaml"), 0o664);
        repo.save("mine.yaml", "by hand\n");
        chmod(&repo.file("mine.yaml"), 0o600);
        push(&repo, |folder| {
            fs::write(folder.join("b.yaml"), "b2\n").unwrap();
            for name in ["a.yaml", "b.yaml", "mine.yaml"] {
                chmod(&folder.join(name), 0o755);
            }
        });
        journal.catch_up().unwrap();
        assert_eq!(repo.saved("b.yaml"), "b2\n");
        let came = if counts == "true" { [0o750, 0o775, 0o600] } else { [0o640, 0o664, 0o600] };
        assert_eq!((modes(), repo.status().as_str()), (came, " M collections/mine.yaml\n"));
        repo.git(&["checkout", "-q", "--", "collections/mine.yaml"]);
        let [_, _, mine] = modes();
        push(&repo, |folder| {
            fs::write(folder.join("a.yaml"), "a2\n").unwrap();
            for name in ["a.yaml", "b.yaml"] {
                chmod(&folder.join(name), 0o644);
            }
        });
        journal.catch_up().unwrap();
        assert_eq!(repo.saved("a.yaml"), "a2\n");
        assert_eq!((modes(), repo.status().as_str()), ([0o640, 0o664, mine], ""));
    }
}

#[test]
fn who_may_execute_a_file_is_a_person_s_where_they_have_changed_it() {
    let repo = Repo::new();
    repo.commit(&[("a.yaml", "a1\n")]);
    let mut journal = repo.open();
    journal.catch_up().unwrap();
    let (path, mode) = (repo.file("a.yaml"), Permissions::from_mode(0o700));
    fs::set_permissions(&path, mode.clone()).unwrap();
    let inode = fs::metadata(&path).unwrap().ino();
    push(&repo, |folder| fs::set_permissions(folder.join("a.yaml"), mode).unwrap());
    journal.catch_up().unwrap();
    let stat = fs::metadata(&path).unwrap();
    assert_eq!((stat.mode() & 0o777, stat.ino()), (0o700, inode), "it is left alone");
    assert_eq!(repo.status(), "");
    push(&repo, |folder| fs::write(folder.join("a.yaml"), "a2\n").unwrap());
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    journal.catch_up().unwrap();
    assert_eq!((fs::metadata(&path).unwrap().mode() & 0o777, repo.saved("a.yaml").as_str()), (0o600, "a2\n"));
    assert_eq!(repo.status(), " M collections/a.yaml\n");
}
