//! Hand edits and commits are followed while git holds its locks.

use std::thread;

use crate::engine::tests::*;
use crate::store::memory::InjectedFault;

fn files(names: &[&str]) -> Hint {
    Hint::Files(names.iter().map(|&name| name.to_owned()).collect())
}

/// Waits until what a person saved is served.
fn edit_is_served(running: &Running) {
    running.eventually("the edit is served", |running| {
        running.shown("posts").filter(|shown| *shown == ("By hand".into(), true))
    });
}

#[test]
fn a_commit_is_served_while_git_still_holds_the_work_tree() {
    let (journal, running) = with_first();
    journal.save(POSTS, named("Second"));
    running.look(files(&[POSTS]));
    assert_eq!(running.shown("posts"), Some(("Second".into(), true)));
    journal.set_busy(true);
    let second = commit(&journal, POSTS, &named("Second"));
    running.look(Hint::Branch);
    assert_eq!(running.shown("posts"), Some(("Second".into(), false)), "what is committed is no edit");
    let third = commit(&journal, POSTS, &named("Third"));
    running.look(Hint::Branch);
    assert_eq!(running.shown("posts"), Some(("Third".into(), false)));
    assert_eq!(running.snapshot().revision, Some(third));
    assert_ne!(second, third);
    running.stop();
}

#[test]
fn what_a_person_commits_is_tended_as_well_as_what_was_there() {
    let (journal, running) = with_first();
    running.eventually("the start is tended", |_| (journal.maintenance_starts() == 1).then_some(()));
    commit(&journal, POSTS, &named("Second"));
    running.notice(Hint::Branch);
    running.eventually("the commit is tended", |_| (journal.maintenance_starts() == 2).then_some(()));
    running.stop();
}

#[test]
fn a_file_saved_while_git_held_the_work_tree_is_served_when_it_is_done() {
    let (journal, running) = with_first();
    journal.set_busy(true);
    journal.save(POSTS, named("By hand"));
    journal.save("pages.yaml", named("Unnoticed"));
    running.look(files(&[POSTS]));
    assert_eq!(running.shown("posts"), Some(("First".into(), false)));
    journal.set_busy(false);
    running.look(Hint::Branch);
    assert_eq!(running.shown("posts"), Some(("By hand".into(), true)));
    assert_eq!(running.shown("pages"), None, "only what was to be looked at is looked at");
    running.look(Hint::Everything);
    assert_eq!(running.shown("pages"), Some(("Unnoticed".into(), true)));
    running.stop();
}

#[test]
fn a_start_while_git_commits_shows_what_is_saved_from_the_first_answer_on() {
    let journal = MemoryJournal::new();
    commit(&journal, POSTS, &named("First"));
    journal.save(POSTS, named("By hand"));
    journal.set_busy(true);
    let running = Running::looking_at(&journal, options());
    assert!(running.engine.projection.snapshot().is_none(), "what is saved is not known yet");
    journal.set_busy(false);
    running.read();
    assert_eq!(running.shown("posts"), Some(("By hand".into(), true)));
    running.stop();
}

#[test]
fn a_start_in_the_middle_of_a_save_shows_what_is_saved_from_the_first_answer_on() {
    let journal = MemoryJournal::new();
    commit(&journal, POSTS, &named("First"));
    journal.save(POSTS, String::new());
    let running = Running::looking_at(&journal, believing_after(DEADLINE));
    assert!(running.engine.projection.snapshot().is_none(), "it may be cut short to be written anew");
    journal.save(POSTS, named("By hand"));
    running.read();
    assert_eq!(running.shown("posts"), Some(("By hand".into(), true)));
    running.stop();
}

#[test]
fn a_lock_that_goes_without_a_notice_is_noticed_too() {
    let (journal, running) = with_first();
    journal.set_busy(true);
    journal.save(POSTS, named("By hand"));
    running.look(files(&[POSTS]));
    journal.set_busy(false);
    edit_is_served(&running);
    running.stop();
}

