//! The in-memory journal keeps the promises of the real one.

use super::*;

fn draft(name: &str, content: Option<&str>) -> Draft {
    by_hand(&[(name, content)], &Actor::anonymous(), "Change", DateTime::UNIX_EPOCH)
}

#[test]
fn an_append_brings_the_work_tree_along_and_keeps_what_a_person_saved() {
    let mut journal = MemoryJournal::new();
    journal.append(None, &[draft("a.yaml", Some("1")), draft("b.yaml", Some("1"))]).unwrap();
    journal.save("b.yaml", "mine");
    let head = journal.head().unwrap();
    journal.append(head, &[draft("a.yaml", Some("2")), draft("b.yaml", Some("2"))]).unwrap();
    assert_eq!(journal.saved("a.yaml").unwrap(), b"2");
    assert_eq!(journal.saved("b.yaml").unwrap(), b"mine");
    let head = journal.head().unwrap();
    let WorkTree::Available { edits, .. } = journal.work_tree(head, Paths::All, GitLocks::Respect).unwrap()
    else {
        panic!()
    };
    assert_eq!(edits.iter().map(|edit| edit.name.as_str()).collect::<Vec<_>>(), ["b.yaml"]);
    assert_eq!(journal.log().len(), 4);
}

#[test]
fn faults_come_in_line_and_are_gone_afterwards() {
    let mut journal = MemoryJournal::new();
    journal.fail_next(InjectedFault::DiskFull);
    journal.fail_next(InjectedFault::Race(vec![("b.yaml".to_owned(), Some("theirs".to_owned()))]));
    journal.fail_next(InjectedFault::AfterTheBranch);
    assert!(journal.append(None, &[draft("a.yaml", Some("1"))]).is_err());
    assert_eq!(journal.head().unwrap(), None);
    let error = journal.append(None, &[draft("a.yaml", Some("1"))]).unwrap_err();
    let StoreError::HeadMoved { found, .. } = error else { panic!("{error}") };
    assert!(journal.append(found, &[draft("a.yaml", Some("1"))]).is_err());
    assert_ne!(journal.head().unwrap(), found);
    assert_eq!(journal.saved("a.yaml"), None);
    journal.catch_up().unwrap();
    assert_eq!(journal.saved("a.yaml").unwrap(), b"1");
}

#[test]
fn a_push_is_brought_forward_and_a_soft_reset_is_the_person_s() {
    let mut journal = MemoryJournal::new();
    let mara = Actor::new("Mara", "mara@example.org");
    let commit =
        |content| journal.commit_by_hand(&[("a.yaml", Some(content))], &mara, "x", DateTime::UNIX_EPOCH);
    let first = commit("1");
    let second = commit("2");
    journal.move_branch(Some(first));
    journal.catch_up().unwrap();
    assert_eq!(journal.saved("a.yaml").unwrap(), b"2");
    journal.move_branch(Some(second));
    journal.push(&[("a.yaml", Some("3"))], &mara, "x", DateTime::UNIX_EPOCH);
    journal.catch_up().unwrap();
    assert_eq!(journal.saved("a.yaml").unwrap(), b"3", "the file was what a commit in between had");
}
