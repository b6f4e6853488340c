//! Rewritten branches: what the service acknowledged is kept and reported.

use crate::engine::tests::*;
use crate::store::KeptHead;

/// Creates a repository with one commit by hand and three by the service; also returns their revisions.
fn written() -> (MemoryJournal, Running, Revision, Vec<Revision>) {
    let journal = MemoryJournal::new();
    let first = commit(&journal, POSTS, &named("First"));
    let running = Running::on(&journal);
    let made = ["A", "B", "C"].map(|name| running.submit(rename("posts", name)).unwrap().revision.unwrap());
    (journal, running, first, made.into())
}

/// Returns the heads that are reported as kept.
fn rewritten_heads(running: &Running) -> Vec<Revision> {
    running.snapshot().rewritten.iter().map(|it| it.revision).collect()
}

#[test]
fn what_was_acknowledged_is_kept_and_told_as_long_as_it_is() {
    let (journal, running, first, made) = written();
    assert_eq!(rewritten_heads(&running), []);
    journal.reset_hard(Some(first));
    running.look(Hint::Branch);
    let rewritten = running.snapshot().rewritten[0].clone();
    assert_eq!(rewritten.revision, made[2]);
    assert_eq!(rewritten.name, KeptHead::new(made[2], DateTime::UNIX_EPOCH).name);
    for part in [made[2].to_string(), first.to_string(), "git merge refs/collectory/kept/".into()] {
        assert!(rewritten.message.contains(&part), "{}", rewritten.message);
    }
    let gone = rewritten.events.iter().map(|gone| (gone.key.as_str(), gone.revision));
    assert_eq!(gone.collect::<Vec<_>>(), [2, 1, 0].map(|at| ("posts", made[at])));
    running.submit(rename("posts", "D")).unwrap();
    running.look(Hint::Everything);
    assert_eq!(running.snapshot().rewritten[..], [rewritten], "what happened stays what is told");
    journal.let_all_go();
    running.look(Hint::Everything);
    assert_eq!(rewritten_heads(&running), []);
    running.stop();
}

#[test]
fn of_many_events_that_went_the_newest_are_named() {
    let (journal, running, first, _) = written();
    let made = (0..25).map(|at| running.submit(rename("posts", &at.to_string())).unwrap().revision.unwrap());
    let newest: Vec<Revision> = made.collect::<Vec<_>>().into_iter().rev().take(20).collect();
    journal.reset_hard(Some(first));
    running.look(Hint::Branch);
    let rewritten = running.snapshot().rewritten[0].clone();
    assert!(rewritten.message.contains("28 of its events went"), "{}", rewritten.message);
    assert_eq!(rewritten.events.iter().map(|gone| gone.revision).collect::<Vec<_>>(), newest);
    running.stop();
}

#[test]
fn it_is_told_no_more_when_all_of_it_is_in_the_branch_again() {
    let (journal, running, first, made) = written();
    journal.reset_hard(Some(first));
    running.look(Hint::Branch);
    assert_eq!(rewritten_heads(&running), [made[2]]);
    journal.reset_hard(Some(made[1]));
    running.look(Hint::Branch);
    assert_eq!(rewritten_heads(&running), [made[2]], "a part of it has come back");
    journal.reset_hard(Some(made[2]));
    commit(&journal, "pages.yaml", &named("On top of it"));
    running.look(Hint::Branch);
    assert_eq!(rewritten_heads(&running), []);
    assert_eq!(journal.clone().kept(DateTime::UNIX_EPOCH).unwrap(), []);
    running.stop();
}

