//! Files of the work tree that can't be updated to the branch.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;

use rustix::io::Errno;

use crate::store::git::disk::failpoint::Failpoint;
use crate::store::git::tests::support::*;
use crate::store::git::{Access, GitJournal, Options};
use crate::store::{Draft, GitLocks, Journal as _, Paths};

/// A repository with the first version of `a.yaml`, and the path of an obstacle to changing it.
fn stuck() -> (Repo, GitJournal, PathBuf) {
    let repo = Repo::new();
    let state = repo.path().join(".git/collectory");
    let mut journal = repo.open();
    append(&mut journal, &[set("a.yaml", "a1\n")]);
    let obstacle = state.join("file-a.yaml");
    fs::create_dir(&obstacle).unwrap();
    (repo, journal, obstacle)
}

#[test]
fn a_file_that_can_not_be_changed_is_no_persons_edit_and_follows_when_it_can() {
    let (repo, mut journal, obstacle) = stuck();
    append(&mut journal, &[set("a.yaml", "a2\n")]);
    append(&mut journal, &[set("b.yaml", "b\n"), set("a.yaml", "a3\n")]);
    assert_eq!(repo.saved("a.yaml"), "a1\n");
    journal.catch_up().unwrap();
    assert_eq!(edits(&mut journal), []);
    drop(journal);
    fs::remove_dir(obstacle).unwrap();
    let mut journal = repo.open();
    assert_eq!(repo.saved("a.yaml"), "a1\n");
    assert_eq!(edits(&mut journal), []);
    journal.catch_up().unwrap();
    assert_eq!(repo.saved("a.yaml"), "a3\n");
    assert_eq!(edits(&mut journal), []);
    assert_eq!(repo.status(), "");
}

#[test]
fn a_file_that_can_not_be_removed_is_no_persons_either() {
    let (repo, mut journal, obstacle) = stuck();
    append(&mut journal, &[remove("a.yaml")]);
    assert_eq!(edits(&mut journal), []);
    fs::remove_dir(obstacle).unwrap();
    // The next write tries again before anything else.
    append(&mut journal, &[set("b.yaml", "b\n")]);
    assert!(!repo.file("a.yaml").exists());
    assert_eq!(repo.status(), "");
}

#[test]
fn what_a_person_makes_of_a_file_that_is_behind_is_theirs() {
    let (repo, mut journal, obstacle) = stuck();
    append(&mut journal, &[set("a.yaml", "a2\n"), set("b.yaml", "b\n")]);
    repo.save("a.yaml", "by hand\n");
    assert_eq!(edits(&mut journal), [edit("a.yaml", "by hand\n")]);
    fs::remove_dir(obstacle).unwrap();
    journal.catch_up().unwrap();
    assert_eq!(repo.saved("a.yaml"), "by hand\n");
    assert_eq!(edits(&mut journal), [edit("a.yaml", "by hand\n")]);
}

#[test]
fn a_file_that_is_behind_and_deleted_by_a_person_stays_deleted() {
    let (repo, mut journal, obstacle) = stuck();
    append(&mut journal, &[set("a.yaml", "a2\n")]);
    fs::remove_file(repo.file("a.yaml")).unwrap();
    fs::remove_dir(obstacle).unwrap();
    journal.catch_up().unwrap();
    assert_eq!(edits(&mut journal), [edit("a.yaml", "gone")]);
}

/// Makes opening a draft fail after it has been exchanged with a file.
fn of_a_draft(name: &OsStr) -> Option<Errno> {
    name.to_string_lossy().starts_with("file-").then_some(Errno::IO)
}

