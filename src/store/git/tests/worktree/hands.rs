//! A person who works in the same work tree.

use std::fs;
use std::io::{Read as _, Seek as _};
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use crate::store::git::disk::failpoint::{Failpoint, Hook};
use crate::store::git::disk::stamp::now;
use crate::store::git::tests::support::*;
use crate::store::git::{GitJournal, Options};
use crate::store::{BlobId, Draft, GitLocks, Journal as _, Paths, StoreError, WorkTree};

/// A repository with a few committed files, and the journal that serves it.
fn served() -> (Repo, crate::store::git::GitJournal) {
    let repo = Repo::new();
    repo.commit(&[("a.yaml", "a1\n"), ("b.yaml", "b1\n"), ("c.yaml", "c1\n")]);
    let mut journal = repo.open();
    journal.catch_up().unwrap();
    (repo, journal)
}

#[test]
fn the_work_tree_follows_every_commit() {
    let (repo, mut journal) = served();
    append(
        &mut journal,
        &[set("a.yaml", "a2\n"), remove("b.yaml"), set("d.yaml", "d1\n"), set("a.yaml", "a3\n")],
    );
    assert_eq!(repo.saved("a.yaml"), "a3\n");
    assert!(!repo.file("b.yaml").exists());
    assert_eq!(repo.saved("d.yaml"), "d1\n");
    assert_eq!(repo.status(), "");
    assert_eq!(edits(&mut journal), []);
    repo.check();
}

/// Makes it impossible to take the lock of the index, with which a person's next command would collide.
fn no_locks(repo: &Repo) -> std::path::PathBuf {
    let obstacle = repo.path().join(".git/collectory/lock-index");
    drop(fs::remove_file(&obstacle));
    fs::create_dir(&obstacle).unwrap();
    obstacle
}

#[test]
fn what_a_person_stages_over_a_write_takes_no_lock_either() {
    let (repo, mut journal) = served();
    append(&mut journal, &[set("a.yaml", "a2\n")]);
    repo.save("a.yaml", "a1\n");
    repo.git(&["add", "-A"]);
    let obstacle = no_locks(&repo);
    journal.catch_up().unwrap();
    fs::remove_dir(obstacle).unwrap();
    assert_eq!(repo.status(), "M  collections/a.yaml\n");
}

#[test]
fn after_a_person_s_commit_neither_the_index_nor_its_lock_is_touched() {
    let (repo, mut journal) = served();
    let committed = repo.commit(&[("a.yaml", "a2\n"), ("d.yaml", "d1\n")]);
    let index = repo.path().join(".git/index");
    let before = fs::metadata(&index).unwrap().ino();
    let obstacle = no_locks(&repo);
    journal.catch_up().unwrap();
    fs::remove_dir(obstacle).unwrap();
    assert_eq!(fs::metadata(&index).unwrap().ino(), before);
    repo.git(&["update-ref", "refs/heads/main", committed.to_string().as_str()]);
    repo.save("a.yaml", "a by hand\n");
    append(&mut journal, &[set("b.yaml", "b2\n")]);
    assert_eq!(repo.status(), " M collections/a.yaml\n");
}

#[test]
fn an_edited_file_is_kept_and_the_next_commit_does_not_revert_ours() {
    let (repo, mut journal) = served();
    repo.save("a.yaml", "a by hand\n");
    repo.save("d.yaml", "d by hand\n");
    append(&mut journal, &[set("a.yaml", "a2\n"), set("b.yaml", "b2\n"), set("d.yaml", "d1\n")]);
    assert_eq!(repo.saved("a.yaml"), "a by hand\n");
    assert_eq!(repo.saved("d.yaml"), "d by hand\n");
    assert_eq!(repo.saved("b.yaml"), "b2\n");
    assert_eq!(repo.status(), " M collections/a.yaml\n M collections/d.yaml\n");
    assert_eq!(edits(&mut journal), [edit("a.yaml", "a by hand\n"), edit("d.yaml", "d by hand\n")]);
    repo.git(&["commit", "-q", "--allow-empty", "-m", "Something else"]);
    assert_eq!(repo.git(&["show", "HEAD:collections/a.yaml"]), "a2\n");
}

#[test]
fn a_file_deleted_by_hand_stays_deleted() {
    let (repo, mut journal) = served();
    fs::remove_file(repo.file("a.yaml")).unwrap();
    append(&mut journal, &[set("a.yaml", "a2\n"), remove("b.yaml")]);
    assert_eq!(repo.status(), " D collections/a.yaml\n");
    assert_eq!(edits(&mut journal), [edit("a.yaml", "gone")]);
}

#[test]
fn what_a_person_staged_stays_staged() {
    let (repo, mut journal) = served();
    repo.save("a.yaml", "a staged\n");
    fs::write(repo.path().join("README.md"), "read\n").unwrap();
    repo.git(&["add", "-A"]);
    repo.git(&["rm", "-q", "collections/b.yaml"]);
    append(&mut journal, &[set("a.yaml", "a2\n"), set("b.yaml", "b2\n"), set("c.yaml", "c2\n")]);
    assert_eq!(repo.status(), "A  README.md\nM  collections/a.yaml\nD  collections/b.yaml\n");
    assert_eq!(repo.saved("c.yaml"), "c2\n");
}

