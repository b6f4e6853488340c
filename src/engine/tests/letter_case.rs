//! Keys that differ in letter case only: whatever people and programs do, no commit of the service has both.

use crate::domain::{Kind, Refusal};
use crate::engine::tests::*;
use crate::random::cases;
use crate::store::Commit;

const LOWER: &str = "a.yaml";
const UPPER: &str = "A.yaml";

fn create(key: &str) -> Command {
    let name = [("name".to_owned(), "By API".into())];
    Command::Create(Collection::new(Key::parse(key).unwrap(), Kind::Document, name).unwrap())
}

fn subject(commit: &Commit) -> &str {
    commit.message.lines().next().unwrap_or_default()
}

/// Returns the subjects of the commits after the first one, oldest first, with the files that each left.
fn commits(journal: &MemoryJournal) -> Vec<(String, Vec<String>)> {
    let log = journal.log();
    let commits = log.iter().rev().skip(1).map(|commit| {
        let files = journal.files_at(Some(commit.revision)).into_keys().collect();
        (subject(commit).to_owned(), files)
    });
    commits.collect()
}

#[track_caller]
fn check(journal: &MemoryJournal, expected: &[(&str, &[&str])]) {
    let commits = commits(journal);
    let commits: Vec<(&str, Vec<&str>)> = commits
        .iter()
        .map(|(subject, files)| (subject.as_str(), files.iter().map(String::as_str).collect()))
        .collect();
    let expected: Vec<(&str, Vec<&str>)> =
        expected.iter().map(|(subject, files)| (*subject, files.to_vec())).collect();
    assert_eq!(commits, expected);
}

#[track_caller]
fn is_taken<T: std::fmt::Debug>(answer: Result<T, SubmitError>) {
    let is_taken =
        matches!(&answer, Err(SubmitError::Refused { refusal: Refusal::KeyTakenInOtherCase { .. }, .. }));
    assert!(is_taken, "{answer:?}");
}

/// Commits `a.yaml`, and then lets a person do something that is noticed.
fn after(by_hand: impl FnOnce(&MemoryJournal)) -> (MemoryJournal, Running) {
    after_with(options(), by_hand)
}

fn after_with(options: Options, by_hand: impl FnOnce(&MemoryJournal)) -> (MemoryJournal, Running) {
    let journal = MemoryJournal::new();
    commit(&journal, LOWER, &named("First"));
    let running = Running::with(&journal, options);
    by_hand(&journal);
    running.look(Hint::Everything);
    (journal, running)
}

fn renamed(journal: &MemoryJournal) {
    journal.remove(LOWER);
    journal.save(UPPER, named("By hand"));
}

fn removed(journal: &MemoryJournal) {
    journal.remove(LOWER);
}

#[test]
fn a_broken_key_that_a_deletion_frees_shows_its_last_good_version() {
    let journal = MemoryJournal::new();
    commit(&journal, LOWER, &named("First"));
    commit(&journal, UPPER, &named("Upper"));
    commit(&journal, UPPER, "type: document\nname: [\n");
    let running = Running::on(&journal);
    assert_eq!(running.shown("A"), None);
    running.submit(delete("a")).unwrap();
    assert_eq!(running.shown("A"), Some(("Upper".into(), false)));
    running.stop();
}

#[test]
fn an_update_of_a_file_renamed_by_hand_commits_the_whole_renaming_first() {
    let (journal, running) = after(renamed);
    running.submit(rename("A", "By API")).unwrap();
    let expected: &[(&str, &[&str])] =
        &[("Delete a by hand", &[]), ("Create A by hand", &[UPPER]), ("Update A: name", &[UPPER])];
    check(&journal, expected);
    assert_eq!(journal.saved_files(), journal.files_at(running.snapshot().revision));
    assert_eq!(running.snapshot().hand_edits.served, 0);
    assert!(running.snapshot().problems.is_empty());
    running.stop();
}

#[test]
fn a_deletion_of_a_file_renamed_by_hand_commits_the_whole_renaming_first() {
    let (journal, running) = after(renamed);
    running.submit(delete("A")).unwrap();
    check(&journal, &[("Delete a by hand", &[]), ("Create A by hand", &[UPPER]), ("Delete A", &[])]);
    running.stop();
}

#[test]
fn a_creation_in_place_of_a_file_removed_by_hand_commits_the_removal_first() {
    let (journal, running) = after(removed);
    running.submit(create("A")).unwrap();
    check(&journal, &[("Delete a by hand", &[]), ("Create A", &[UPPER])]);
    let message = &journal.log()[1].message;
    assert!(message.contains("Collectory-Origin: work-tree"), "{message}");
    assert_eq!(running.shown("A"), Some(("By API".into(), false)));
    assert_eq!(running.shown("a"), None);
    running.stop();
}