#[test]
fn a_file_that_can_not_be_read_after_it_was_replaced_is_no_persons_edit() {
    let repo = Repo::new();
    let mut journal = repo.open();
    append(&mut journal, &[set("a.yaml", "a1\n"), set("gone.yaml", "gone\n")]);
    let fault = repo.fail_to_open(of_a_draft);
    append(&mut journal, &[set("a.yaml", "a2\n"), remove("gone.yaml")]);
    assert_eq!(edits(&mut journal), []);
    drop(fault);
    append(&mut journal, &[set("b.yaml", "b\n")]);
    assert_eq!(repo.saved("a.yaml"), "a2\n");
    assert!(!repo.file("gone.yaml").exists());
    assert_eq!(edits(&mut journal), []);
    assert_eq!(repo.status(), "");
}

#[test]
fn a_file_that_can_not_be_read_once_after_it_was_replaced_is_no_persons_edit() {
    for errno in [Errno::IO, Errno::MFILE, Errno::STALE] {
        let repo = Repo::new();
        let mut journal = repo.open();
        append(&mut journal, &[set("a.yaml", "a1\n"), set("gone.yaml", "gone\n")]);
        let mut failed = BTreeSet::new();
        let fault = repo.on_step(move |step, _| match step {
            Failpoint::Open(name) if of_a_draft(name).is_some() && failed.insert(name.to_owned()) => {
                Err(errno.into())
            }
            _ => Ok(()),
        });
        append(&mut journal, &[set("a.yaml", "a2\n"), remove("gone.yaml")]);
        assert_eq!(edits(&mut journal), [], "{errno}");
        drop(fault);
        append(&mut journal, &[set("b.yaml", "b\n")]);
        assert_eq!(repo.saved("a.yaml"), "a2\n");
        assert!(!repo.file("gone.yaml").exists());
        assert_eq!(repo.status(), "");
    }
}

#[test]
fn a_file_that_the_disk_has_lost_harms_only_itself() {
    let repo = Repo::new();
    let mut journal = repo.open();
    append(&mut journal, &[set("a.yaml", "a\n"), set("b.yaml", "b\n")]);
    repo.save("a.yaml", "by hand\n");
    repo.save("b.yaml", "by hand\n");
    let lost = repo.fail_to_open(|name| (name == "a.yaml").then_some(Errno::IO));
    let seen = edits(&mut journal);
    drop(lost);
    let _short = repo.fail_to_open(|name| (name == "a.yaml").then_some(Errno::MFILE));
    let head = journal.head().unwrap();
    let shortage = journal.work_tree(head, Paths::All, GitLocks::Respect);
    assert_eq!(seen, [edit("a.yaml", "a file that can't be read now"), edit("b.yaml", "by hand\n")]);
    assert!(shortage.is_err(), "{shortage:?}");
}

/// Returns the files that are behind in a repository that is not served.
fn behind(repo: &std::path::Path) -> Vec<String> {
    let options = Options { access: Access::Read, ..Options::new(repo) };
    GitJournal::open(options).unwrap().outdated_paths().unwrap().into_iter().collect()
}

/// Appends, and returns a copy of the repository as a kill between the branch and the files would leave it.
fn kill_before_files(repo: &Repo, journal: &mut GitJournal, drafts: &[Draft]) -> PathBuf {
    let (from, killed) = (repo.path().to_owned(), repo.path().with_file_name("killed"));
    let to = killed.clone();
    let _hook = repo.on_step(move |step, _| {
        if step == Failpoint::UpdateWorkTree {
            // Hard links must be preserved, because our locks are recognised by them.
            let copied = std::process::Command::new("cp").arg("-a").args([&from, &to]).status()?;
            assert!(copied.success());
        }
        Ok(())
    });
    append(journal, drafts);
    killed
}

