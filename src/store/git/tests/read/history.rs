//! The archive compared with git itself.

use std::fs;
use std::sync::Mutex;

use crate::domain::Revision;
use crate::store::git::GitArchive;
use crate::store::git::tests::support::{CommitSpec, NewEntry, Repo, archive_at};
use crate::store::{Archive as _, CommitChanges, FileChange, FirstParents, ResolveError, TreeEntry};

fn names(changes: &[FileChange]) -> Vec<&str> {
    changes.iter().map(|change| change.name.as_str()).collect()
}

fn step(archive: &GitArchive, revision: Revision) -> CommitChanges {
    let found = Mutex::new(None);
    archive.commit_changes(&[revision], &|_, step| *found.lock().unwrap() = Some(step)).unwrap();
    found.into_inner().unwrap().unwrap()
}

#[test]
fn each_commit_tells_what_it_changed_in_the_folder() {
    for folder in ["collections", ".cms/collections", ""] {
        let repo = Repo::bare_with(folder);
        let one = repo.add_commit(&[("a.yaml", "1"), ("b.yml", "1"), ("README.md", "1")], "one");
        let two = repo.add_commit(&[("a.yaml", "2"), ("README.md", "2")], "two");
        let three = repo.add_commit(&[("b.yml", "")], "three");
        let archive = repo.archive();
        assert_eq!(archive.head().unwrap(), Some(three));
        assert_eq!(names(&step(&archive, one).changes), ["a.yaml", "b.yml"], "{folder}");
        assert_eq!(names(&step(&archive, two).changes), ["a.yaml"]);
        let last = step(&archive, three);
        assert_eq!((names(&last.changes), last.changes[0].after), (vec!["b.yml"], None));
        assert_eq!(last.commit.message, "three");
        let line = archive.first_parents(three, &|_| false).unwrap();
        assert_eq!(line, FirstParents { revisions: vec![three, two, one], stopped_at: None });
        let line = archive.first_parents(three, &|it| *it == one).unwrap();
        assert_eq!(line, FirstParents { revisions: vec![three, two], stopped_at: Some(one) });
        assert_eq!(names(&archive.changes(Some(three), Some(one)).unwrap()), ["a.yaml", "b.yml"]);
        assert_eq!(archive.files(two, &|_| true).unwrap().len(), 2);
        let only: Vec<_> = archive.files(two, &|name| name == "b.yml").unwrap();
        assert_eq!(only.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["b.yml"]);
    }
}

#[test]
fn many_steps_are_read_on_all_cores_packed_or_not() {
    let repo = Repo::bare();
    for n in 0..700 {
        let name = format!("k{}.yaml", n % 50);
        repo.add_commit(&[(&name, &format!("{n}"))], &format!("commit {n}"));
    }
    for packed in [false, true] {
        if packed {
            repo.git(&["gc", "--quiet"]);
        }
        let archive = repo.archive();
        let head = archive.head().unwrap().unwrap();
        let line = archive.first_parents(head, &|_| false).unwrap();
        let seen: Mutex<Vec<Option<String>>> = Mutex::new(vec![None; 700]);
        archive
            .commit_changes(&line.revisions, &|index, step| {
                assert_eq!(step.commit.revision, line.revisions[index]);
                seen.lock().unwrap()[index] = Some(step.changes[0].name.clone());
            })
            .unwrap();
        for (index, name) in seen.into_inner().unwrap().into_iter().enumerate() {
            assert_eq!(name, Some(format!("k{}.yaml", (699 - index) % 50)));
        }
    }
}

#[test]
fn a_name_is_a_revision_a_tag_or_a_branch_and_nothing_else() {
    let repo = Repo::bare();
    let one = repo.add_commit(&[("a.yaml", "1")], "one");
    let two = repo.add_commit(&[("a.yaml", "2")], "two");
    repo.tag("v1", &one.to_string());
    repo.point("refs/heads/side", one);
    repo.point("refs/heads/both", one);
    repo.point("refs/tags/both", two);
    repo.tag("tree", "main^{tree}");
    let archive = repo.archive();
    let (long, short) = (one.to_string(), one.to_string()[..7].to_owned());
    for name in [long.as_str(), &long.to_uppercase(), &short, "v1", "side"] {
        assert_eq!(archive.resolve(name).unwrap(), one, "{name}");
    }
    assert_eq!(archive.resolve("main").unwrap(), two);
    let head_range = format!("{long}..main");
    let tree = repo.git(&["rev-parse", "main^{tree}"]);
    for bad in [
        "",
        "HEAD",
        "HEAD~1",
        "main~1",
        "main^",
        "main@{1}",
        "@",
        ":/one",
        &head_range,
        "both",
        "tree",
        "nope",
        "refs/heads/main",
        "heads/main",
        "main:collections",
        &long[..6],
        "2026-13-45",
        "yesterday",
        "-x",
        "a b",
        "\u{0}",
        "../main",
        "v1^{}",
        &format!("{long}0"),
        tree.trim(),
    ] {
        assert!(matches!(archive.resolve(bad), Err(ResolveError::Bad(_))), "{bad:?}");
    }
    for unknown in ["0000000", &"1".repeat(40)] {
        assert!(matches!(archive.resolve(unknown), Err(ResolveError::Unknown)), "{unknown}");
    }
}

#[test]
fn linked_work_trees_share_the_history_and_the_notes() {
    let repo = Repo::new();
    let one = repo.add_commit(&[("a.yaml", "1")], "one");
    repo.git(&["worktree", "add", "-q", "--detach", "../linked", "main"]);
    let archive = archive_at(&repo.outside().join("linked"), "collections");
    assert_eq!(archive.head().unwrap(), Some(one));
    assert_eq!(archive.read_cached("note").unwrap(), None);
    archive.write_cached("note", b"kept").unwrap();
    archive.write_cached("note", b"kept again").unwrap();
    assert_eq!(repo.archive().read_cached("note").unwrap().unwrap(), b"kept again");
    let state = repo.path().join(".git/collectory");
    assert_eq!(fs::read_dir(state).unwrap().count(), 1, "nothing is left beside the note");
}

#[test]
fn a_commit_reaches_itself_its_past_and_nothing_else() {
    let repo = Repo::bare();
    let one = repo.add_commit(&[("a.yaml", "1")], "one");
    let two = repo.add_commit(&[("a.yaml", "2")], "two");
    let who = ("x", "x@x");
    let side = repo.make(&CommitSpec {
        parents: &[one],
        files: &[("b.yaml", NewEntry::Link)],
        message: "side",
        author: who,
        committer: who,
        at: 5,
    });
    let archive = repo.archive();
    assert!(archive.descends(two, two).unwrap() && archive.descends(two, one).unwrap());
    assert!(!archive.descends(one, two).unwrap() && !archive.descends(two, side).unwrap());
    assert!(!archive.descends(two, Revision::new([9; 20])).unwrap());
    assert_eq!(step(&archive, side).changes[0].after, Some(TreeEntry::Special(crate::store::Special::Link)));
}