#[test]
fn a_write_while_git_holds_the_work_tree_waits_to_see_what_was_saved_before_it() {
    let (journal, running) = with_first();
    journal.be_busy_until_waited_for();
    journal.save(POSTS, format!("{}directory: by-hand\n", named("By hand")));
    running.submit(rename("posts", "By API")).unwrap();
    assert_eq!(running.shown("posts"), Some(("By API".into(), false)));
    let content = saved_text(&journal, POSTS);
    assert_eq!(content, "type: document\nname: By API\ndirectory: by-hand\n", "the edit is below the write");
    running.stop();
}

#[test]
fn what_is_saved_while_a_write_waits_for_the_index_is_looked_at_first() {
    let (journal, running) = with_first();
    let saved = format!("{}directory: by-hand\n", named("By hand"));
    journal.fail_next(InjectedFault::Saved(POSTS.to_owned(), saved));
    running.submit(rename("posts", "By API")).unwrap();
    let content = saved_text(&journal, POSTS);
    assert_eq!(content, "type: document\nname: By API\ndirectory: by-hand\n", "the edit is below the write");
    assert_eq!(running.shown("posts"), Some(("By API".into(), false)));
    running.stop();
}

#[test]
fn a_lock_that_somebody_left_behind_hides_nothing_for_long() {
    let journal = MemoryJournal::new();
    commit(&journal, POSTS, &named("First"));
    let running = Running::with(&journal, busy_for(Duration::from_millis(1)));
    journal.set_busy(true);
    journal.save(POSTS, named("By hand"));
    running.notice(files(&[POSTS]));
    edit_is_served(&running);
    let refused = running.submit(rename("posts", "By API")).unwrap_err();
    assert!(refused.to_string().contains("index.lock"), "{refused}");
    journal.set_busy(false);
    running.submit(rename("posts", "By API")).unwrap();
    assert_eq!(running.shown("posts"), Some(("By API".into(), false)));
    running.stop();
}

#[test]
fn what_could_not_be_read_is_read_as_soon_as_it_can_be() {
    let (journal, running) = with_first();
    journal.set_unreadable(true);
    journal.save(POSTS, named("By hand"));
    running.notice(files(&[POSTS]));
    running.eventually("the trouble is told", |running| running.engine.projection.read_error());
    assert_eq!(running.shown("posts"), Some(("First".into(), false)), "what was read last is served");
    journal.set_unreadable(false);
    edit_is_served(&running);
    running.stop();
}

#[test]
fn a_branch_that_could_not_be_read_is_read_as_soon_as_it_can_be() {
    let (journal, running) = with_first();
    journal.set_unreadable(true);
    commit(&journal, "pages.yaml", &named("Pages"));
    running.notice(Hint::Branch);
    running.eventually("the trouble is told", |running| running.engine.projection.read_error());
    journal.set_unreadable(false);
    running.eventually("the commit is served", |running| running.shown("pages"));
    running.stop();
}

#[test]
fn what_was_deleted_does_not_come_back_when_a_broken_file_takes_its_key() {
    let journal = MemoryJournal::new();
    commit(&journal, POSTS, &named("First"));
    journal.commit_by_hand(&[(POSTS, None)], &Actor::anonymous(), "Delete", DateTime::UNIX_EPOCH);
    commit(&journal, "posts.yml", "type: document\nname: [\n");
    let running = Running::on(&journal);
    assert_eq!(running.shown("posts"), None);
    assert_eq!(running.snapshot().problems["collections/posts.yml"].serving, Serving::Nothing);
    running.stop();
}