#[test]
fn what_a_kill_has_left_behind_is_told_and_edits_are_not() {
    let repo = Repo::new();
    let mut journal = repo.open();
    append(&mut journal, &[set("a.yaml", "a1\n"), set("b.yaml", "b1\n"), set("c.yaml", "c1\n")]);
    let second = [set("a.yaml", "a2\n"), remove("b.yaml"), set("c.yaml", "c2\n")];
    let killed = kill_before_files(&repo, &mut journal, &second);
    drop(journal);
    fs::write(killed.join("collections/c.yaml"), "c by hand\n").unwrap();
    assert_eq!(behind(&killed), ["collections/a.yaml", "collections/b.yaml"]);
    GitJournal::open(Options::new(&killed)).unwrap().catch_up().unwrap();
    assert_eq!(behind(&killed), [""; 0]);
    assert_eq!(git_in(&killed, &["status", "--porcelain"]), " M collections/c.yaml\n");
    assert_eq!(behind(repo.path()), [""; 0]);
}

#[test]
fn what_tells_of_a_kill_and_can_not_be_read_for_one_start_is_not_forgotten() {
    let repo = Repo::new();
    let mut journal = repo.open();
    append(&mut journal, &[set("a.yaml", "a1\n")]);
    let killed = kill_before_files(&repo, &mut journal, &[set("a.yaml", "a2\n")]);
    let git_dir = killed.join(".git");
    let packs = git_dir.join("objects/pack");
    let mut files = fs::read_dir(&packs).unwrap().map(|entry| entry.unwrap().path());
    let mark = files.find(|path| path.extension().is_some_and(|ending| ending == "keep")).unwrap();
    // A file can't be listed, and a folder can't be read.
    let [away, file, folder] = ["away", "file", "folder"].map(|name| git_dir.join(name));
    fs::write(&file, "").unwrap();
    fs::create_dir(&folder).unwrap();
    for (told, instead) in [(mark, &folder), (packs, &file), (git_dir.join("collectory/work-tree"), &folder)]
    {
        fs::rename(&told, &away).unwrap();
        fs::rename(instead, &told).unwrap();
        let opened = GitJournal::open(Options::new(&killed)).map(|_| ());
        assert!(opened.is_err(), "{told:?}");
        fs::rename(&told, instead).unwrap();
        fs::rename(&away, &told).unwrap();
    }
    GitJournal::open(Options::new(&killed)).unwrap().catch_up().unwrap();
    assert_eq!(fs::read_to_string(killed.join("collections/a.yaml")).unwrap(), "a2\n");
    assert_eq!(git_in(&killed, &["status", "--porcelain"]), "");
}

#[test]
fn what_could_be_neither_updated_nor_noted_is_no_edit_after_a_kill() {
    let repo = Repo::new();
    let mut journal = repo.open();
    append(&mut journal, &[set("a.yaml", "a1\n")]);
    let mut is_moved = false;
    let fault = repo.on_step(move |step, _| {
        is_moved |= step == Failpoint::UpdateWorkTree;
        match step {
            Failpoint::Open(name) if is_moved && name == "a.yaml" => Err(Errno::IO.into()),
            Failpoint::Flush if is_moved => Err(Errno::NOSPC.into()),
            _ => Ok(()),
        }
    });
    append(&mut journal, &[set("a.yaml", "a2\n")]);
    assert_eq!(repo.saved("a.yaml"), "a1\n");
    drop(journal);
    // A start that can't make it good either, and is killed.
    let mut journal = repo.open();
    assert!(journal.catch_up().is_err());
    drop(journal);
    drop(fault);
    let mut journal = repo.open();
    journal.catch_up().unwrap();
    assert_eq!((repo.saved("a.yaml").as_str(), repo.status().as_str()), ("a2\n", ""));
    append(&mut journal, &[set("b.yaml", "b1\n")]);
    drop(journal);
    drop(repo.open());
    let keep = |name: &PathBuf| name.extension().is_some_and(|ending| ending == "keep");
    let files = fs::read_dir(repo.pack_folder()).unwrap().map(|entry| entry.unwrap().path());
    assert_eq!(files.filter(keep).count(), 0, "the next start removes the mark");
}

