//! Reflogs are kept as long as git would keep them.

use std::fs;

use chrono::DateTime;

use crate::store::Draft;
use crate::store::git::disk::stamp::now_ns;
use crate::store::git::tests::support::*;

/// Dates a draft now; the drafts of other tests have old dates.
fn of_now(draft: Draft) -> Draft {
    let now = i64::try_from(now_ns()).unwrap();
    Draft { at: DateTime::from_timestamp_nanos(now), ..draft }
}

/// A repository with a write, whose reflogs begin with old entries.
fn with_old_entries() -> (Repo, Vec<std::path::PathBuf>) {
    let repo = Repo::new();
    append(&mut repo.open(), &[of_now(set("a.yaml", "1\n"))]);
    let head = repo.git(&["rev-parse", "HEAD"]);
    let old = format!("{0} {0} Old <old@example.org> 1000000000 +0000\told\n", head.trim());
    let logs = ["logs/refs/heads/main", "logs/HEAD"].map(|log| repo.path().join(".git").join(log));
    for log in &logs {
        let text = fs::read_to_string(log).unwrap();
        fs::write(log, old.clone() + &text).unwrap();
    }
    (repo, logs.to_vec())
}

/// Writes once more, then runs maintenance.
fn maintain(repo: &Repo) {
    let mut journal = repo.open();
    append(&mut journal, &[of_now(set("b.yaml", "2\n"))]);
    run_maintenance(&mut journal);
}

#[test]
fn entries_that_git_would_let_go_are_gone_and_the_others_stay() {
    let (repo, logs) = with_old_entries();
    maintain(&repo);
    for log in logs {
        let text = fs::read_to_string(log).unwrap();
        assert!(!text.contains("old@example.org"), "{text}");
        assert_eq!(text.lines().count(), 2, "{text}");
    }
    repo.check();
}

#[test]
fn they_are_left_to_git_where_it_keeps_them_for_ever_or_some_refs_have_ages_of_their_own() {
    for age in ["gc.reflogExpire", "gc.refs/heads/main.reflogExpire"] {
        let (repo, logs) = with_old_entries();
        repo.git(&["config", age, "never"]);
        maintain(&repo);
        assert!(logs.iter().all(|log| fs::read_to_string(log).unwrap().contains("old@example.org")), "{age}");
    }
}