#[test]
fn during_a_merge_only_our_paths_change() {
    let (repo, mut journal) = served();
    repo.git(&["checkout", "-q", "-b", "side"]);
    repo.commit(&[("a.yaml", "a side\n"), ("b.yaml", "b side\n")]);
    repo.git(&["checkout", "-q", "main"]);
    repo.commit(&[("a.yaml", "a main\n")]);
    journal.catch_up().unwrap();
    repo.git_fails(&["merge", "-q", "side"]);
    let conflict = repo.saved("a.yaml");
    append(&mut journal, &[set("a.yaml", "a2\n"), set("c.yaml", "c2\n")]);
    assert_eq!(repo.saved("a.yaml"), conflict);
    assert_eq!(repo.status(), "UU collections/a.yaml\nM  collections/b.yaml\n");
    let head = journal.head().unwrap();
    let WorkTree::Available { operation_in_progress: half_done, .. } =
        journal.work_tree(head, Paths::All, GitLocks::Respect).unwrap()
    else {
        panic!()
    };
    assert_eq!(half_done, Some("a merge"));
    repo.save("a.yaml", "a merged\n");
    repo.git(&["commit", "-q", "-a", "-m", "Merge"]);
    assert_eq!(repo.git(&["show", "HEAD:collections/c.yaml"]), "c2\n");
    repo.check();
}

#[test]
fn another_branch_and_a_detached_head_are_left_alone() {
    let (repo, mut journal) = served();
    let away = |journal: &mut crate::store::git::GitJournal| {
        let head = journal.head().unwrap();
        match journal.work_tree(head, Paths::All, GitLocks::Respect).unwrap() {
            WorkTree::Unavailable(why) => why,
            other => panic!("{other:?}"),
        }
    };
    repo.git(&["checkout", "-q", "-b", "side"]);
    append(&mut journal, &[set("a.yaml", "a2\n")]);
    assert_eq!((repo.saved("a.yaml").as_str(), repo.status().as_str()), ("a1\n", ""));
    assert_eq!(away(&mut journal), "the branch `side` is checked out");
    repo.git(&["checkout", "-q", "--detach"]);
    append(&mut journal, &[set("a.yaml", "a3\n")]);
    assert_eq!(away(&mut journal), "HEAD is detached");
    repo.git(&["checkout", "-q", "main"]);
    journal.catch_up().unwrap();
    assert_eq!((repo.saved("a.yaml").as_str(), repo.status().as_str()), ("a3\n", ""));
    repo.save("a.yaml", "a1\n");
    append(&mut journal, &[set("b.yaml", "b2\n")]);
    assert_eq!(
        edits(&mut journal),
        [edit("a.yaml", "a1\n")],
        "going back by hand to an old version is an edit"
    );
}

#[test]
fn a_push_into_the_repository_comes_to_the_work_tree() {
    let (repo, mut journal) = served();
    repo.save("b.yaml", "b by hand\n");
    let there = tempfile::tempdir().unwrap();
    git_in(there.path(), &["clone", "-q", repo.path().to_str().unwrap(), "clone"]);
    let clone = there.path().join("clone");
    fs::write(clone.join("collections/a.yaml"), "a pushed\n").unwrap();
    fs::write(clone.join("collections/b.yaml"), "b pushed\n").unwrap();
    fs::remove_file(clone.join("collections/c.yaml")).unwrap();
    git_in(&clone, &["commit", "-q", "-a", "-m", "Push"]);
    repo.git(&["config", "receive.denyCurrentBranch", "ignore"]);
    git_in(&clone, &["push", "-q"]);
    journal.catch_up().unwrap();
    assert_eq!((repo.saved("a.yaml").as_str(), repo.saved("b.yaml").as_str()), ("a pushed\n", "b by hand\n"));
    assert_eq!(repo.status(), " M collections/b.yaml\n");
}

#[test]
fn a_soft_reset_and_an_amend_are_the_person_s() {
    let (repo, mut journal) = served();
    repo.commit(&[("a.yaml", "a2\n")]);
    journal.catch_up().unwrap();
    repo.git(&["reset", "-q", "--soft", "HEAD~1"]);
    journal.catch_up().unwrap();
    assert_eq!((repo.saved("a.yaml").as_str(), repo.status().as_str()), ("a2\n", "M  collections/a.yaml\n"));
    append(&mut journal, &[set("b.yaml", "b2\n")]);
    assert_eq!((repo.saved("a.yaml").as_str(), repo.status().as_str()), ("a2\n", "M  collections/a.yaml\n"));
    repo.git(&["commit", "-q", "--amend", "-m", "Amended"]);
    journal.catch_up().unwrap();
    assert_eq!(repo.status(), "");
}

#[test]
fn after_a_kill_the_work_tree_is_brought_forward_and_edits_are_kept() {
    let (repo, mut journal) = served();
    repo.save("c.yaml", "c by hand\n");
    let stop = repo.stop_at(Failpoint::UpdateWorkTree);
    let drafts = [set("a.yaml", "a2\n"), remove("b.yaml"), set("c.yaml", "c2\n"), set("d.yaml", "d1\n")];
    assert!(try_append(&mut journal, &drafts).is_err());
    drop((journal, stop));
    assert_eq!(repo.saved("a.yaml"), "a1\n");
    let mut journal = repo.open();
    journal.catch_up().unwrap();
    assert_eq!((repo.saved("a.yaml").as_str(), repo.saved("d.yaml").as_str()), ("a2\n", "d1\n"));
    assert_eq!(repo.status(), " M collections/c.yaml\n");
    assert_eq!(edits(&mut journal), [edit("c.yaml", "c by hand\n")]);
}