#[test]
fn a_removal_is_committed_once_however_many_writes_follow() {
    let (journal, running) = after(removed);
    running.submit_all([create("A"), rename("A", "Again"), create("b")]).unwrap();
    check(&journal, &[("Delete a by hand", &[]), ("Change 2 collections: A, b", &["A.yaml", "b.yaml"])]);
    running.stop();
}

#[test]
fn a_removal_that_nobody_has_noticed_is_committed_too() {
    let journal = MemoryJournal::new();
    commit(&journal, LOWER, &named("First"));
    let running = Running::on(&journal);
    removed(&journal);
    running.submit(create("A")).unwrap();
    check(&journal, &[("Delete a by hand", &[]), ("Create A", &[UPPER])]);
    running.stop();
}

#[test]
fn a_creation_waits_until_the_removal_of_its_rival_is_believed() {
    let patient = believing_after(Duration::from_millis(20));
    let journal = MemoryJournal::new();
    commit(&journal, LOWER, &named("First"));
    let running = Running::with(&journal, patient);
    renamed(&journal);
    running.submit(rename("A", "By API")).unwrap();
    let expected: &[(&str, &[&str])] =
        &[("Delete a by hand", &[]), ("Create A by hand", &[UPPER]), ("Update A: name", &[UPPER])];
    check(&journal, expected);
    running.stop();
}

#[test]
fn a_removal_that_was_taken_back_unnoticed_is_not_committed() {
    let (journal, running) = after(removed);
    journal.save(LOWER, named("First"));
    is_taken(running.submit(create("A")));
    check(&journal, &[]);
    assert_eq!(running.shown("a"), Some(("First".into(), false)));
    running.stop();
}

#[test]
fn a_removal_stays_the_person_s_when_the_write_is_refused_or_of_another_key() {
    let (journal, running) = after(removed);
    let violation = running.submit_all([create("A"), delete("nobody")]);
    assert!(violation.is_err(), "{violation:?}");
    running.submit(create("b")).unwrap();
    check(&journal, &[("Create b", &[LOWER, "b.yaml"])]);
    assert_eq!(running.snapshot().hand_edits.served, 1);
    running.stop();
}

#[test]
fn a_batch_that_deletes_one_and_adds_the_other_is_one_commit() {
    let (journal, running) = after(|_| ());
    running.submit_all([delete("a"), create("A")]).unwrap();
    check(&journal, &[("Change 2 collections: A, a", &[UPPER])]);
    is_taken(running.submit_all([create("a"), delete("A")]));
    running.stop();
}

#[test]
fn a_file_that_can_t_be_read_takes_the_key_in_every_letter_case() {
    let journal = MemoryJournal::new();
    commit(&journal, LOWER, "type: [\n");
    let running = Running::on(&journal);
    is_taken(running.submit(create("A")));
    running.submit_all([delete("a"), create("A")]).unwrap();
    check(&journal, &[("Change 2 collections: A, a", &[UPPER])]);
    journal.save("B.yml", "type: [\n");
    running.notice(Hint::Everything);
    is_taken(running.submit_all([create("c"), create("b")]));
    running.stop();
}

#[test]
fn whoever_committed_a_key_that_is_taken_is_named_and_not_the_other_key() {
    let (_journal, running) = after(|journal| {
        commit(journal, UPPER, &named("By hand"));
    });
    let snapshot = running.snapshot();
    let problem = snapshot.problems.values().next().unwrap();
    let (revision, _) = problem.committed.clone().unwrap();
    assert_eq!((problem.path.as_str(), Some(revision)), ("collections/A.yaml", snapshot.revision));
    // A reader who sees the problem of one key may not be allowed to read the other.
    let message = &problem.faults[0].message;
    assert!(message.contains("`A`") && !message.contains("`a`"), "{message}");
    running.stop();
}

#[test]
fn two_broken_files_of_one_key_in_two_letter_cases_are_two_problems() {
    let (journal, running) = after(|journal| {
        journal.remove(LOWER);
        journal.save("b.yaml", "type: [\n");
        journal.save("B.yaml", "type: [\n");
    });
    assert_eq!(running.snapshot().problems.len(), 2);
    journal.save("b.yaml", named("Mended"));
    running.look(Hint::Everything);
    assert_eq!(running.shown("b"), Some(("Mended".into(), true)));
    running.stop();
}

#[test]
fn a_file_saved_by_hand_takes_the_key_in_every_letter_case() {
    let (journal, running) = after(|journal| journal.save("B.yaml", named("By hand")));
    is_taken(running.submit(create("b")));
    check(&journal, &[]);
    running.stop();
}

#[test]
fn a_file_saved_beside_a_committed_one_is_the_person_s_to_remove() {
    let (journal, running) = after(|journal| journal.save(UPPER, named("By hand")));
    assert_eq!(running.shown("A"), None);
    is_taken(running.submit(delete("A")));
    is_taken(running.submit_all([delete("a"), delete("A")]));
    check(&journal, &[]);
    running.submit(delete("a")).unwrap();
    running.submit(delete("A")).unwrap();
    check(&journal, &[("Delete a", &[]), ("Create A by hand", &[UPPER]), ("Delete A", &[])]);
    running.stop();
}