#[test]
fn a_file_that_broke_when_it_was_renamed_keeps_what_it_was_under_its_old_name() {
    let journal = MemoryJournal::new();
    commit(&journal, "posts.yml", &named("First"));
    let files = [("posts.yml", None), (POSTS, Some("type: document\nname: [\n"))];
    journal.commit_by_hand(&files, &Actor::anonymous(), "Rename", DateTime::UNIX_EPOCH);
    commit(&journal, POSTS, "still broken");
    let running = Running::on(&journal);
    assert_eq!(running.shown("posts"), Some(("First".into(), false)));
    assert_eq!(running.snapshot().problems["collections/posts.yaml"].serving, Serving::LastGood);
    running.stop();
}

#[test]
fn a_broken_twin_of_a_deleted_file_shows_what_the_head_has() {
    let journal = MemoryJournal::new();
    commit(&journal, POSTS, &named("First"));
    commit(&journal, POSTS, &named("Second"));
    commit(&journal, "posts.yml", "");
    let running = Running::on(&journal);
    journal.remove(POSTS);
    running.look(files(&[POSTS]));
    assert_eq!(running.shown("posts"), Some(("Second".into(), false)));
    running.stop();
}

#[test]
fn what_is_shown_since_the_file_before_it_was_deleted_by_hand_is_marked() {
    let journal = MemoryJournal::new();
    commit(&journal, "posts.yml", &named("Second"));
    commit(&journal, POSTS, &named("First"));
    let running = Running::on(&journal);
    assert_eq!(running.shown("posts"), Some(("First".into(), false)));
    journal.remove(POSTS);
    running.look(files(&[POSTS]));
    assert_eq!(running.shown("posts"), Some(("Second".into(), true)));
    assert_eq!(running.snapshot().hand_edits.served, 1);
    journal.save(POSTS, named("First"));
    running.look(files(&[POSTS]));
    assert_eq!(running.shown("posts"), Some(("First".into(), false)));
    running.stop();
}

#[test]
fn a_deletion_tells_of_nothing_that_was_never_committed() {
    let (journal, running) = with_first();
    for saved in [&named("Never committed"), "type: [\n"] {
        journal.save(POSTS, saved);
        running.look(files(&[POSTS]));
    }
    assert_eq!(running.shown("posts"), Some(("Never committed".into(), true)));
    running.submit(delete("posts")).unwrap();
    let log = journal.log();
    assert!(
        log[0].message.starts_with("Delete posts\n\nCollectory-Action: collection.deleted\n"),
        "{}",
        log[0].message
    );
    assert!(log.iter().all(|commit| !commit.message.contains("Never committed")), "{log:?}");
    running.stop();
}

#[test]
fn a_file_that_a_reset_leaves_in_the_work_tree_is_never_gone() {
    let journal = MemoryJournal::new();
    let first = commit(&journal, "pages.yaml", &named("Pages"));
    commit(&journal, POSTS, &named("Posts"));
    let running = Running::on(&journal);
    journal.set_busy(true);
    journal.move_branch(Some(first));
    running.look(Hint::Branch);
    assert_eq!(running.shown("posts"), Some(("Posts".into(), false)), "nobody knows yet whether it is gone");
    journal.set_busy(false);
    running.look(Hint::Branch);
    assert_eq!(running.shown("posts"), Some(("Posts".into(), true)));
    assert_eq!(running.snapshot().revision, Some(first));
    running.stop();
}

#[test]
fn a_write_that_lost_a_race_waits_until_git_is_done_with_the_work_tree() {
    let journal = MemoryJournal::new();
    commit(&journal, POSTS, &named("Posts"));
    commit(&journal, "pages.yaml", &named("Pages"));
    let running = Running::on(&journal);
    // While git holds its locks, it is unknown whether the file is gone.
    journal.fail_next(InjectedFault::BusyRace(vec![("pages.yaml".to_owned(), None)]));
    thread::scope(|scope| {
        let written = scope.spawn(|| running.submit(rename("posts", "By API")));
        running.eventually("the race is lost", |_| (journal.appends() == 1).then_some(()));
        journal.set_busy(false);
        written.join().unwrap().unwrap();
    });
    assert_eq!(running.shown("posts"), Some(("By API".into(), false)));
    assert_eq!(journal.appends(), 2);
    running.stop();
}