#[test]
fn after_a_kill_the_index_stays_locked_until_the_files_are_there() {
    let (repo, mut journal) = served();
    let (from, killed) = (repo.path().to_owned(), repo.path().with_file_name("killed"));
    let to = killed.clone();
    let _hook = repo.meanwhile(move || {
        drop(fs::remove_dir_all(&to));
        // Hard links must be preserved, because our locks are recognised by them.
        let copied = std::process::Command::new("cp").arg("-a").args([&from, &to]).status();
        assert!(copied.unwrap().success());
    });
    append(&mut journal, &[set("a.yaml", "a2\n"), remove("b.yaml")]);
    assert!(killed.join(".git/index.lock").exists());
    assert_eq!(fs::read_to_string(killed.join("collections/a.yaml")).unwrap(), "a1\n");
    // Opening alone updates the work tree; `catch_up` is not called.
    drop(GitJournal::open(Options::new(&killed)).unwrap());
    assert_eq!(fs::read_to_string(killed.join("collections/a.yaml")).unwrap(), "a2\n");
    assert!(!killed.join("collections/b.yaml").exists());
    assert_eq!(git_in(&killed, &["status", "--porcelain"]), "");
    git_in(&killed, &["commit", "-q", "--allow-empty", "-a", "-m", "By hand"]);
    assert_eq!(git_in(&killed, &["diff", "--name-only", "HEAD~1"]), "");
}

#[test]
fn on_a_branch_with_the_name_of_a_file_of_git_s_locks_are_recognised_after_a_kill() {
    for branch in ["team/index", "team/HEAD"] {
        let repo = Repo::new();
        repo.commit(&[("a.yaml", "a1\n")]);
        repo.git(&["branch", "-m", branch]);
        let mut journal = repo.open();
        journal.catch_up().unwrap();
        let (from, killed) = (repo.path().to_owned(), repo.path().with_file_name("killed"));
        let to = killed.clone();
        let _hook = repo.on_step(move |step, _| {
            if step == Failpoint::UpdateWorkTree {
                let copied = std::process::Command::new("cp").arg("-a").args([&from, &to]).status();
                assert!(copied.unwrap().success());
            }
            Ok(())
        });
        append(&mut journal, &[set("a.yaml", "a2\n")]);
        assert!(killed.join(".git/index.lock").exists(), "{branch}");
        drop(GitJournal::open(Options::new(&killed)).unwrap());
        assert!(!killed.join(".git/index.lock").exists(), "{branch}");
        assert_eq!(fs::read_to_string(killed.join("collections/a.yaml")).unwrap(), "a2\n", "{branch}");
        assert_eq!(git_in(&killed, &["status", "--porcelain"]), "", "{branch}");
    }
}

#[test]
fn after_a_kill_before_the_first_commit_is_shown_it_is_shown_all_the_same() {
    let repo = Repo::new();
    let mut journal = repo.open();
    journal.catch_up().unwrap();
    let stop = repo.stop_at(Failpoint::UpdateWorkTree);
    assert!(try_append(&mut journal, &[set("a.yaml", "a1\n")]).is_err());
    drop((journal, stop));
    let mut journal = repo.open();
    journal.catch_up().unwrap();
    assert_eq!((repo.saved("a.yaml").as_str(), repo.status().as_str()), ("a1\n", ""));
}

#[test]
fn after_a_kill_that_followed_a_commit_by_hand_the_work_tree_is_brought_forward() {
    let (repo, mut journal) = served();
    repo.commit(&[("a.yaml", "a2\n")]);
    let stop = repo.stop_at(Failpoint::UpdateWorkTree);
    assert!(try_append(&mut journal, &[set("a.yaml", "a3\n")]).is_err());
    drop((journal, stop));
    repo.open().catch_up().unwrap();
    assert_eq!((repo.saved("a.yaml").as_str(), repo.status().as_str()), ("a3\n", ""));
}

#[test]
fn a_kill_before_the_branch_moved_leaves_nothing_visible() {
    let (repo, mut journal) = served();
    let head = repo.head();
    let stop = repo.stop_at(Failpoint::MoveBranch);
    assert!(try_append(&mut journal, &[set("a.yaml", "a2\n")]).is_err());
    assert_eq!((repo.head(), repo.status().as_str(), repo.saved("a.yaml").as_str()), (head, "", "a1\n"));
    drop(stop);
    append(&mut journal, &[set("a.yaml", "a2\n")]);
    repo.check();
}

#[test]
fn a_lock_of_git_is_waited_for_and_then_told() {
    let (repo, mut journal) = served();
    let lock = repo.path().join(".git/index.lock");
    fs::write(&lock, "").unwrap();
    let error = try_append(&mut journal, &[set("a.yaml", "a2\n")]).unwrap_err();
    assert!(matches!(&error, StoreError::Locked { path } if *path == lock), "{error}");
    let head = journal.head().unwrap();
    assert_eq!(journal.work_tree(head, Paths::All, GitLocks::Respect).unwrap(), WorkTree::Busy);
    drop(journal);
    let mut journal = repo.open();
    assert!(lock.exists(), "a lock that is not ours is never removed");
    fs::remove_file(&lock).unwrap();
    append(&mut journal, &[set("a.yaml", "a2\n")]);
    assert_eq!(repo.status(), "");
}

#[test]
fn everything_that_is_no_file_is_told_and_never_followed() {
    let (repo, mut journal) = served();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret.yaml"), "secret\n").unwrap();
    symlink(outside.path().join("secret.yaml"), repo.file("d.yaml")).unwrap();
    fs::create_dir(repo.file("e.yaml")).unwrap();
    for ignored in ["x.yaml~", ".y.yaml", "README.md"] {
        repo.save(ignored, "x");
    }
    assert_eq!(edits(&mut journal), [edit("d.yaml", "a symbolic link"), edit("e.yaml", "a folder")]);
    append(&mut journal, &[set("d.yaml", "d1\n")]);
    assert!(repo.file("d.yaml").is_symlink());
    assert_eq!(fs::read_to_string(outside.path().join("secret.yaml")).unwrap(), "secret\n");
}

