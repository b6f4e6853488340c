//! A repository that is renamed for a moment in the middle of a write.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::store::Journal as _;
use crate::store::git::disk::failpoint::Hook;
use crate::store::git::tests::support::*;

fn away(repo: &Repo) -> PathBuf {
    repo.path().with_extension("away")
}

/// Moves the repository away right before the flush of this number; returns the counter of flushes.
fn move_away_at(repo: &Repo, number: usize) -> (Arc<AtomicUsize>, Hook) {
    let (from, to) = (repo.path().to_owned(), away(repo));
    let count = Arc::new(AtomicUsize::new(0));
    let hook = repo.on_flush({
        let count = Arc::clone(&count);
        move |_: &Path| -> io::Result<()> {
            if count.fetch_add(1, Ordering::Relaxed) == number { fs::rename(&from, &to) } else { Ok(()) }
        }
    });
    (count, hook)
}

/// Writes while the repository is moved away, at each flush in turn, and moves it back each time.
fn survives(repo: &Repo) {
    let mut journal = repo.open();
    append(&mut journal, &[set("a.yaml", "a\n"), set("gone.yaml", "gone\n")]);
    let drafts = |turn: &str| [set("a.yaml", turn), remove("gone.yaml"), set("new.yaml", turn)];
    for number in 0.. {
        let (flushes, hook) = move_away_at(repo, number);
        let written = try_append(&mut journal, &drafts(&format!("{number}\n")));
        drop(hook);
        if flushes.load(Ordering::Relaxed) <= number {
            written.unwrap();
            assert!(number > 3, "there are some flushes");
            break;
        }
        drop(journal.catch_up());
        assert!(try_append(&mut journal, &[set("a.yaml", "never\n")]).is_err());
        assert!(!repo.path().exists(), "nothing is made in its place, at flush {number}");
        fs::rename(away(repo), repo.path()).unwrap();
        journal.catch_up().unwrap();
        if repo.path().join(".git").exists() {
            assert_eq!(edits(&mut journal), [], "at flush {number}");
            assert_eq!(repo.status(), "", "at flush {number}");
        }
        append(
            &mut journal,
            &[set("a.yaml", "back\n"), set("gone.yaml", "gone\n"), set("new.yaml", "back\n")],
        );
        repo.check();
    }
}

#[test]
fn a_repository_that_is_moved_away_during_a_write_is_not_made_anew_and_is_served_again_when_it_is_back() {
    survives(&Repo::new());
}

#[test]
fn a_bare_one_too() {
    survives(&Repo::bare());
}
