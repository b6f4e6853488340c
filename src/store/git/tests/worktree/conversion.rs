//! Work trees in which git converts line ends, `$Id$` and encodings.

use std::fs;

use crate::store::Journal as _;
use crate::store::git::tests::support::*;

/// A repository whose files git checks out with CRLF line ends, and its journal.
fn served(set_up: impl Fn(&Repo)) -> (Repo, crate::store::git::GitJournal) {
    let repo = Repo::new();
    repo.commit(&[("a.yaml", "a1\nx\n"), ("b.yaml", "b1\n")]);
    set_up(&repo);
    fs::remove_dir_all(repo.path().join("collections")).unwrap();
    repo.git(&["checkout", "--", "collections"]);
    assert_eq!((repo.saved("a.yaml").as_str(), repo.status().as_str()), ("a1\r\nx\r\n", ""));
    let mut journal = repo.open();
    journal.catch_up().unwrap();
    (repo, journal)
}

fn by_configuration(repo: &Repo) {
    repo.git(&["config", "core.autocrlf", "true"]);
}

fn by_attribute(repo: &Repo) {
    fs::write(repo.path().join(".gitattributes"), "*.yaml text eol=crlf\n").unwrap();
    repo.commit(&[]);
}

#[test]
fn line_ends_that_git_changed_are_no_edit() {
    for set_up in [by_configuration, by_attribute] {
        let (repo, mut journal) = served(set_up);
        assert_eq!(edits(&mut journal), []);
        append(&mut journal, &[set("a.yaml", "a2\n"), remove("b.yaml")]);
        assert_eq!((edits(&mut journal), repo.status().as_str()), (vec![], ""));
        assert_eq!(repo.saved("a.yaml"), "a2\n");
        assert!(!repo.file("b.yaml").exists());
    }
}

#[test]
fn what_a_person_saved_with_such_line_ends_is_an_edit() {
    let (repo, mut journal) = served(by_configuration);
    repo.save("a.yaml", "a by hand\r\n");
    assert_eq!(edits(&mut journal), [edit("a.yaml", "a by hand\r\n")]);
    append(&mut journal, &[set("a.yaml", "a2\n")]);
    assert_eq!(repo.saved("a.yaml"), "a by hand\r\n");
    let plain = Repo::new();
    plain.commit(&[("a.yaml", "a1\n")]);
    let mut journal = plain.open();
    plain.save("a.yaml", "a1\r\n");
    assert_eq!(edits(&mut journal), [edit("a.yaml", "a1\r\n")], "git changes nothing here");
}

#[test]
fn an_old_checkout_that_a_person_brought_back_is_an_edit() {
    let (repo, mut journal) = served(by_configuration);
    assert_eq!(edits(&mut journal), []);
    append(&mut journal, &[set("a.yaml", "a2\n")]);
    repo.save("a.yaml", "a1\r\nx\r\n");
    append(&mut journal, &[set("a.yaml", "a3\n")]);
    assert_eq!(repo.saved("a.yaml"), "a1\r\nx\r\n");
}

#[test]
fn a_push_brings_such_files_forward() {
    let (repo, mut journal) = served(by_configuration);
    repo.git(&["config", "receive.denyCurrentBranch", "ignore"]);
    let parent = repo.path().parent().unwrap();
    git_in(parent, &["clone", "-q", "settings", "clone"]);
    let clone = parent.join("clone");
    fs::write(clone.join("collections/a.yaml"), "a pushed\n").unwrap();
    git_in(&clone, &["commit", "-q", "-a", "-m", "Pushed"]);
    git_in(&clone, &["push", "-q"]);
    journal.catch_up().unwrap();
    assert_eq!((repo.saved("a.yaml").as_str(), repo.status().as_str()), ("a pushed\n", ""));
    assert_eq!(edits(&mut journal), []);
}

#[test]
fn an_id_that_git_filled_in_is_no_edit() {
    let repo = Repo::new();
    fs::write(repo.path().join(".gitattributes"), "*.yaml ident\n").unwrap();
    repo.commit(&[("a.yaml", "# $Id$\na1\n"), ("b.yaml", "# $Id$\nb1\n")]);
    fs::remove_dir_all(repo.path().join("collections")).unwrap();
    repo.git(&["checkout", "--", "collections"]);
    assert!(repo.saved("a.yaml").starts_with("# $Id: "));
    let mut journal = repo.open();
    journal.catch_up().unwrap();
    assert_eq!(edits(&mut journal), []);
    repo.save("b.yaml", &repo.saved("b.yaml").replace("b1", "b2"));
    let by_hand = repo.saved("b.yaml");
    assert_eq!(edits(&mut journal), [edit("b.yaml", &by_hand)]);
    assert!(journal.is_converted("b.yaml", by_hand.as_bytes()), "git would commit `$Id$`");
    assert!(!journal.is_converted("b.yaml", b"# $Id$\nb2\n"));
    repo.git(&["commit", "-q", "-a", "-m", "By hand"]);
    append(&mut journal, &[set("a.yaml", "# $Id$\na2\n")]);
    assert_eq!((edits(&mut journal), repo.status().as_str()), (vec![], ""));
}

#[test]
fn what_git_would_encode_otherwise_is_a_person_s_to_commit() {
    let repo = Repo::new();
    let mut journal = repo.open();
    assert!(!journal.is_converted("a.yaml", b"a\n"));
    fs::write(repo.path().join(".gitattributes"), "*.yaml working-tree-encoding=UTF-16LE\n").unwrap();
    assert!(journal.is_converted("a.yaml", b"a\0\n\0"));
    fs::write(repo.path().join(".gitattributes"), "*.yaml -working-tree-encoding\n").unwrap();
    assert!(!journal.is_converted("a.yaml", b"a\n"));
}
