//! Conflicts that merges have left are reported, even if something could not be read for a while.

use std::io;

use crate::engine::tests::*;
use crate::store::{Damage, StoreError};

const MERGE: &str = "Merge\n\nCollectory-Origin: merge\nCollectory-Conflict: posts name";

/// Pushes a merge that has left a conflict; returns the commit that the merge brings.
fn push_conflict(journal: &MemoryJournal) -> Revision {
    journal.push_merge(&[(POSTS, Some(&named("Theirs")))], MERGE)
}

fn conflicts(running: &Running) -> Vec<String> {
    running.snapshot().conflicts.iter().map(|it| it.conflict.to_string()).collect()
}

fn unreadable() -> StoreError {
    StoreError::Path { action: "read", path: "memory".into(), source: io::ErrorKind::PermissionDenied.into() }
}

fn damaged() -> StoreError {
    StoreError::Damaged { kind: "commit", id: String::new(), damage: Damage::Missing }
}

#[test]
fn a_conflict_is_told_as_soon_as_what_could_not_be_read_can_be() {
    let (journal, running) = with_first();
    let side = push_conflict(&journal);
    journal.fail_commit(side, Some(unreadable));
    running.look(Hint::Everything);
    assert_eq!(conflicts(&running), [""; 0]);
    journal.fail_commit(side, None);
    running.look(Hint::Everything);
    assert_eq!(conflicts(&running), ["posts name"]);
    running.stop();
}

#[test]
fn a_damaged_commit_hides_no_conflict_of_another() {
    let (journal, running) = with_first();
    let side = push_conflict(&journal);
    journal.fail_commit(side, Some(damaged));
    running.look(Hint::Everything);
    assert_eq!(conflicts(&running), ["posts name"]);
    running.stop();
    let running = Running::on(&journal);
    assert_eq!(conflicts(&running), ["posts name"]);
    running.stop();
}

#[test]
fn conflicts_stay_told_while_a_rewritten_branch_cannot_be_looked_through() {
    let (journal, running) = with_first();
    let side = push_conflict(&journal);
    running.look(Hint::Everything);
    let merge = running.snapshot().revision;
    commit(&journal, "pages.yaml", &named("Pages"));
    running.look(Hint::Everything);
    assert_eq!(conflicts(&running), ["posts name"]);
    journal.reset_hard(merge);
    journal.fail_commit(side, Some(unreadable));
    running.look(Hint::Everything);
    assert_eq!((running.snapshot().revision, conflicts(&running)), (merge, vec!["posts name".to_owned()]));
    running.stop();
}