#[test]
fn a_missing_folder_is_every_file_gone_and_a_linked_one_is_not_followed() {
    let (repo, mut journal) = served();
    let elsewhere = repo.path().join("elsewhere");
    fs::rename(repo.path().join("collections"), &elsewhere).unwrap();
    assert_eq!(edits(&mut journal).len(), 3);
    symlink(&elsewhere, repo.path().join("collections")).unwrap();
    let head = journal.head().unwrap();
    assert!(matches!(
        journal.work_tree(head, Paths::All, GitLocks::Respect).unwrap(),
        WorkTree::Unavailable(_)
    ));
    append(&mut journal, &[set("a.yaml", "a2\n")]);
    assert_eq!(fs::read_to_string(elsewhere.join("a.yaml")).unwrap(), "a1\n");
}

#[test]
fn a_change_of_equal_length_right_after_a_look_is_found() {
    let (repo, mut journal) = served();
    assert_eq!(edits(&mut journal), []);
    for round in 0..30 {
        let text = format!("{round:02}\n");
        fs::write(repo.file("a.yaml"), &text).unwrap();
        assert_eq!(edits(&mut journal), [edit("a.yaml", &text)]);
    }
}

#[test]
fn a_change_right_before_our_index_is_seen_by_git() {
    let (repo, mut journal) = served();
    fs::write(repo.file("b.yaml"), "B1\n").unwrap();
    append(&mut journal, &[set("a.yaml", "a2\n")]);
    assert_eq!(repo.status(), " M collections/b.yaml\n");
}

#[test]
fn every_version_of_the_index_is_kept_up() {
    let (repo, mut journal) = served();
    for version in ["2", "3", "4"] {
        repo.git(&["update-index", "--index-version", version]);
        append(
            &mut journal,
            &[set("a.yaml", &format!("version {version}\n")), set(&format!("v{version}.yaml"), "x\n")],
        );
        assert_eq!(repo.status(), "");
    }
    repo.git(&["config", "index.skipHash", "true"]);
    repo.git(&["update-index", "--force-write-index"]);
    append(&mut journal, &[set("a.yaml", "no checksum\n")]);
    assert_eq!(repo.status(), "");
    repo.git(&["update-index", "--untracked-cache"]);
    append(&mut journal, &[set("new.yaml", "cached\n"), remove("a.yaml")]);
    assert_eq!(repo.status(), "");
    repo.check();
}

#[test]
fn a_split_index_is_kept_up_and_becomes_a_whole_one() {
    let (repo, mut journal) = served();
    for version in ["2", "3", "4"] {
        repo.git(&["update-index", "--index-version", version]);
        // All entries shared, some replaced, one new, one deleted: each in a part of its own.
        repo.git(&["update-index", "--split-index"]);
        let name = format!("v{version}.yaml");
        append(&mut journal, &[set("a.yaml", &format!("version {version}\n")), set(&name, "x\n")]);
        assert_eq!(repo.status(), "", "{version}");
        repo.git(&["update-index", "--split-index"]);
        repo.save("c.yaml", &format!("{version} by hand\n"));
        repo.save("d.yaml", "d1\n");
        repo.git(&["add", "."]);
        repo.git(&["rm", "-q", &format!("collections/{name}")]);
        append(&mut journal, &[set("b.yaml", &format!("version {version}\n"))]);
        let staged = repo.git(&["status", "--porcelain"]);
        assert_eq!(staged, format!("M  collections/c.yaml\nA  collections/d.yaml\nD  collections/{name}\n"));
        repo.git(&["rm", "-qf", "collections/d.yaml"]);
        repo.git(&["commit", "-qm", "By hand"]);
        journal.catch_up().unwrap();
    }
    repo.git(&["config", "core.splitIndex", "true"]);
    repo.git(&["config", "splitIndex.maxPercentChange", "100"]);
    let names: Vec<String> = (0..70).map(|number| format!("many{number}.yaml")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "x\n")).collect();
    repo.commit(&files);
    journal.catch_up().unwrap();
    repo.git(&["rm", "-q", "collections/many3.yaml"]);
    append(&mut journal, &[set("many66.yaml", "y\n"), remove("many1.yaml")]);
    assert_eq!(repo.git(&["status", "--porcelain"]), "D  collections/many3.yaml\n");
    repo.check();
}

#[test]
fn nothing_is_written_beside_an_index_that_can_not_be_read() {
    let (repo, mut journal) = served();
    repo.git(&["update-index", "--split-index"]);
    let entries = fs::read_dir(repo.path().join(".git")).unwrap().map(|entry| entry.unwrap().path());
    let is_shared = |path: &std::path::PathBuf| path.display().to_string().contains("/sharedindex.");
    let shared = entries.into_iter().find(is_shared).unwrap();
    fs::rename(&shared, shared.with_extension("away")).unwrap();
    let head = journal.head().unwrap();
    let refused = journal.append(head, &[set("a.yaml", "a2\n")]);
    assert!(matches!(refused, Err(StoreError::Unsuitable { .. })), "{refused:?}");
    assert_eq!(journal.head().unwrap(), head);
    assert!(repo.packs().is_empty(), "who tries again and again must not fill the disk");
    fs::rename(shared.with_extension("away"), shared).unwrap();
    append(&mut journal, &[set("a.yaml", "a2\n")]);
    assert_eq!(repo.saved("a.yaml"), "a2\n");
}

