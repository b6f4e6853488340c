//! What is flushed, in which order, and what happens to a write whose flush fails.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::store::git::GitJournal;
use crate::store::git::disk::failpoint::Hook;
use crate::store::git::tests::support::*;
use crate::store::{Archive as _, Journal as _};

fn reflog(repo: &Repo) -> PathBuf {
    repo.path().join(".git/logs/refs/heads/main")
}

/// The paths about to be flushed, each with whether the files that name commits already named the new one.
type Seen = Arc<Mutex<Vec<(PathBuf, bool)>>>;

/// Records every flush, and whether one of `files` had changed by then.
fn watch(repo: &Repo, files: Vec<PathBuf>) -> (Seen, Hook) {
    let seen = Seen::default();
    let read = move || files.iter().map(|file| fs::read(file).unwrap()).collect::<Vec<_>>();
    let before = read();
    let hook = repo.on_flush({
        let seen = Arc::clone(&seen);
        move |path| {
            seen.lock().unwrap().push((path.to_owned(), read() != before));
            Ok(())
        }
    });
    (seen, hook)
}

#[test]
fn nothing_names_a_commit_before_its_pack_would_survive_a_power_cut() {
    let repo = Repo::new();
    let mut journal = repo.open();
    append(&mut journal, &[set("a.yaml", "a1\n")]);
    let git_dir = repo.path().join(".git");
    let names = [reflog(&repo), git_dir.join("logs/HEAD"), git_dir.join("refs/heads/main")];
    let (seen, _hook) = watch(&repo, names.to_vec());
    append(&mut journal, &[set("a.yaml", "a2\n")]);
    let seen = seen.lock().unwrap();
    let at = |path: &Path| seen.iter().position(|(flushed, _)| flushed == path).unwrap();
    let packs = at(&repo.pack_folder());
    assert!(seen[..=packs].iter().all(|(_, is_named)| !is_named), "{seen:#?}");
    assert!(at(&names[0]) > packs && at(&git_dir.join("refs/heads")) > packs, "{seen:#?}");
}

#[test]
fn whenever_somebody_looks_git_can_read_what_the_index_names() {
    let repo = Repo::new();
    repo.commit(&[("a.yaml", "a1\n")]);
    let mut journal = repo.open();
    let path = repo.path().to_owned();
    let _hook = repo.on_flush(move |_| {
        git_in(&path, &["diff", "--cached"]);
        Ok(())
    });
    append(&mut journal, &[set("a.yaml", "a2\n"), set("b.yaml", "b1\n")]);
    assert_eq!(repo.status(), "");
}

#[test]
fn the_flushes_of_the_archive_s_notes_count_too() {
    let repo = Repo::new();
    let mut journal = repo.open();
    append(&mut journal, &[set("a.yaml", "a1\n")]);
    let before = journal.flushes();
    journal.archive().write_cached("history-index", b"read").unwrap();
    assert_eq!(journal.flushes() - before, 1);
}

/// Makes the last flush of every write fail.
fn fail_at_the_end(repo: &Repo) -> Hook {
    repo.on_flush(|path| match path.ends_with("refs/heads") {
        true => Err(io::ErrorKind::Other.into()),
        false => Ok(()),
    })
}

#[test]
fn a_write_whose_last_flush_fails_leaves_no_file_and_no_index_behind() {
    let repo = Repo::new();
    repo.commit(&[("a.yaml", "a1\n"), ("b.yaml", "b1\n")]);
    let mut journal = repo.open();
    journal.catch_up().unwrap();
    let before = repo.head();
    let fault = fail_at_the_end(&repo);
    assert!(try_append(&mut journal, &[set("a.yaml", "a2\n"), remove("b.yaml")]).is_err());
    assert_ne!(repo.head(), before);
    assert_eq!((repo.saved("a.yaml").as_str(), repo.status().as_str()), ("a2\n", ""));
    drop(fault);
    append(&mut journal, &[set("a.yaml", "a3\n")]);
    assert_eq!(repo.status(), "");
    repo.check();
}

#[test]
fn a_head_that_is_not_known_to_be_on_disk_is_flushed_once() {
    let repo = Repo::new();
    append(&mut repo.open(), &[set("a.yaml", "a1\n")]);
    let mut journal = repo.open();
    let cost = |journal: &mut GitJournal| {
        let before = journal.flushes();
        let head = journal.head().unwrap();
        journal.make_durable(head).unwrap();
        journal.flushes() - before
    };
    assert_eq!([cost(&mut journal), cost(&mut journal)], [1, 0], "found at the start");
    append(&mut journal, &[set("a.yaml", "a2\n")]);
    assert_eq!(cost(&mut journal), 0, "our own");
    repo.commit(&[("a.yaml", "a3\n")]);
    assert_eq!([cost(&mut journal), cost(&mut journal)], [1, 0], "a person's");
    let _fault = fail_at_the_end(&repo);
    assert!(try_append(&mut journal, &[set("a.yaml", "a4\n")]).is_err());
    assert_eq!([cost(&mut journal), cost(&mut journal)], [1, 0], "one whose last flush failed");
}
