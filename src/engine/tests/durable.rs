//! An answer that rests on what is there already: it waits for the disk as any other does.

use crate::engine::tests::*;
use crate::store::memory::Fault;

/// An engine on a repository in which a write has moved the branch and failed at the last flush.
fn half_written() -> (MemoryJournal, Running) {
    let journal = MemoryJournal::new();
    commit(&journal, "posts.yaml", &named("Posts"));
    let running = Running::on(&journal);
    running.submit(rename("posts", "First")).unwrap();
    journal.fail_next(Fault::AfterTheBranch);
    assert!(running.submit(rename("posts", "Second")).is_err());
    assert_eq!(running.shown("posts"), Some(("Second".to_owned(), false)), "the commit stands");
    (journal, running)
}

/// The request that a caller has named.
fn once(running: &Running, command: Command) -> Result<Written, SubmitError> {
    let submission = Submission {
        changes: vec![ConditionalCommand { command, condition: Condition::default() }],
        author: Actor::anonymous(),
        reason: None,
        request_id: None,
        by_command: false,
        dry_run: false,
        once: Some(Once { key: "name".to_owned(), fingerprint: Fingerprint::of(&[b"request"]) }),
    };
    block_on(running.engine.handle.submit(submission))
}

#[test]
fn a_write_that_finds_itself_done_by_a_failed_one_is_answered_after_a_flush() {
    let (journal, running) = half_written();
    let flushes = journal.flushes();
    journal.fail_next_flush();
    assert!(running.submit(rename("posts", "Second")).is_err());
    assert!(running.submit(rename("posts", "Second")).is_ok());
    assert_eq!(journal.flushes(), flushes + 2, "one failed, one did not");
    assert!(running.submit(rename("posts", "Second")).is_ok());
    assert_eq!(journal.flushes(), flushes + 2, "what is on disk costs nothing");
    assert_eq!(journal.log().len(), 3);
    running.stop();
}

#[test]
fn a_refusal_that_rests_on_a_failed_write_waits_for_the_disk_too() {
    let (journal, running) = half_written();
    let gone = || Command::Delete { key: Key::parse("nobody").unwrap(), kind: None };
    journal.fail_next_flush();
    assert!(matches!(running.submit(gone()), Err(SubmitError::Unavailable { .. })));
    assert!(matches!(running.submit(gone()), Err(SubmitError::Refused { .. })));
    running.stop();
}

#[test]
fn what_is_only_asked_for_waits_for_no_disk() {
    let (journal, running) = half_written();
    let flushes = journal.flushes();
    let submission = Submission {
        changes: vec![ConditionalCommand {
            command: rename("posts", "Second"),
            condition: Condition::default(),
        }],
        author: Actor::anonymous(),
        reason: None,
        request_id: None,
        by_command: false,
        dry_run: true,
        once: None,
    };
    assert!(block_on(running.engine.handle.submit(submission)).is_ok());
    assert_eq!(journal.flushes(), flushes);
    running.stop();
}

#[test]
fn a_request_that_was_carried_out_before_is_answered_again_only_from_the_disk() {
    let journal = MemoryJournal::new();
    commit(&journal, "posts.yaml", &named("Posts"));
    let running = Running::on(&journal);
    once(&running, rename("posts", "First")).unwrap();
    commit(&journal, "pages.yaml", &named("Pages"));
    running.notice(Hint::Branch);
    running.eventually("the hand commit is served", |running| running.shown("pages"));
    journal.fail_next_flush();
    assert!(once(&running, rename("posts", "First")).is_err());
    let again = once(&running, rename("posts", "First")).unwrap();
    assert_eq!(again.revision, Some(journal.log()[1].revision));
    running.stop();
}
