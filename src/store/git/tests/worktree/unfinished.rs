//! Files that another program is in the middle of writing.

use std::fs::{self, File};
use std::io::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::store::git::GitJournal;
use crate::store::git::repo::layout::Layout;
use crate::store::git::tests::support::*;
use crate::store::git::worktree::scan::folder::{Folder, FoundFolder};
use crate::store::git::worktree::scan::listing::list;
use crate::store::git::worktree::scan::open_writers::OpenWriters;
use crate::store::{GitLocks, Journal as _, Paths, WorkTree};

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(3600);

/// Returns the files that an examination of the whole folder finds unfinished.
#[track_caller]
fn unfinished(journal: &mut GitJournal) -> Vec<String> {
    let head = journal.head().unwrap();
    match journal.work_tree(head, Paths::All, GitLocks::Respect).unwrap() {
        WorkTree::Available { unfinished, .. } => unfinished.into_keys().collect(),
        other => panic!("{other:?}"),
    }
}

/// Waits until no file is unfinished. The kernel reports only the last close of a file, and a child process that
/// another test is starting shares our open files until its exec.
#[track_caller]
fn all_are_finished(journal: &mut GitJournal) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while unfinished(journal) != [""; 0] {
        assert!(Instant::now() < deadline, "still unfinished: {:?}", unfinished(journal));
    }
}

/// A repository with committed files, and a journal that has been watching it for a while.
fn watching() -> (Repo, GitJournal) {
    let repo = Repo::new();
    repo.commit(&[("a.yaml", "a1\n"), ("b.yaml", "b1\n")]);
    let mut journal = repo.open();
    journal.checkout.scan.open_writers = Some(OpenWriters::with(Duration::ZERO));
    assert_eq!(unfinished(&mut journal), [""; 0]);
    (repo, journal)
}

fn folder(repo: &Repo) -> Folder {
    let layout = Layout::find(repo.path(), "collections").unwrap();
    match Folder::collections(&layout, false).unwrap() {
        FoundFolder::Folder(folder) => folder,
        other => panic!("{other:?}"),
    }
}

/// Returns which files are unfinished if `meanwhile` happens while they are being read.
fn read_during(open_writers: &mut OpenWriters, repo: &Repo, meanwhile: impl FnOnce()) -> Vec<String> {
    let folder = folder(repo);
    open_writers.begin(&folder);
    meanwhile();
    open_writers.end();
    let names = list(&folder).unwrap();
    let unfinished =
        names.into_iter().filter(|name| open_writers.unfinished(&folder, name, || true).is_some());
    unfinished.map(|name| name.shown).collect()
}

#[test]
fn a_file_is_unfinished_until_its_writer_closes_it_however_long_that_takes() {
    let (repo, mut journal) = watching();
    let mut file = File::create(repo.file("a.yaml")).unwrap();
    assert_eq!(unfinished(&mut journal), ["a.yaml"], "cut short and not written yet");
    for piece in ["a1", "\n", "and more\n"] {
        file.write_all(piece.as_bytes()).unwrap();
        for _ in 0..3 {
            assert_eq!(unfinished(&mut journal), ["a.yaml"], "also when it is as the head has it");
        }
    }
    drop(file);
    all_are_finished(&mut journal);
    assert_eq!(edits(&mut journal), [("a.yaml".to_owned(), "a1\nand more\n".to_owned())]);
}

#[test]
fn a_new_save_that_begins_before_the_former_one_was_read_is_unfinished() {
    let (repo, mut journal) = watching();
    // Done by a separate process, because a child that another test is starting might hold a file of ours open.
    let saved = Command::new("cp").args([repo.file("b.yaml"), repo.file("a.yaml")]).status().unwrap();
    assert!(saved.success());
    let mut file = File::create(repo.file("a.yaml")).unwrap();
    file.write_all(b"a").unwrap();
    assert_eq!(unfinished(&mut journal), ["a.yaml"]);
    drop(file);
    repo.save("b.yaml", "b2\n");
    all_are_finished(&mut journal);
}