#[test]
fn of_two_that_were_committed_by_hand_each_can_be_deleted() {
    for key in ["a", "A"] {
        let (journal, running) = after(|journal| {
            commit(journal, UPPER, &named("Second"));
        });
        running.submit(delete(key)).unwrap();
        assert_eq!(journal.files_at(running.snapshot().revision).len(), 1, "{key}");
        running.stop();
    }
}

#[test]
fn a_removal_that_is_not_served_is_not_committed() {
    let ignoring = serving(false);
    let (journal, running) = after_with(ignoring, |journal| {
        renamed(journal);
        journal.save("B.yaml", named("By hand"));
    });
    is_taken(running.submit(create("A")));
    assert!(running.submit(rename("A", "By API")).is_err());
    check(&journal, &[]);
    assert_eq!(running.shown("a"), Some(("First".into(), false)));
    running.submit(create("b")).unwrap();
    check(&journal, &[("Create b", &[LOWER, "b.yaml"])]);
    running.stop();
}

#[test]
fn a_repository_without_a_work_tree_has_nothing_to_commit_first() {
    let journal = MemoryJournal::bare();
    let running = Running::on(&journal);
    running.submit(create("a")).unwrap();
    is_taken(running.submit(create("A")));
    running.submit(delete("a")).unwrap();
    running.submit(create("A")).unwrap();
    assert_eq!(journal.log().len(), 3);
    running.stop();
}

/// Saves, removes or renames a file.
fn act(journal: &MemoryJournal, what: u32, file: &str, to: &str) {
    match what {
        0 => journal.save(file, named(&format!("By hand {}", journal.appends()))),
        1 => journal.save(file, "type: [\n"),
        2 => journal.remove(file),
        _ => {
            if let Some(bytes) = journal.saved(file) {
                journal.remove(file);
                journal.save(to, bytes);
            }
        }
    }
}

fn ask(running: &Running, what: u32, one: &str, other: &str) -> Result<SubmitAnswer, SubmitError> {
    match what {
        4 | 5 => running.submit(create(one)),
        6 => running.submit(rename(one, "By API too")),
        7 => running.submit(delete(one)),
        8 => running.submit_all([delete(other), create(one)]),
        _ => running.submit_all([delete(one), delete(other), create("b")]),
    }
}

#[track_caller]
fn has_never_both(journal: &MemoryJournal, story: &str) {
    for commit in journal.log() {
        let files = journal.files_at(Some(commit.revision));
        let has = |key: &str| files.keys().any(|name| name.split('.').next() == Some(key));
        assert!(!(has("a") && has("A")), "{}: {:?}\n{story}", subject(&commit), commits(journal));
    }
}

/// People save, remove and rename files while programs write, in two letter cases and two endings.
#[test]
fn no_commit_has_two_keys_in_other_letter_case_whatever_happens() {
    for seed in 0..u64::from(cases(50).cases) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let options = serving(rng.u32(..8) > 0);
        let journal = MemoryJournal::new();
        let running = Running::with(&journal, options);
        let mut story = vec![format!("seed {seed}")];
        for _ in 0..30 {
            let [one, other] = if rng.bool() { ["a", "A"] } else { ["A", "a"] };
            let ending = if rng.u32(..4) == 0 { "yml" } else { "yaml" };
            let (file, to) = (format!("{one}.{ending}"), format!("{other}.{ending}"));
            let what = rng.u32(..10);
            story.push(format!("  {what} {file}"));
            if what > 3 {
                let answer = ask(&running, what, one, other);
                story.push(format!("    {:?}", answer.map(|written| written.revision)));
            } else {
                act(&journal, what, &file, &to);
                if rng.u32(..5) > 0 {
                    running.notice(Hint::Everything);
                }
            }
            has_never_both(&journal, &story.join("\n"));
        }
        running.stop();
    }
}

#[test]
fn a_collection_that_is_edited_by_hand_is_not_hidden_by_a_new_file() {
    for edited_first in [true, false] {
        let edit = |journal: &MemoryJournal| journal.save(LOWER, named("Edited"));
        let (journal, running) =
            after(|journal| if edited_first { edit(journal) } else { journal.save(UPPER, named("New")) });
        if edited_first {
            journal.save(UPPER, named("New"));
        } else {
            edit(&journal);
        }
        running.look(Hint::Everything);
        assert_eq!(running.shown("a"), Some(("Edited".into(), true)));
        assert_eq!(running.shown("A"), None);
        running.stop();
        let running = Running::on(&journal);
        assert_eq!(running.shown("a"), Some(("Edited".into(), true)), "after a restart too");
        running.stop();
    }
}