#[test]
fn a_deletion_behind_an_update_in_one_batch_leaves_no_twin_behind() {
    let journal = MemoryJournal::new();
    commit(&journal, POSTS, &named("First"));
    commit(&journal, "posts.yml", "broken");
    let running = Running::on(&journal);
    running.submit_all([rename("posts", "Second"), delete("posts")]).unwrap();
    assert_eq!(running.shown("posts"), None);
    assert!(running.snapshot().problems.is_empty());
    assert_eq!(journal.files_at(running.snapshot().revision).len(), 0);
    assert_eq!(journal.saved_files().len(), 0);
    running.stop();
}

/// Starts an engine that does not believe anything doubtful for the duration of a test.
fn patient(journal: &MemoryJournal) -> Running {
    Running::with(journal, believing_after(DEADLINE * 100))
}

#[test]
fn a_half_written_value_is_not_served_whatever_it_looks_like() {
    let journal = MemoryJournal::new();
    commit(&journal, POSTS, &named("First"));
    let running = patient(&journal);
    let saved = || {
        journal.save(POSTS, named("Posts of May"));
        running.look(files(&[POSTS]));
        assert_eq!(running.shown("posts"), Some(("Posts of May".into(), true)));
    };
    saved();
    // The notice of a save is handled when the next save has begun.
    for begun in ["Posts", "First"] {
        journal.begin_to_save(POSTS, named(begun));
        for hint in [files(&[POSTS]), Hint::Everything, Hint::Branch] {
            running.look(hint);
            assert_eq!(running.shown("posts"), Some(("Posts of May".into(), true)));
        }
        saved();
    }
    running.stop();
}

#[test]
fn a_file_that_is_kept_open_is_served_when_it_was_left_alone() {
    let journal = MemoryJournal::new();
    commit(&journal, POSTS, &named("First"));
    let running = Running::with(&journal, believing_after(Duration::from_millis(1)));
    journal.begin_to_save(POSTS, named("Second"));
    running.notice(files(&[POSTS]));
    running.eventually("it is served", |running| {
        (running.shown("posts") == Some(("Second".into(), true))).then_some(())
    });
    running.stop();
}

#[test]
fn a_write_waits_for_who_is_saving_the_same_file() {
    let journal = MemoryJournal::new();
    commit(&journal, POSTS, &named("First"));
    let running = patient(&journal);
    journal.begin_to_save(POSTS, named("Posts"));
    thread::scope(|scope| {
        let write = scope.spawn(|| running.submit(rename("posts", "By API")));
        journal.save(POSTS, named("Posts of May"));
        running.notice(files(&[POSTS]));
        write.join().unwrap().unwrap();
    });
    let contents: Vec<_> = journal.log().iter().map(|it| journal.files_at(Some(it.revision))).collect();
    assert!(contents.iter().all(|files| files[POSTS] != named("Posts").into_bytes()));
    running.stop();
}

#[test]
fn a_write_to_a_file_that_stays_open_is_answered_soon_however_long_a_save_may_take() {
    let journal = MemoryJournal::new();
    commit(&journal, POSTS, &named("First"));
    let running = Running::with(&journal, believing_after(2 * DEADLINE));
    journal.begin_to_save(POSTS, named("Posts"));
    let started = Instant::now();
    let refused = running.submit(rename("posts", "By API")).unwrap_err();
    assert!(matches!(refused, SubmitError::BeingWritten { .. }), "{refused}");
    assert!(started.elapsed() < DEADLINE, "{:?}", started.elapsed());
    running.stop();
}

/// Returns options with which git may seem to be changing the work tree for `busy_max`.
fn busy_for(busy_max: Duration) -> Options {
    let options = options();
    Options { mirror: MirrorOptions { busy_max, ..options.mirror }, ..options }
}