#[test]
fn what_a_power_cut_blanked_is_restored() {
    let (repo, mut journal) = served();
    fs::write(repo.path().join("README.md"), "read\n").unwrap();
    repo.commit(&[]);
    append(&mut journal, &[set("a.yaml", "a2\n")]);
    run_maintenance(&mut journal);
    append(&mut journal, &[set("b.yaml", "b2\n"), set("d.yaml", "d1\n"), remove("c.yaml")]);
    drop(journal);
    // The same note, from before a reboot.
    let note = repo.path().join(".git/collectory/work-tree");
    let text = fs::read_to_string(&note).unwrap();
    let system = text.lines().nth(2).unwrap();
    fs::write(&note, text.replace(system, &"0".repeat(system.len()))).unwrap();
    repo.save("a.yaml", "");
    repo.save("b.yaml", "");
    repo.save("d.yaml", "\0\0\0\0");
    fs::write(repo.path().join(".git/index"), "").unwrap();
    let mut journal = repo.open();
    journal.catch_up().unwrap();
    assert_eq!((repo.saved("b.yaml").as_str(), repo.saved("d.yaml").as_str()), ("b2\n", "d1\n"));
    assert_eq!(repo.status(), " M collections/a.yaml\n", "what was flushed before is a person's work");
    repo.check();
}

#[test]
fn commits_by_hand_at_the_same_time_never_revert_ours() {
    const ROUNDS: usize = 8;
    let (repo, mut journal) = served();
    std::thread::scope(|scope| {
        let by_hand = scope.spawn(|| {
            for round in 0..ROUNDS {
                repo.save("a.yaml", &format!("by hand {round}\n"));
                // The commit may lose the race and then fails.
                repo.try_git(&["commit", "-q", "-a", "-m", "By hand"]);
            }
        });
        for round in 0..4 * ROUNDS {
            loop {
                match try_append(&mut journal, &[set("b.yaml", &format!("{round}\n"))]) {
                    Ok(_) => break,
                    Err(StoreError::HeadMoved { .. } | StoreError::Locked { .. }) => std::thread::yield_now(),
                    Err(error) => panic!("{error}"),
                }
            }
            let head = journal.head().unwrap();
            assert_eq!(files_at(&mut journal, head)["b.yaml"], format!("{round}\n"));
        }
        by_hand.join().unwrap();
    });
    repo.try_git(&["commit", "-q", "-a", "-m", "The rest"]);
    assert_eq!(repo.status(), "");
    assert_eq!(repo.saved("b.yaml"), format!("{}\n", 4 * ROUNDS - 1));
    repo.check();
}

#[test]
fn a_save_at_the_same_time_is_never_overwritten() {
    const ROUNDS: usize = 20;
    let (repo, mut journal) = served();
    for round in 0..ROUNDS {
        std::thread::scope(|scope| {
            let text = format!("by hand {round}\n");
            let (repo, written) = (&repo, text.clone());
            let save = scope.spawn(move || {
                let draft = repo.path().join("draft");
                fs::write(&draft, written).unwrap();
                fs::rename(draft, repo.file("a.yaml")).unwrap();
            });
            append(&mut journal, &[set("a.yaml", &format!("by us {round}\n"))]);
            save.join().unwrap();
            assert_eq!(repo.saved("a.yaml"), text);
        });
        append(&mut journal, &[set("a.yaml", &format!("by hand {round}\n"))]);
    }
}

/// Counts the packs with a `.keep` file.
fn marks_len(journal: &GitJournal) -> usize {
    let paths = fs::read_dir(journal.writer.packs.folder()).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|ending| ending == "keep")).count()
}

/// Kills a write between the index and the branch, after `prepare` has changed the repository.
#[track_caller]
fn kill_before_the_branch(prepare: impl FnOnce(&Repo)) -> (tempfile::TempDir, GitJournal) {
    let (repo, mut journal) = served();
    prepare(&repo);
    let folder = tempfile::tempdir().unwrap();
    let killed = folder.path().join("killed");
    let _stop = repo.stop_at(Failpoint::MoveBranch);
    let _copy = repo.meanwhile({
        let (from, to) = (repo.path().to_owned(), killed.clone());
        move || assert!(Command::new("cp").arg("-a").args([&from, &to]).status().unwrap().success())
    });
    assert!(try_append(&mut journal, &[set("a.yaml", "a2\n"), set("d.yaml", "d1\n")]).is_err());
    assert!(killed.join(".git/index.lock").exists(), "the copy was taken in the middle");
    assert_ne!(git_in(&killed, &["diff", "--cached", "--name-only"]), "", "and the index was ahead");
    let mut journal = GitJournal::open(Options::new(&killed)).unwrap();
    journal.catch_up().unwrap();
    assert!(!killed.join(".git/index.lock").exists());
    (folder, journal)
}

#[test]
fn a_kill_between_the_index_and_the_branch_leaves_nothing_visible() {
    let (folder, _journal) = kill_before_the_branch(|_| ());
    assert_eq!(git_in(&folder.path().join("killed"), &["status", "--porcelain"]), "");
}

#[test]
fn a_kill_while_git_collects_takes_back_what_was_under_way_and_nothing_that_a_person_staged() {
    let (folder, journal) = kill_before_the_branch(|repo| {
        fs::write(repo.path().join(".git/gc.pid"), "1 elsewhere").unwrap();
        repo.save("c.yaml", "staged\n");
        repo.git(&["add", "-A"]);
    });
    let killed = folder.path().join("killed");
    assert_eq!(git_in(&killed, &["status", "--porcelain"]), "M  collections/c.yaml\n");
    assert_eq!(marks_len(&journal), 0);
}

