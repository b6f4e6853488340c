//! Commits as git sees them.

use chrono::DateTime;

use crate::store::git::disk::failpoint::Failpoint;
use crate::store::git::tests::support::*;
use crate::store::{Journal as _, StoreError};

#[test]
fn a_first_commit_is_a_commit_that_git_likes() {
    let repo = Repo::new();
    let mut journal = repo.open();
    let made = append(&mut journal, &[set("posts.yaml", "type: document\n")]);
    repo.check();
    assert_eq!(repo.head(), made[0].revision);
    assert_eq!(repo.status(), "");
    assert_eq!(repo.saved("posts.yaml"), "type: document\n");
    let format = "%an <%ae> %ad|%cn <%ce> %cd|%s|%b";
    assert_eq!(
        repo.git(&["log", &format!("--format={format}"), "--date=raw"]).trim(),
        "Mara <mara@example.org> 1700000000 +0000|Collectory <collectory@localhost> 1700000000 +0000|\
         Change posts.yaml|because\n\nCollectory-Key: x"
    );
    assert_eq!(repo.git(&["cat-file", "-p", "HEAD:collections/posts.yaml"]), "type: document\n");
}

#[test]
fn a_write_that_had_to_wait_for_the_index_is_decided_again() {
    let repo = Repo::new();
    let mut journal = repo.open();
    let head = append(&mut journal, &[set("posts.yaml", "type: document\n")])[0].revision;
    let lock = repo.path().join(".git/index.lock");
    std::fs::write(&lock, "").unwrap();
    let refused = journal.append(Some(head), &[set("posts.yaml", "name: a\n")]);
    assert!(matches!(refused, Err(StoreError::Locked { .. })), "{refused:?}");
    let _hook = repo.on_step(move |step, _| match step {
        Failpoint::AwaitIndex => std::fs::remove_file(&lock),
        _ => Ok(()),
    });
    let waited = journal.append(Some(head), &[set("posts.yaml", "name: a\n")]);
    let is_same = |found| found == Some(head);
    assert!(matches!(waited, Err(StoreError::HeadMoved { found, .. }) if is_same(found)), "{waited:?}");
    append(&mut journal, &[set("posts.yaml", "name: a\n")]);
    assert_eq!(repo.saved("posts.yaml"), "name: a\n");
}

#[test]
fn a_group_is_a_chain_of_commits_in_one_pack() {
    let repo = Repo::bare();
    let mut journal = repo.open();
    let first: Vec<_> = (0..200).map(|i| set(&format!("c{i:03}.yaml"), &format!("name: {i}\n"))).collect();
    append(&mut journal, &first);
    let second: Vec<_> =
        (0..120).map(|i| set(&format!("c{:03}.yaml", i % 7), &format!("name: {i}!\n"))).collect();
    let made = append(&mut journal, &second);
    assert_eq!(made.len(), 120);
    assert_eq!(repo.packs().len(), 2);
    repo.check();
    assert_eq!(repo.git(&["rev-list", "--count", "main"]).trim(), "320");
    assert_eq!(repo.git(&["show", "main~1:collections/c006.yaml"]), "name: 118!\n");
    let head = journal.head().unwrap();
    let files = files_at(&mut journal, head);
    assert_eq!(files.len(), 200);
    assert_eq!(files["c000.yaml"], "name: 119!\n");
}

#[test]
fn a_lost_race_changes_nothing() {
    let repo = Repo::new();
    let mut journal = repo.open();
    append(&mut journal, &[set("posts.yaml", "a\n")]);
    let old = journal.head().unwrap();
    let theirs = repo.commit(&[("posts.yaml", "theirs\n")]);
    let error = journal.append(old, &[set("posts.yaml", "ours\n")]).unwrap_err();
    assert!(
        matches!(error, StoreError::HeadMoved { expected, found } if expected == old && found == Some(theirs))
    );
    assert_eq!((repo.head(), repo.status().as_str()), (theirs, ""));
    append(&mut journal, &[set("posts.yaml", "ours\n")]);
    assert_eq!((repo.saved("posts.yaml").as_str(), repo.status().as_str()), ("ours\n", ""));
    repo.check();
}

#[test]
fn commits_are_made_before_the_branch_goes_on_to_them() {
    for repo in [Repo::new(), Repo::bare()] {
        let mut journal = repo.open();
        append(&mut journal, &[set("posts.yaml", "a\n")]);
        let old = journal.head().unwrap();
        let made = journal.prepare(old, &[set("posts.yaml", "b\n")]).unwrap();
        let new = made[0].revision;
        assert_eq!(journal.head().unwrap(), old, "nothing has moved");
        assert_eq!(repo.git(&["show", &format!("{new}:collections/posts.yaml")]), "b\n", "it is there");
        journal.advance(old, new, "pushed", DateTime::UNIX_EPOCH).unwrap();
        journal.catch_up().unwrap();
        assert_eq!(journal.head().unwrap(), Some(new));
        if journal.folder().is_some() {
            assert_eq!((repo.saved("posts.yaml").as_str(), repo.status().as_str()), ("b\n", ""));
            let log = std::fs::read_to_string(repo.path().join(".git/logs/refs/heads/main")).unwrap();
            assert!(log.trim_end().ends_with("\tcollectory: pushed"), "{log}");
        }
        let error = journal.advance(old, new, "again", DateTime::UNIX_EPOCH).unwrap_err();
        assert!(
            matches!(error, StoreError::HeadMoved { expected, found } if expected == old && found == Some(new))
        );
        append(&mut journal, &[set("posts.yaml", "c\n")]);
        repo.check();
    }
}