#[test]
fn what_is_renamed_over_or_instead_of_an_open_file_is_whole() {
    let (repo, mut journal) = watching();
    let mut open = File::create(repo.file("a.yaml")).unwrap();
    open.write_all(b"half").unwrap();
    fs::write(repo.file("a.new"), "whole\n").unwrap();
    fs::rename(repo.file("a.new"), repo.file("a.yaml")).unwrap();
    open.write_all(b" and the rest, where nobody sees it").unwrap();
    assert_eq!(unfinished(&mut journal), [""; 0]);
    fs::remove_file(repo.file("a.yaml")).unwrap();
    assert_eq!(unfinished(&mut journal), [""; 0]);
    let mut aside = File::create(repo.file("c.tmp")).unwrap();
    aside.write_all(b"whole\n").unwrap();
    fs::rename(repo.file("c.tmp"), repo.file("c.yaml")).unwrap();
    assert_eq!(unfinished(&mut journal), [""; 0], "whoever renames a file is done with it");
    aside.write_all(b"or not").unwrap();
    assert_eq!(unfinished(&mut journal), ["c.yaml"]);
    drop(aside);
    all_are_finished(&mut journal);
}

#[test]
fn what_is_saved_while_it_is_read_may_be_half_of_it() {
    let (repo, _) = watching();
    let mut open_writers = OpenWriters::with(Duration::ZERO);
    assert_eq!(read_during(&mut open_writers, &repo, || repo.save("a.yaml", "a2\n")), ["a.yaml"]);
    let renamed = || {
        fs::write(repo.file("b.new"), "b2\n").unwrap();
        fs::rename(repo.file("b.new"), repo.file("b.yaml")).unwrap();
    };
    assert_eq!(
        read_during(&mut open_writers, &repo, renamed),
        [""; 0],
        "the old one or the new one, and whole"
    );
}

#[test]
fn a_file_that_was_written_right_before_anybody_looked_may_be_open() {
    let repo = Repo::new();
    repo.commit(&[("a.yaml", "a1\n")]);
    assert_eq!(read_during(&mut OpenWriters::with(LONG), &repo, || ()), ["a.yaml"]);
    assert_eq!(read_during(&mut OpenWriters::with(Duration::ZERO), &repo, || ()), [""; 0]);
    let mut journal = repo.open();
    journal.checkout.scan.open_writers = Some(OpenWriters::with(LONG));
    repo.save("b.yaml", "b1\n");
    assert_eq!(unfinished(&mut journal), ["b.yaml"], "the other is as the head has it");
}

#[test]
fn a_folder_that_takes_the_place_of_another_is_watched_in_its_turn() {
    let (repo, mut journal) = watching();
    let open = File::create(repo.file("a.yaml")).unwrap();
    assert_eq!(unfinished(&mut journal), ["a.yaml"]);
    let [folder, old, new] = ["collections", "old", "new"].map(|name| repo.path().join(name));
    fs::create_dir(&new).unwrap();
    fs::write(new.join("a.yaml"), "a2\n").unwrap();
    fs::rename(&folder, &old).unwrap();
    fs::rename(&new, &folder).unwrap();
    assert_eq!(unfinished(&mut journal), [""; 0], "it is another file");
    let other = File::create(repo.file("b.yaml")).unwrap();
    assert_eq!(unfinished(&mut journal), ["b.yaml"]);
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(unfinished(&mut journal), [""; 0]);
    fs::rename(&old, &folder).unwrap();
    drop((open, other));
    assert_eq!(unfinished(&mut journal), [""; 0]);
    let open = File::create(repo.file("a.yaml")).unwrap();
    assert_eq!(unfinished(&mut journal), ["a.yaml"]);
    drop(open);
}

#[test]
fn when_notices_are_lost_what_was_just_written_may_be_open() {
    let (repo, _) = watching();
    let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let limit: usize = limit.trim().parse().unwrap();
    for (unseen_wait, expected) in [(Duration::ZERO, &[][..]), (LONG, &["a.yaml", "b.yaml"])] {
        let mut open_writers = OpenWriters::with(unseen_wait);
        read_during(&mut open_writers, &repo, || ());
        let mut files = ["a.yaml", "b.yaml"].map(|name| File::create(repo.file(name)).unwrap());
        for _ in 0..limit {
            files.iter_mut().for_each(|file| file.write_all(b"x").unwrap());
        }
        assert_eq!(read_during(&mut open_writers, &repo, || ()), expected);
        files[0].write_all(b"x").unwrap();
        let found = read_during(&mut open_writers, &repo, || ());
        assert!(found.contains(&"a.yaml".to_owned()), "what comes after is seen: {found:?}");
    }
}
