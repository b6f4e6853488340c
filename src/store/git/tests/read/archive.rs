//! The archive while the journal writes.

use std::sync::Mutex;

use crate::domain::Revision;
use crate::store::git::GitArchive;
use crate::store::git::tests::support::*;
use crate::store::{Archive as _, CommitChanges, Draft, Journal as _};

fn steps(archive: &GitArchive, head: Revision) -> Vec<Option<CommitChanges>> {
    let line = archive.first_parents(head, &|_| false).unwrap().revisions;
    let seen = Mutex::new(vec![None; line.len()]);
    archive.commit_changes(&line, &|index, step| seen.lock().unwrap()[index] = Some(step)).unwrap();
    seen.into_inner().unwrap()
}

#[test]
fn what_was_just_committed_is_told_as_whoever_reads_it_tells_it() {
    let repo = Repo::new();
    let by_hand = repo.commit(&[("old.yml", "1\n"), ("notes.txt", "1\n")]);
    let mut journal = repo.open();
    let archive = journal.archive();
    let several = Draft {
        files: [set("b.yaml", "2\n"), set("a.yaml", "2\n"), remove("old.yml")].map(|it| it.files).concat(),
        ..set("", "")
    };
    let same_again = set("a.yaml", "2\n");
    let made = append(
        &mut journal,
        &[set("b.yaml", "1\n"), several, same_again, remove("b.yaml"), set("b.yaml", "3\n")],
    );
    let head = made.last().unwrap().revision;
    assert_eq!(steps(&archive, head), steps(&repo.archive(), head));
    // A person's commit in between is read.
    repo.commit(&[("c.yaml", "by hand\n")]);
    let made = append(&mut journal, &[set("c.yaml", "ours\n")]);
    let head = made[0].revision;
    let found = steps(&archive, head);
    assert_eq!(found, steps(&repo.archive(), head));
    assert_eq!(found.last().unwrap().as_ref().unwrap().commit.revision, by_hand);
}

/// Counts the files that this process has open although they were removed from the repository.
#[cfg(target_os = "linux")]
fn removed_and_open(repo: &Repo) -> usize {
    let files = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let named = files.filter_map(|file| std::fs::read_link(file.path()).ok());
    let ours = repo.path().display().to_string();
    named
        .map(|path| path.display().to_string())
        .filter(|path| path.starts_with(&ours) && path.ends_with("(deleted)"))
        .count()
}

#[cfg(target_os = "linux")]
#[test]
fn a_reader_lets_go_of_packs_that_were_merged_away() {
    let repo = Repo::bare();
    let mut journal = repo.open();
    let archive = repo.archive();
    let mut most = 0;
    for number in 0..400 {
        let made = append(&mut journal, &[set("a.yaml", &format!("{number}\n"))]);
        assert!(archive.commit(made[0].revision).unwrap().is_some());
        if number % 20 == 19 {
            journal.start_maintenance().unwrap();
            journal.finish_maintenance();
        }
        most = most.max(removed_and_open(&repo));
    }
    assert!(most > 0, "the reader held packs that are gone");
    assert!(most < 100, "{most} files that are gone are open");
}
