//! Drafts of work tree files, and what a person does in the meantime.

use std::fs::{self, File, FileTimes};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::store::BlobId;
use crate::store::git::disk::failpoint::{Failpoint, Hook};
use crate::store::git::object::tree::FILE;
use crate::store::git::repo::layout::Layout;
use crate::store::git::tests::support::*;
use crate::store::git::worktree::replace::staging::NewFile;
use crate::store::git::worktree::replace::swap::Replacer;
use crate::store::git::worktree::scan::folder::{Folder, FoundFolder};

/// Returns the repository's layout and its collections folder, with a folder for drafts.
fn place_and_folder(repo: &Repo) -> (Layout, Folder) {
    let layout = Layout::find(repo.path(), "collections").unwrap();
    fs::create_dir_all(layout.work_tree_state()).unwrap();
    let FoundFolder::Folder(folder) = Folder::collections(&layout, false).unwrap() else {
        panic!("it is there")
    };
    (layout, folder)
}

/// Returns the drafts in our own folder.
fn drafts(repo: &Repo) -> Vec<PathBuf> {
    let files = fs::read_dir(repo.path().join(".git/collectory")).unwrap().map(|file| file.unwrap().path());
    let is_draft = |file: &PathBuf| {
        let name = file.file_name().unwrap().to_string_lossy();
        ["file-", "kept-"].iter().any(|prefix| name.starts_with(prefix))
    };
    files.filter(is_draft).collect()
}

#[test]
fn what_a_person_saved_right_before_a_kill_is_kept() {
    let repo = Repo::new();
    append(&mut repo.open(), &[set("a.yaml", "a1\n")]);
    let state = repo.path().join(".git/collectory");
    let draft = state.join("file-a.yaml");
    for content in ["by hand\n", "a1\n", "by hand, too\n"] {
        fs::write(&draft, content).unwrap();
        drop(repo.open());
        assert!(!draft.exists());
    }
    let kept =
        ["kept-file-a.yaml", "kept-file-a.yaml-1"].map(|name| fs::read_to_string(state.join(name)).unwrap());
    assert_eq!(kept, ["by hand\n", "by hand, too\n"]);
    assert_eq!(repo.saved("a.yaml"), "a1\n");
}

#[test]
fn a_link_that_a_person_made_right_before_a_kill_is_kept() {
    let repo = Repo::new();
    append(&mut repo.open(), &[set("a.yaml", "a1\n")]);
    let state = repo.path().join(".git/collectory");
    for target in ["by hand", "a1\n"] {
        symlink(target, state.join("file-a.yaml")).unwrap();
        drop(repo.open());
    }
    assert_eq!(fs::read_link(state.join("kept-file-a.yaml")).unwrap(), Path::new("by hand"));
    assert_eq!(drafts(&repo).len(), 1, "git has the other one");
}

#[test]
fn files_of_others_stay_whatever_they_are_called() {
    let repo = Repo::new();
    let name = ".collectory-a.yaml";
    repo.commit(&[("a.yaml", "a1\n"), (name, "a1\n")]);
    repo.save(".collectory-empty", "");
    drop(repo.open());
    assert_eq!((repo.saved(name), repo.saved(".collectory-empty")), ("a1\n".to_owned(), String::new()));
}

#[cfg(target_os = "linux")]
#[test]
fn drafts_beside_the_files_are_known_by_the_mark_of_their_repository() {
    // Usually on another file system than temporary folders.
    let Ok(elsewhere) = tempfile::tempdir_in("/dev/shm") else { return };
    let repo = Repo::new();
    append(&mut repo.open(), &[set("a.yaml", "a1\n")]);
    let moved = elsewhere.path().join("git");
    let copied =
        std::process::Command::new("cp").arg("-a").arg(repo.path().join(".git")).arg(&moved).status();
    assert!(copied.unwrap().success());
    fs::remove_dir_all(repo.path().join(".git")).unwrap();
    fs::write(repo.path().join(".git"), format!("gitdir: {}\n", moved.display())).unwrap();
    let stat = |path: &std::path::Path| rustix::fs::stat(path).unwrap();
    let (own, folder) = (stat(&moved.join("collectory")), stat(&repo.path().join("collections")));
    if own.st_dev == folder.st_dev {
        return;
    }
    let mark = format!(".collectory-{:x}-{:x}-", own.st_dev, own.st_ino);
    let [left, theirs] = [format!("{mark}a.yaml"), ".collectory-1-1-a.yaml".to_owned()];
    repo.save(&left, "a1\n");
    repo.save(&theirs, "a1\n");
    let mut journal = repo.open();
    append(&mut journal, &[set("a.yaml", "a2\n")]);
    assert_eq!(repo.saved("a.yaml"), "a2\n");
    assert_eq!((repo.file(&left).exists(), repo.file(&theirs).exists()), (false, true));
}