#[test]
fn a_kill_between_the_branch_and_the_files_leaves_no_file_behind_whatever_is_staged() {
    let (repo, mut journal) = served();
    let committed = repo.saved("a.yaml");
    repo.save("a.yaml", "staged\n");
    repo.git(&["add", "-A"]);
    repo.save("a.yaml", &committed);
    let folder = tempfile::tempdir().unwrap();
    let killed = folder.path().join("killed");
    let copy = Hook::new(repo.path(), {
        let (from, to) = (repo.path().to_owned(), killed.clone());
        move |step, _| {
            if step == Failpoint::UpdateWorkTree {
                assert!(Command::new("cp").arg("-a").args([&from, &to]).status().unwrap().success());
            }
            Ok(())
        }
    });
    append(&mut journal, &[set("a.yaml", "a2\n")]);
    drop(copy);
    let mut journal = GitJournal::open(Options::new(&killed)).unwrap();
    journal.catch_up().unwrap();
    for place in [repo.path(), &killed] {
        assert_eq!(fs::read_to_string(place.join("collections/a.yaml")).unwrap(), "a2\n");
        assert_eq!(git_in(place, &["status", "--porcelain"]), "MM collections/a.yaml\n", "it stays staged");
    }
}

#[test]
fn a_commit_that_is_about_to_put_its_index_in_place_is_left_to_do_so() {
    let (repo, mut journal) = served();
    let index = repo.path().join(".git/index");
    let lock = index.with_extension("lock");
    let old = fs::read(&index).unwrap();
    repo.commit(&[("a.yaml", "a2\n")]);
    fs::rename(&index, &lock).unwrap();
    fs::write(&index, old).unwrap();
    let hook = repo.meanwhile(move || fs::rename(&lock, &index).unwrap());
    let caught_up = journal.catch_up();
    assert!(matches!(caught_up, Err(StoreError::Locked { .. })), "the next command wants it: {caught_up:?}");
    drop(hook);
    journal.catch_up().unwrap();
    assert_eq!((repo.saved("a.yaml").as_str(), repo.status().as_str()), ("a2\n", ""));
}

#[test]
fn an_index_that_a_racing_commit_wrote_back_is_mended() {
    let (repo, mut journal) = served();
    let index = repo.path().join(".git/index");
    let old = fs::read(&index).unwrap();
    append(&mut journal, &[set("a.yaml", "a2\n"), set("d.yaml", "d1\n"), remove("b.yaml")]);
    fs::write(&index, old).unwrap();
    journal.catch_up().unwrap();
    assert_eq!(repo.status(), "");
}

#[test]
fn after_a_kill_the_start_mends_an_index_that_a_racing_commit_wrote_back() {
    for (seconds_ago, status) in [(1, ""), (60, "D  collections/d.yaml\n?? collections/d.yaml\n")] {
        let (repo, mut journal) = served();
        let index = repo.path().join(".git/index");
        let old = fs::read(&index).unwrap();
        let written = fs::metadata(&index).unwrap().modified().unwrap() - Duration::from_secs(seconds_ago);
        append(&mut journal, &[Draft { at: written.into(), ..set("d.yaml", "d1\n") }]);
        drop(journal);
        fs::write(&index, old).unwrap();
        repo.open().catch_up().unwrap();
        assert_eq!(repo.status(), status, "{seconds_ago} s");
    }
}

#[test]
fn a_damaged_commit_before_the_latest_ones_keeps_no_work_tree_from_being_served() {
    let repo = Repo::new();
    let mut journal = repo.open();
    let mut write = |text| drop(append(&mut journal, &[Draft { at: now(), ..set("a.yaml", text) }]));
    write("a1\n");
    let pack = repo.packs().pop().unwrap();
    ["a2\n", "a3\n"].into_iter().for_each(write);
    drop(journal);
    let mut bytes = fs::read(&pack).unwrap();
    let objects = 12..bytes.len() - 20;
    bytes[objects].fill(0);
    fs::remove_file(&pack).unwrap();
    fs::write(&pack, bytes).unwrap();
    let mut journal = repo.open();
    append(&mut journal, &[set("a.yaml", "a4\n")]);
    assert_eq!((repo.saved("a.yaml").as_str(), repo.status().as_str()), ("a4\n", ""));
}

#[test]
fn a_lagging_file_that_a_person_has_saved_is_not_said_to_be_up_to_date() {
    for (saved, is_ours) in [("a1\n", true), ("by hand\n", false)] {
        let repo = Repo::new();
        let mut journal = repo.open();
        append(&mut journal, &[set("a.yaml", "a1\n")]);
        append(&mut journal, &[set("a.yaml", "a2\n")]);
        repo.save("a.yaml", saved);
        journal.checkout.lagging.put("a.yaml", [Some(BlobId::of(b"a1\n"))]);
        let log = Arc::new(tempfile::tempfile().unwrap());
        let subscriber = tracing_subscriber::fmt().with_writer(Arc::clone(&log)).finish();
        tracing::subscriber::with_default(subscriber, || journal.catch_up().unwrap());
        let (mut log, mut text) = (&*log, String::new());
        log.rewind().unwrap();
        log.read_to_string(&mut text).unwrap();
        assert_eq!(text.contains("the file is up to date again"), is_ours, "{text}");
        assert_eq!(repo.saved("a.yaml"), if is_ours { "a2\n" } else { "by hand\n" });
    }
}