#[test]
fn what_a_kill_leaves_of_following_a_rewritten_remote_is_no_edit() {
    let repo = Repo::new();
    let base = repo.commit(&[("a.yaml", "a1\n"), ("b.yaml", "b1\n")]);
    let from = repo.commit(&[("a.yaml", "a2\n")]);
    repo.git(&["checkout", "-q", "--detach", &base.to_string()]);
    let to = repo.commit(&[("a.yaml", "a3\n")]);
    repo.git(&["checkout", "-q", "main"]);
    let mut journal = repo.open();
    journal.catch_up().unwrap();
    let (path, killed) = (repo.path().to_owned(), repo.path().with_file_name("killed"));
    let copy = killed.clone();
    let kill = repo.on_flush(move |flushed| {
        if flushed.ends_with("refs/heads") && !copy.exists() {
            assert!(std::process::Command::new("cp").arg("-a").args([&path, &copy]).status()?.success());
        }
        Ok(())
    });
    // Git is at work in the index.
    let lock = repo.path().join(".git/index.lock");
    fs::write(&lock, "").unwrap();
    journal.advance(Some(from), to, "followed", chrono::DateTime::UNIX_EPOCH).unwrap();
    drop(kill);
    fs::remove_file(lock).unwrap();
    journal.catch_up().unwrap();
    assert_eq!((repo.saved("a.yaml").as_str(), repo.status().as_str()), ("a3\n", ""));
    fs::remove_file(killed.join(".git/index.lock")).unwrap();
    GitJournal::open(Options::new(&killed)).unwrap().catch_up().unwrap();
    assert_eq!(git_in(&killed, &["rev-parse", "main"]).trim(), to.to_string());
    assert_eq!(git_in(&killed, &["status", "--porcelain"]), "");
}

#[test]
fn a_write_during_which_nobody_can_tell_what_is_checked_out_is_no_edit_later() {
    let repo = Repo::new();
    let mut journal = repo.open();
    append(&mut journal, &[set("a.yaml", "a1\n")]);
    let [head, away, draft] =
        ["HEAD", "away", "collectory/index-next"].map(|name| repo.path().join(".git").join(name));
    let [there, aside, obstacle] = [head.clone(), away.clone(), draft.clone()];
    let fault = repo.on_step(move |step, _| {
        if step == Failpoint::UpdateWorkTree {
            // A folder can't be read, and the index can't be put back.
            fs::rename(&there, &aside)?;
            fs::create_dir(&there)?;
            fs::create_dir(&obstacle)?;
        }
        Ok(())
    });
    append(&mut journal, &[set("a.yaml", "a2\n")]);
    drop(fault);
    fs::remove_dir(&draft).unwrap();
    fs::remove_dir(&head).unwrap();
    fs::rename(&away, &head).unwrap();
    append(&mut journal, &[set("b.yaml", "b1\n")]);
    assert_eq!((repo.saved("a.yaml").as_str(), repo.status().as_str()), ("a2\n", ""));
}

#[test]
fn a_failed_write_whose_index_could_not_be_put_back_is_not_left_staged() {
    let repo = Repo::new();
    let mut journal = repo.open();
    append(&mut journal, &[set("a.yaml", "a1\n")]);
    let draft = repo.path().join(".git/collectory/index-next");
    let obstacle = draft.clone();
    let fault = repo.on_step(move |step, _| match step {
        Failpoint::MoveBranch => fs::create_dir(&obstacle).and(Err(Errno::MFILE.into())),
        _ => Ok(()),
    });
    assert!(try_append(&mut journal, &[set("a.yaml", "a2\n")]).is_err());
    drop(fault);
    fs::remove_dir(&draft).unwrap();
    append(&mut journal, &[set("b.yaml", "b1\n")]);
    assert_eq!((repo.saved("a.yaml").as_str(), repo.status().as_str()), ("a1\n", ""));
}