#[test]
fn an_edit_that_is_saved_between_the_look_and_the_change_is_not_lost() {
    for edit in ["by hand\n", &"x".repeat(2 << 20)] {
        let repo = Repo::new();
        repo.commit(&[("a.yaml", "a1\n")]);
        let (layout, folder) = place_and_folder(&repo);
        let [old, oid] = [b"a1\n", b"a2\n"].map(|bytes| BlobId::of(bytes));
        let replacer = Replacer::new(&layout, &folder).unwrap();
        replacer
            .staging
            .write("a.yaml", NewFile { oid, mode: FILE, mode_before: None, bytes: b"a2\n" }, None)
            .unwrap();
        repo.save("a.yaml", edit);
        assert!(!replacer.exchange("a.yaml", old, oid).unwrap());
        assert!(repo.saved("a.yaml") == edit);
        assert!(!replacer.take_away("a.yaml", old).unwrap());
        assert!(repo.saved("a.yaml") == edit);
        assert_eq!(fs::read_dir(layout.work_tree_state()).unwrap().count(), 0, "no draft is left");
    }
}

#[test]
fn of_saves_while_a_file_is_replaced_and_put_back_the_last_one_stands() {
    for saves in 1..=4 {
        let repo = Repo::new();
        repo.commit(&[("a.yaml", "a1\n")]);
        let (layout, folder) = place_and_folder(&repo);
        let [old, oid] = [b"a1\n", b"a2\n"].map(|bytes| BlobId::of(bytes));
        let replacer = Replacer::new(&layout, &folder).unwrap();
        replacer
            .staging
            .write("a.yaml", NewFile { oid, mode: FILE, mode_before: None, bytes: b"a2\n" }, None)
            .unwrap();
        repo.save("a.yaml", "by hand 1\n");
        // Each check of the file that was swapped out happens after another save.
        let (path, beside, mut saved) = (repo.file("a.yaml"), repo.path().join("beside"), 1);
        let hook = Hook::new(repo.path(), move |step, _| {
            if matches!(step, Failpoint::Open(name) if name == "file-a.yaml") && saved < saves {
                saved += 1;
                fs::write(&beside, format!("by hand {saved}\n"))?;
                fs::rename(&beside, &path)?;
            }
            Ok(())
        });
        assert!(!replacer.exchange("a.yaml", old, oid).unwrap());
        drop(hook);
        assert_eq!(repo.saved("a.yaml"), format!("by hand {saves}\n"));
        assert_eq!(fs::read_dir(layout.work_tree_state()).unwrap().count(), 0, "no draft is left");
    }
}

#[test]
fn a_save_during_a_deletion_is_kept_if_its_name_is_taken_again() {
    let repo = Repo::new();
    repo.commit(&[("a.yaml", "a1\n")]);
    let (layout, folder) = place_and_folder(&repo);
    let replacer = Replacer::new(&layout, &folder).unwrap();
    repo.save("a.yaml", "by hand\n");
    let path = repo.file("a.yaml");
    let hook = Hook::new(repo.path(), move |step, _| match step {
        Failpoint::Open(name) if name == "file-a.yaml" => fs::write(&path, "by another program\n"),
        _ => Ok(()),
    });
    assert!(!replacer.take_away("a.yaml", BlobId::of(b"a1\n")).unwrap());
    drop(hook);
    assert_eq!(repo.saved("a.yaml"), "by another program\n");
    let kept = layout.work_tree_state().join("kept-file-a.yaml");
    assert_eq!(fs::read_to_string(kept).unwrap(), "by hand\n");
}

#[test]
fn a_write_that_fails_and_one_that_leaves_an_edit_alone_leave_no_draft() {
    let repo = Repo::new();
    let mut journal = repo.open();
    append(&mut journal, &[set("a.yaml", "a1\n")]);
    let stop = repo.stop_at(Failpoint::MoveBranch);
    try_append(&mut journal, &[set("a.yaml", "a2\n"), set("b.yaml", "b1\n")]).unwrap_err();
    assert_eq!(drafts(&repo), Vec::<PathBuf>::new());
    drop(stop);
    repo.save("a.yaml", "by hand\n");
    append(&mut journal, &[set("a.yaml", "a2\n")]);
    assert_eq!(repo.saved("a.yaml"), "by hand\n");
    assert_eq!(drafts(&repo), Vec::<PathBuf>::new());
}

#[test]
fn an_edit_is_seen_however_soon_after_a_write_it_was_made() {
    let repo = Repo::new();
    let mut journal = repo.open();
    append(&mut journal, &[set("a.yaml", "a00\n")]);
    assert_eq!(edits(&mut journal), []);
    let path = repo.file("a.yaml");
    // Often enough for both saves to fall within one tick of the clock, even of a coarse one.
    for round in 1..=20 {
        let (ours, theirs) = (format!("a{round:02}\n"), format!("b{round:02}\n"));
        append(&mut journal, &[set("a.yaml", &ours)]);
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        fs::write(&path, &theirs).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        file.set_times(FileTimes::new().set_modified(modified)).unwrap();
        drop(file);
        assert_eq!(edits(&mut journal), [edit("a.yaml", &theirs)]);
        fs::write(&path, &ours).unwrap();
        assert_eq!(edits(&mut journal), []);
    }
}
