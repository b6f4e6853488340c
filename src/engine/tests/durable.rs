//! Answers that depend on what already exists: they wait for the disk as all others do.

use crate::domain::{Kind, Value};
use crate::engine::tests::*;
use crate::store::memory::InjectedFault;

/// Starts an engine on a repository in which a write has moved the branch and failed at the last flush.
fn half_written() -> (MemoryJournal, Running) {
    let journal = MemoryJournal::new();
    commit(&journal, "posts.yaml", &named("Posts"));
    let running = Running::on(&journal);
    running.submit(rename("posts", "First")).unwrap();
    journal.fail_next(InjectedFault::AfterTheBranch);
    assert!(running.submit(rename("posts", "Second")).is_err());
    assert_eq!(running.shown("posts"), Some(("Second".to_owned(), false)), "the commit stands");
    (journal, running)
}

/// Submits a command under an idempotency key.
fn once(running: &Running, command: Command) -> Result<SubmitAnswer, SubmitError> {
    let once = Some(IdempotencyKey { key: "name".to_owned(), fingerprint: Fingerprint::of(&[b"request"]) });
    let submission = Submission { idempotency_key: once, ..Submission::of(Actor::anonymous(), [command]) };
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
    journal.fail_next_flush();
    assert!(matches!(running.submit(delete("nobody")), Err(SubmitError::Unavailable { .. })));
    assert!(matches!(running.submit(delete("nobody")), Err(SubmitError::Refused { .. })));
    running.stop();
}

#[test]
fn what_is_only_asked_for_waits_for_no_disk() {
    let (journal, running) = half_written();
    let flushes = journal.flushes();
    let asked = Submission::of(Actor::anonymous(), [rename("posts", "Second")]);
    let submission = Submission { dry_run: true, ..asked };
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

#[test]
fn who_asks_for_much_has_it_in_several_turns_and_all_of_it() {
    const CALLERS: usize = 12;
    let journal = MemoryJournal::new();
    let large = |word: &str| (0..4_000).map(|number| format!("{word} {number}").as_str().into()).collect();
    let list = |word: &str| Value::List(large(word));
    let key = |number: usize| Key::parse(&format!("c{number}")).unwrap();
    let running = Running::on(&journal);
    for number in 0..CALLERS {
        let attributes = [("x-list".to_owned(), list("a"))];
        let collection = Collection::new(key(number), Kind::Document, attributes).unwrap();
        running.submit(Command::Create(collection)).unwrap();
    }
    let appends = journal.appends();
    thread::scope(|scope| {
        for number in 0..CALLERS {
            let (running, list) = (&running, &list);
            scope.spawn(move || {
                let patch = Patch::new([("x-list".to_owned(), list("b"))]);
                running.submit(Command::Update { key: key(number), kind: None, patch }).unwrap();
            });
        }
    });
    let turns = journal.appends() - appends;
    assert!(turns > 2, "one for the first, and more than one for all others, not {turns}");
    assert_eq!(journal.log().len(), 2 * CALLERS);
    running.stop();
}

#[test]
fn a_file_that_a_batch_updates_again_and_again_is_edited_once() {
    let journal = MemoryJournal::new();
    commit(&journal, "posts.yaml", "# mine\ntype: document\nname: Posts # and this\nx-a: 1\n");
    let running = Running::on(&journal);
    let posts = || Key::parse("posts").unwrap();
    let set = |name: &str, value: Value| {
        let patch = Patch::new([(name.to_owned(), value)]);
        Command::Update { key: posts(), kind: None, patch }
    };
    let changes = (0..100).map(|number| rename("posts", &format!("Name {number}")));
    let written = running.submit_all(changes.chain([set("x-a", Value::from("b"))])).unwrap();
    let text = saved_text(&journal, "posts.yaml");
    assert_eq!(text, "# mine\ntype: document\nname: Name 99 # and this\nx-a: b\n");
    let Outcome::Updated(last) = written.outcomes.last().unwrap() else { panic!("{written:?}") };
    assert_eq!(last.blob, running.snapshot().get("posts").unwrap().blob, "it has the tag of what is served");
    let Outcome::Updated(first) = &written.outcomes[0] else { panic!("{written:?}") };
    assert_eq!(name_of(&first.collection), "Name 0");
    // A collection that was just created is updated, deleted and created once more.
    let again = Collection::new(posts(), Kind::Document, []).unwrap();
    running
        .submit_all([rename("posts", "X"), delete("posts"), Command::Create(again), rename("posts", "After")])
        .unwrap();
    assert_eq!(saved_text(&journal, "posts.yaml"), "type: document\nname: After\n");
    assert_eq!(journal.log().len(), 3, "one commit each, and one by hand");
    // Changes that cancel each other out make no commit.
    running.submit_all([rename("posts", "Z"), rename("posts", "After")]).unwrap();
    assert_eq!(journal.log().len(), 3);
    running.stop();
}