#[test]
fn a_pack_that_is_away_for_one_start_makes_no_edit_of_what_a_kill_has_left_behind() {
    // The index of the pack stays or goes with it, or a folder is in the pack's place, which opens and can't be read.
    for (endings, has_folder) in [(&["pack", "idx"][..], false), (&["pack"], false), (&["pack"], true)] {
        let repo = Repo::new();
        let mut journal = repo.open();
        append(&mut journal, &[set("a.yaml", "a1\n")]);
        append(&mut journal, &[set("a.yaml", "a2\n")]);
        repo.git(&["gc", "-q"]);
        let old = repo.packs().pop().unwrap();
        let killed = kill_before_files(&repo, &mut journal, &[set("a.yaml", "a3\n")]);
        let pack = killed.join(old.strip_prefix(repo.path()).unwrap());
        let away = repo.outside().join("away");
        let places = endings.iter().map(|ending| (pack.with_extension(ending), away.with_extension(ending)));
        let places: Vec<_> = places.collect();
        places.iter().for_each(|(there, away)| fs::rename(there, away).unwrap());
        let folder = has_folder.then(|| fs::create_dir(&pack).unwrap());
        let opened = GitJournal::open(Options::new(&killed));
        let caught_up = opened.and_then(|mut journal| {
            let caught_up = journal.catch_up();
            let head = journal.head()?;
            let other = journal.append(head, &[set("b.yaml", "b\n")]);
            assert!(other.is_err(), "nothing is committed while nobody knows what is an edit");
            caught_up
        });
        assert!(caught_up.is_err(), "{endings:?} {has_folder}");
        folder.into_iter().for_each(|()| fs::remove_dir(&pack).unwrap());
        places.iter().for_each(|(there, away)| fs::rename(away, there).unwrap());
        let mut journal = GitJournal::open(Options::new(&killed)).unwrap();
        journal.catch_up().unwrap();
        assert_eq!(fs::read_to_string(killed.join("collections/a.yaml")).unwrap(), "a3\n");
        assert_eq!(git_in(&killed, &["status", "--porcelain"]), "", "{endings:?} {has_folder}");
    }
}

#[test]
fn what_a_person_does_with_git_while_nobody_serves_leaves_nothing_behind() {
    let repo = Repo::new();
    append(&mut repo.open(), &[set("a.yaml", "a1\n"), set("b.yaml", "b1\n"), set("c.yaml", "c1\n")]);
    let commands: [&[&str]; 6] = [
        &["commit", "-q", "-a", "-m", "By hand"],
        &["commit", "-q", "--amend", "-m", "Otherwise"],
        &["reset", "-q", "--soft", "HEAD~1"],
        &["reset", "-q", "--hard"],
        &["checkout", "-q", "-b", "other"],
        &["checkout", "-q", "main"],
    ];
    repo.save("a.yaml", "a2\n");
    for command in commands {
        repo.git(command);
        assert_eq!(behind(repo.path()), [""; 0], "{command:?}");
    }
    // As after a push to the branch.
    repo.commit(&[("a.yaml", "a3\n"), ("c.yaml", "c3\n")]);
    let tip = repo.head();
    repo.git(&["reset", "-q", "--hard", "HEAD~1"]);
    repo.git(&["update-ref", "refs/heads/main", &tip.to_string()]);
    repo.save("c.yaml", "c3\n");
    repo.git(&["add", "collections/c.yaml"]);
    assert_eq!(behind(repo.path()), ["collections/a.yaml"]);
}

#[test]
fn a_file_that_could_not_be_changed_is_told_until_a_person_edits_it() {
    let (repo, mut journal, _obstacle) = stuck();
    append(&mut journal, &[set("a.yaml", "a2\n")]);
    drop(journal);
    assert_eq!(behind(repo.path()), ["collections/a.yaml"]);
    repo.save("a.yaml", "by hand\n");
    assert_eq!(behind(repo.path()), [""; 0]);
}