#[test]
fn a_lost_pack_of_an_old_commit_keeps_no_work_tree_from_being_served() {
    for endings in [&["pack"][..], &["idx", "pack"]] {
        let repo = Repo::new();
        let mut journal = repo.open();
        append(&mut journal, &[set("a.yaml", "a1\n")]);
        let pack = repo.packs().pop().unwrap();
        append(&mut journal, &[set("a.yaml", "a2\n")]);
        append(&mut journal, &[set("a.yaml", "a3\n")]);
        drop(journal);
        endings.iter().for_each(|ending| fs::remove_file(pack.with_extension(ending)).unwrap());
        let mut journal = repo.open();
        append(&mut journal, &[set("a.yaml", "a4\n")]);
        assert_eq!((repo.saved("a.yaml").as_str(), repo.status().as_str()), ("a4\n", ""));
    }
}

#[test]
fn an_index_that_is_gone_is_made_anew_and_removes_no_file() {
    let repo = Repo::new();
    let mut journal = repo.open();
    append(&mut journal, &[set("a.yaml", "a1\n"), set("b.yaml", "b1\n")]);
    let index = repo.path().join(".git/index");
    fs::remove_file(&index).unwrap();
    append(&mut journal, &[set("a.yaml", "a2\n")]);
    assert_eq!(repo.status(), "");
    fs::remove_file(&index).unwrap();
    drop(journal);
    let clone = repo.outside().join("clone");
    git_in(repo.outside(), &["clone", "-q", "settings", "clone"]);
    fs::write(clone.join("collections/a.yaml"), "a3\n").unwrap();
    git_in(&clone, &["commit", "-q", "-a", "-m", "Pushed"]);
    repo.git(&["config", "receive.denyCurrentBranch", "ignore"]);
    git_in(&clone, &["push", "-q"]);
    repo.open().catch_up().unwrap();
    assert_eq!((repo.saved("a.yaml").as_str(), repo.status().as_str()), ("a3\n", ""));
}

#[test]
fn an_index_with_a_wrong_checksum_is_not_declared_sound() {
    let repo = Repo::new();
    let mut journal = repo.open();
    append(&mut journal, &[set("a.yaml", "a1\n"), set("b.yaml", "b1\n")]);
    let index = repo.path().join(".git/index");
    let whole = fs::read(&index).unwrap();
    let at = whole.windows(6).position(|part| part == b"b.yaml").unwrap();
    let mut bytes = whole;
    bytes[at] = b'c';
    fs::write(&index, &bytes).unwrap();
    let refused = try_append(&mut journal, &[set("a.yaml", "a2\n")]).unwrap_err();
    assert!(refused.to_string().contains("`git reset` makes it anew"), "{refused}");
    assert_eq!(fs::read(&index).unwrap(), bytes);
    fs::remove_file(&index).unwrap();
    repo.git(&["reset", "-q"]);
    append(&mut journal, &[set("a.yaml", "a2\n")]);
    assert_eq!(repo.status(), "");
}

#[test]
fn a_huge_file_that_nobody_touched_is_no_edit() {
    let repo = Repo::new();
    repo.commit(&[("a.yaml", "a1\n"), ("huge.yaml", &"x".repeat(3 << 20))]);
    let mut journal = repo.open();
    assert_eq!(edits(&mut journal), []);
    repo.save("huge.yaml", &"y".repeat(3 << 20));
    assert_eq!(edits(&mut journal).len(), 1);
}

#[test]
fn a_write_that_a_person_took_back_stays_out_of_the_index() {
    let (repo, mut journal) = served();
    append(&mut journal, &[set("a.yaml", "a2\n")]);
    repo.git(&["reset", "--quiet", "--mixed", "HEAD~1"]);
    journal.catch_up().unwrap();
    assert_eq!(repo.status(), " M collections/a.yaml\n");
}

#[test]
fn a_file_that_was_only_announced_to_git_is_no_staged_deletion_of_ours() {
    for version in ["2", "3", "4"] {
        let (repo, mut journal) = served();
        repo.git(&["update-index", "--index-version", version]);
        repo.save("d.yaml", "d by hand\n");
        repo.save("e.yaml", "e by hand\n");
        repo.git(&["add", "--intent-to-add", "collections"]);
        append(&mut journal, &[set("d.yaml", "d by hand\n"), set("d.yaml", "d2\n")]);
        append(&mut journal, &[set("e.yaml", "e2\n"), remove("e.yaml")]);
        assert_eq!(repo.status(), "?? collections/e.yaml\n");
        repo.git(&["commit", "-q", "--allow-empty", "-m", "Something else"]);
        assert_eq!(repo.git(&["show", "HEAD:collections/d.yaml"]), "d2\n");
        repo.check();
    }
}

/// The last step of `git checkout other`, after it has released the index.
fn turn_head_to(repo: &Repo, branch: &str) {
    repo.git(&["symbolic-ref", "HEAD", &format!("refs/heads/{branch}")]);
}

#[test]
fn a_write_during_a_checkout_of_another_branch_leaves_that_one_alone() {
    let (repo, mut journal) = served();
    repo.git(&["branch", "other"]);
    repo.save("b.yaml", "b by hand\n");
    let hook = repo.meanwhile({
        let (path, mut calls) = (repo.path().to_owned(), 0);
        move || {
            calls += 1;
            if calls == 2 {
                git_in(&path, &["symbolic-ref", "HEAD", "refs/heads/other"]);
            }
        }
    });
    append(&mut journal, &[set("a.yaml", "a2\n"), set("d.yaml", "d1\n"), remove("c.yaml")]);
    assert_eq!(repo.git(&["show", "main:collections/a.yaml"]), "a2\n");
    assert_eq!(repo.status(), " M collections/b.yaml\n");
    repo.git(&["checkout", "-q", "main"]);
    drop(hook);
    journal.catch_up().unwrap();
    assert_eq!((repo.saved("a.yaml").as_str(), repo.status().as_str()), ("a2\n", " M collections/b.yaml\n"));
}

