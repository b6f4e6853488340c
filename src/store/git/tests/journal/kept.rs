//! Former heads of the branch: kept durably, and for as long as git keeps reflogs.

use std::fs;

use chrono::{DateTime, TimeDelta, Utc};

use crate::domain::Revision;
use crate::store::git::tests::support::*;
use crate::store::{Journal as _, KeptHead};

const NAME: &str = "20260301T093000Z";

fn now() -> DateTime<Utc> {
    "2026-03-01T09:30:00.5Z".parse().unwrap()
}

/// A repository in which the branch has lost its second commit.
fn set_back() -> (Repo, Revision) {
    let repo = Repo::bare();
    let mut journal = repo.open();
    let first = append(&mut journal, &[set("a.yaml", "a1\n")])[0].revision;
    let second = append(&mut journal, &[set("a.yaml", "a2\n")])[0].revision;
    repo.git(&["update-ref", "refs/heads/main", &first.to_string()]);
    (repo, second)
}

fn refs(repo: &Repo) -> String {
    repo.git(&["for-each-ref", "--format=%(refname) %(objectname)", "refs/collectory"])
}

#[test]
fn what_is_kept_is_a_ref_that_outlives_git_gc() {
    let (repo, old) = set_back();
    let mut journal = repo.open();
    let kept = journal.keep(old, now()).unwrap();
    assert_eq!(kept.name, format!("{NAME}-{:.8}", old.to_string()));
    assert_eq!(refs(&repo), format!("refs/collectory/kept/{} {old}\n", kept.name));
    let later = now() + TimeDelta::seconds(5);
    assert_eq!(journal.keep(old, later).unwrap(), kept, "it is kept already");
    repo.git(&["gc", "-q", "--prune=now"]);
    repo.git(&["cat-file", "-e", &format!("{old}:collections/a.yaml")]);
    assert_eq!(journal.kept(later).unwrap(), std::slice::from_ref(&kept), "packed, too");
    repo.git(&["update-ref", "-d", &format!("{}{}", KeptHead::REFS, kept.name)]);
    assert_eq!(journal.kept(later).unwrap(), []);
    repo.check();
}

#[test]
fn what_git_has_packed_is_let_go_like_any_other() {
    let (repo, old) = set_back();
    let mut journal = repo.open();
    let kept = journal.keep(old, now()).unwrap();
    repo.git(&["pack-refs", "--all"]);
    assert!(!repo.path().join("refs/collectory/kept").exists(), "git leaves no empty folder");
    journal.remove_kept(&[kept]).unwrap();
    assert_eq!(refs(&repo), "");
    repo.check();
}

#[test]
fn what_is_kept_is_on_disk_before_it_is_said_to_be() {
    let (repo, old) = set_back();
    let mut journal = repo.open();
    let before = journal.flushes();
    journal.keep(old, now()).unwrap();
    // The file system, the parents of two new folders, the content of the ref, its folder.
    assert_eq!(journal.flushes() - before, 5);
}

#[test]
fn what_was_kept_for_long_enough_is_let_go_packed_or_not() {
    let (repo, old) = set_back();
    let mut journal = repo.open();
    repo.git(&["tag", "-a", "-m", "A tag", "v1", "main"]);
    let kept = journal.keep(old, now()).unwrap();
    let first = journal.head().unwrap().unwrap();
    repo.git(&["pack-refs", "--all"]);
    let young = journal.keep(first, now() + TimeDelta::days(1)).unwrap();
    let expires = kept.at + TimeDelta::days(90);
    let before = repo.git(&["show-ref", "-d"]);
    assert_eq!(journal.kept(expires - TimeDelta::minutes(1)).unwrap(), [kept, young.clone()]);
    assert_eq!(journal.kept(expires).unwrap(), [young]);
    let after: String =
        before.lines().filter(|line| !line.contains(NAME)).map(|line| format!("{line}\n")).collect();
    assert_eq!(repo.git(&["show-ref", "-d"]), after, "nothing else has gone");
    assert_eq!(journal.kept(expires + TimeDelta::days(1)).unwrap(), []);
    repo.check();
}

#[test]
fn the_repository_says_for_how_long() {
    let (repo, old) = set_back();
    let mut journal = repo.open();
    let kept = journal.keep(old, now()).unwrap();
    repo.git(&["config", "gc.reflogExpire", "never"]);
    assert_eq!(journal.kept(now() + TimeDelta::days(10_000)).unwrap(), [kept]);
    repo.git(&["config", "gc.reflogExpire", "2.days.ago"]);
    assert_eq!(journal.kept(now() + TimeDelta::days(2)).unwrap(), []);
}

#[test]
fn refs_of_others_in_the_same_place_are_left_alone() {
    let (repo, old) = set_back();
    let mut journal = repo.open();
    repo.git(&["update-ref", "refs/collectory/kept/mine", &old.to_string()]);
    fs::write(repo.path().join("refs/collectory/kept/20200101T000000Z-00000000"), "nonsense").unwrap();
    repo.git(&["config", "gc.reflogExpire", "now"]);
    assert_eq!(journal.kept(now()).unwrap(), []);
    assert!(repo.path().join("refs/collectory/kept/mine").exists());
}

#[test]
fn a_start_knows_which_head_of_this_branch_was_served_last() {
    let (repo, old) = set_back();
    let mut journal = repo.open();
    assert_eq!(journal.last_served().unwrap(), None);
    let first = journal.head().unwrap().unwrap();
    journal.note_served(first);
    journal.note_served(old);
    drop(journal);
    assert_eq!(repo.open().last_served().unwrap(), Some(old));
    repo.open_to_read().note_served(first);
    assert_eq!(repo.open().last_served().unwrap(), Some(old), "who only reads serves nothing");
    repo.git(&["branch", "other"]);
    let options = crate::store::git::Options { branch: Some("other".into()), ..repo.options() };
    assert_eq!(crate::store::git::GitJournal::open(options).unwrap().last_served().unwrap(), None);
}

#[test]
fn commits_are_left_behind_that_only_the_old_head_reaches() {
    let repo = Repo::new();
    let left = |journal: &mut crate::store::git::GitJournal, old, new| {
        let mut left = journal.commits().commits_beyond(old, new).unwrap();
        left.sort_unstable();
        left
    };
    let base = repo.commit(&[("a.yaml", "a1\n")]);
    // All made within one second, so that commit times distinguish nothing.
    let old: Vec<Revision> = (2..6).map(|n| repo.commit(&[("a.yaml", &format!("a{n}\n"))])).collect();
    repo.git(&["reset", "-q", "--hard", &base.to_string()]);
    let new: Vec<Revision> = (2..9).map(|n| repo.commit(&[("b.yaml", &format!("b{n}\n"))])).collect();
    let mut journal = repo.open();
    let (old_head, new_head) = (*old.last().unwrap(), *new.last().unwrap());
    let sorted = |mut commits: Vec<Revision>| {
        commits.sort_unstable();
        commits
    };
    assert_eq!(left(&mut journal, old_head, new_head), sorted(old.clone()));
    assert_eq!(left(&mut journal, old_head, base), sorted(old.clone()));
    assert_eq!(left(&mut journal, base, new_head), []);
    repo.git(&["merge", "-q", "--no-edit", &old_head.to_string()]);
    let merge = repo.head();
    assert_eq!(left(&mut journal, old_head, merge), []);
    assert_eq!(left(&mut journal, merge, new_head), sorted([&old[..], &[merge]].concat()));
    let missing = Revision::new([7; 20]);
    assert_eq!(left(&mut journal, missing, new_head), []);
}
