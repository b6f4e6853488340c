//! The state files of the service; see `disk::state_file`.

use std::fs;

use crate::store::git::disk::state_file::DERIVED;
use crate::store::git::packs::store::PACKS_MAX;
use crate::store::git::tests::support::*;
use crate::store::git::{GitJournal, Options};
use crate::store::{Archive as _, Journal as _};

/// A repository with merged packs and a commit-graph, and the journal that serves it.
fn lived_in() -> (Repo, GitJournal) {
    let repo = Repo::new();
    let mut journal = GitJournal::open(Options { graph_commits_min: 10, ..repo.options() }).unwrap();
    for round in 0..=PACKS_MAX {
        append(&mut journal, &[set("a.yaml", &format!("{round}\n"))]);
    }
    run_maintenance(&mut journal);
    (repo, journal)
}

#[test]
fn each_derived_file_can_be_deleted_at_any_time() {
    let (repo, mut journal) = lived_in();
    let state = repo.path().join(".git/collectory");
    for (round, name) in DERIVED.into_iter().enumerate() {
        let text = |when: &str| format!("{name} deleted {when}\n");
        drop(fs::remove_file(state.join(name)));
        append(&mut journal, &[set("a.yaml", &text("while served"))]);
        run_maintenance(&mut journal);
        assert_eq!(repo.status(), "", "{name}");
        drop(journal);
        drop(fs::remove_file(state.join(name)));
        journal = GitJournal::open(Options { graph_commits_min: 10, ..repo.options() }).unwrap();
        journal.catch_up().unwrap();
        append(&mut journal, &[set("b.yaml", &text("before the start"))]);
        (0..=PACKS_MAX).for_each(|n| drop(append(&mut journal, &[set("c.yaml", &format!("{round} {n}\n"))])));
        run_maintenance(&mut journal);
        let head = journal.head().unwrap();
        assert_eq!(files_at(&mut journal, head)["b.yaml"], text("before the start"));
        assert_eq!((repo.saved("a.yaml"), repo.status().as_str()), (text("while served"), ""), "{name}");
        repo.check();
    }
}

#[test]
fn every_file_of_ours_stands_in_the_table() {
    let (repo, journal) = lived_in();
    journal.archive().write_cached("history-index", b"read").unwrap();
    let table = include_str!("../../disk/state_file.rs");
    let rows: Vec<&str> = table.lines().filter_map(|line| line.strip_prefix("//! | `")).collect();
    let names: Vec<&str> = rows.iter().filter_map(|row| row.split('`').next()).collect();
    let is_named = |name: &str| {
        names.iter().any(|row| row.strip_suffix('*').map_or(*row == name, |prefix| name.starts_with(prefix)))
    };
    for entry in fs::read_dir(repo.path().join(".git/collectory")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(is_named(&name), "{name} stands in no row");
    }
    let derived = rows.iter().filter(|row| row.contains("| derived: ")).count();
    assert_eq!(derived, DERIVED.len() + 1, "and the index of the history");
    fs::remove_file(repo.path().join(".git/collectory/history-index")).unwrap();
    assert_eq!(journal.archive().read_cached("history-index").unwrap(), None);
}