#[test]
fn a_write_right_before_the_head_turns_is_taken_back_out_of_the_work_tree() {
    let (repo, mut journal) = served();
    repo.git(&["branch", "other"]);
    repo.save("b.yaml", "b by hand\n");
    append(&mut journal, &[set("a.yaml", "a2\n"), set("d.yaml", "d1\n"), remove("c.yaml")]);
    turn_head_to(&repo, "other");
    journal.catch_up().unwrap();
    assert_eq!(repo.status(), " M collections/b.yaml\n");
    assert_eq!((repo.saved("a.yaml").as_str(), repo.saved("c.yaml").as_str()), ("a1\n", "c1\n"));
    assert!(!repo.file("d.yaml").exists());
    repo.check();
}

#[test]
fn what_a_person_takes_over_to_another_branch_stays_there() {
    let (repo, mut journal) = served();
    repo.git(&["branch", "other"]);
    append(&mut journal, &[set("a.yaml", "a2\n"), set("d.yaml", "d1\n")]);
    repo.git(&["checkout", "-q", "other"]);
    journal.catch_up().unwrap();
    assert_eq!(repo.status(), "");
    repo.git(&["cherry-pick", "--no-commit", "main"]);
    journal.catch_up().unwrap();
    assert_eq!(repo.status(), "A  collections/d.yaml\n");
    repo.git(&["reset", "-q", "--hard"]);
    repo.git(&["checkout", "-q", "main"]);
    append(&mut journal, &[set("a.yaml", "a3\n")]);
    repo.save("a.yaml", "a by hand\n");
    turn_head_to(&repo, "other");
    journal.catch_up().unwrap();
    assert_eq!(repo.saved("a.yaml"), "a by hand\n");
}

#[test]
fn what_a_checkout_has_written_before_it_moves_the_head_is_no_edit() {
    let (repo, mut journal) = served();
    journal.checkout.scan.checkout_time_max = Duration::from_secs(3_600);
    let head = journal.head().unwrap();
    repo.git(&["checkout", "-q", "-b", "other"]);
    let other = repo.commit(&[("a.yaml", "a of the other\n"), ("d.yaml", "d of the other\n")]);
    for turn in [&["symbolic-ref", "HEAD", "refs/heads/other"][..], &["update-ref", "HEAD", "other"]] {
        repo.git(&["checkout", "-q", "main"]);
        // The first step of a checkout, a reset or a merge ...
        repo.git(&["read-tree", "-m", "-u", "other"]);
        let seen = std::thread::scope(|scope| {
            let look = scope.spawn(|| journal.work_tree(head, Paths::All, GitLocks::Respect).unwrap());
            // ... and the last one.
            repo.git(turn);
            look.join().unwrap()
        });
        assert!(matches!(seen, WorkTree::Unavailable(_) | WorkTree::Busy), "{seen:?}");
    }
    assert_eq!(journal.head().unwrap(), Some(other));
}

#[test]
fn what_is_staged_is_an_edit_once_the_index_is_left_alone() {
    let (repo, mut journal) = served();
    repo.save("a.yaml", "a by hand\n");
    repo.git(&["add", "-A"]);
    assert_eq!(edits(&mut journal), [edit("a.yaml", "a by hand\n")]);
}

#[test]
fn what_git_was_told_to_leave_out_is_not_deleted() {
    let (repo, mut journal) = served();
    repo.git(&["update-index", "--skip-worktree", "collections/a.yaml"]);
    fs::remove_file(repo.path().join("collections/a.yaml")).unwrap();
    fs::remove_file(repo.path().join("collections/b.yaml")).unwrap();
    assert_eq!(edits(&mut journal), [edit("b.yaml", "gone")]);
}

#[cfg(unix)]
#[test]
fn a_changed_mode_is_a_person_s_and_stays() {
    use std::os::unix::fs::PermissionsExt as _;
    let (repo, mut journal) = served();
    let path = repo.path().join("collections/a.yaml");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    append(&mut journal, &[set("a.yaml", "a2\n")]);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o755);
    assert_eq!(repo.status(), " M collections/a.yaml\n");
}

#[test]
fn where_no_file_can_have_a_second_name_writes_work_all_the_same() {
    let (repo, mut journal) = served();
    let links = repo.on_step(|step, _| match step {
        Failpoint::Link => Err(rustix::io::Errno::PERM.into()),
        _ => Ok(()),
    });
    append(&mut journal, &[set("a.yaml", "a2\n"), remove("b.yaml"), set("d.yaml", "d1\n")]);
    assert_eq!(repo.status(), "");
    let stop = repo.stop_at(Failpoint::MoveBranch);
    assert!(try_append(&mut journal, &[set("a.yaml", "a3\n")]).is_err());
    assert_eq!((repo.saved("a.yaml").as_str(), repo.status().as_str()), ("a2\n", ""));
    drop(stop);
    append(&mut journal, &[set("a.yaml", "a4\n")]);
    drop(journal);
    append(&mut repo.open(), &[set("a.yaml", "a5\n")]);
    drop(links);
    assert_eq!(repo.status(), "");
    repo.check();
}