#[test]
fn what_could_not_be_let_go_hides_no_later_rewriting() {
    let (journal, running, first, made) = written();
    journal.reset_hard(Some(first));
    running.look(Hint::Branch);
    journal.fail_after_next_let_go();
    journal.reset_hard(Some(made[2]));
    running.notice(Hint::Branch);
    running.eventually("it is let go", |_| {
        journal.clone().kept(DateTime::UNIX_EPOCH).unwrap().is_empty().then_some(())
    });
    journal.reset_hard(Some(first));
    running.look(Hint::Everything);
    assert_eq!(rewritten_heads(&running), [made[2]]);
    assert_eq!(journal.clone().kept(DateTime::UNIX_EPOCH).unwrap()[0].revision, made[2]);
    running.stop();
}

#[test]
fn what_came_back_while_nothing_ran_is_told_no_more() {
    let (journal, running, first, made) = written();
    journal.reset_hard(Some(first));
    running.look(Hint::Branch);
    assert_eq!(rewritten_heads(&running), [made[2]]);
    running.stop();
    journal.reset_hard(Some(made[2]));
    let running = Running::on(&journal);
    assert_eq!(rewritten_heads(&running), []);
    running.stop();
}

#[test]
fn it_is_noticed_in_the_middle_of_a_write_too() {
    let (journal, running, first, made) = written();
    journal.reset_hard(Some(first));
    running.submit(rename("posts", "D")).unwrap();
    assert_eq!(rewritten_heads(&running), [made[2]]);
    running.stop();
}

#[test]
fn what_people_rewrite_of_their_own_is_theirs() {
    let (journal, running, _, made) = written();
    let mara = Actor::new("Mara", "mara@example.org");
    commit(&journal, "pages.yaml", &named("Pages"));
    running.look(Hint::Branch);
    journal.amend_by_hand(&[("pages.yaml", Some(&named("Amended")))], &mara, "Amended", DateTime::UNIX_EPOCH);
    running.look(Hint::Branch);
    assert_eq!(running.shown("pages"), Some(("Amended".into(), false)));
    journal.reset_hard(Some(made[2]));
    running.look(Hint::Branch);
    assert_eq!(rewritten_heads(&running), []);
    running.stop();
}

#[test]
fn a_branch_that_goes_on_keeps_nothing() {
    let (journal, running, _, made) = written();
    journal.merge_by_hand(
        &[("pages.yaml", Some(&named("Pages")))],
        &Actor::anonymous(),
        DateTime::UNIX_EPOCH,
    );
    running.look(Hint::Branch);
    running.stop();
    let running = Running::on(&journal);
    assert_eq!(rewritten_heads(&running), []);
    assert!(journal.clone().last_served().unwrap() != Some(made[2]), "the merge was served");
    running.stop();
}

#[test]
fn it_is_noticed_when_it_happened_while_nothing_ran() {
    let (journal, running, first, made) = written();
    running.stop();
    journal.reset_hard(Some(first));
    let running = Running::on(&journal);
    assert_eq!(rewritten_heads(&running), [made[2]]);
    running.stop();
    journal.let_all_go();
    let running = Running::on(&journal);
    assert_eq!(rewritten_heads(&running), [], "it was told once");
    running.stop();
}

#[test]
fn what_could_not_be_kept_is_kept_later_and_the_branch_is_served_meanwhile() {
    let (journal, running, first, made) = written();
    journal.reset_hard(Some(first));
    journal.fail_next_keep();
    running.look(Hint::Branch);
    // The write in `settled` is refused, but has made the engine look again, so the head is kept by then.
    running.eventually("it is kept", |running| (rewritten_heads(running) == [made[2]]).then_some(()));
    assert_eq!(running.shown("posts"), Some(("First".into(), false)));
    running.stop();
}

#[test]
fn a_head_that_could_not_be_kept_is_remembered_by_the_next_start() {
    let (journal, running, first, made) = written();
    running.stop();
    journal.reset_hard(Some(first));
    journal.fail_next_keep();
    let running = Running::on(&journal);
    assert_eq!(rewritten_heads(&running), []);
    running.stop();
    let running = Running::on(&journal);
    assert_eq!(rewritten_heads(&running), [made[2]]);
    running.stop();
}
