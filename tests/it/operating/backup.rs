//! The backup in one file: complete, sound, and made while the service runs.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::json;
use tokio::task::JoinSet;

use crate::support::{ProgramOutput, Repo, TestServer, collectory_command, document, eventually, run_to_end};

fn backup(repository: &Path, file: &Path) -> ProgramOutput {
    let folder = file.parent().unwrap();
    run_to_end(collectory_command(folder).arg("backup").arg(file).arg("--repo").arg(repository))
}

/// Restores a backup and checks it.
fn restored(file: &Path, name: &str) -> Repo {
    let folder = file.parent().unwrap();
    let here = Repo::at(folder);
    here.git(&["clone", "--quiet", "--mirror", &file.to_string_lossy(), name]);
    let repo = Repo::at(folder.join(name));
    repo.fsck();
    repo
}

#[test]
fn a_copy_holds_the_branch_and_what_is_kept_and_replaces_an_older_one_in_one_step() {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repo::seeded(folder.path().join("settings"), "small");
    let lost = repo.head();
    let kept = format!("refs/collectory/kept/20260301T093000Z-{}", &lost[..8]);
    repo.git(&["update-ref", &kept, &lost]);
    repo.git(&["checkout", "--quiet", "--orphan", "other"]);
    repo.git(&["commit", "--quiet", "--message=Anew"]);
    repo.git(&["branch", "--force", "main", "other"]);
    repo.git(&["checkout", "--quiet", "main"]);
    let file = folder.path().join("settings.bundle");
    fs::write(&file, "an older one").unwrap();
    backup(repo.path(), &file).assert_exit_code(0);
    repo.git(&["bundle", "verify", "--quiet", &file.to_string_lossy()]);
    let copy = restored(&file, "copy.git");
    assert_eq!(copy.git(&["rev-parse", "HEAD"]), repo.head());
    assert_eq!(copy.git(&["rev-parse", &kept]), lost);
    assert_eq!(copy.tip("other"), None, "other branches are nobody's settings");
    let names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 3, "nothing else is left: {names:?}");
}

#[test]
fn only_an_ordinary_file_is_replaced_and_who_may_read_it_stays() {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repo::seeded(folder.path().join("settings"), "small");
    // In place of `/dev/null`, which a fault in this would replace.
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let refused = backup(repo.path(), &pipe).assert_exit_code(1);
    assert!(refused.stderr.contains("pipe is no ordinary file"), "{}", refused.stderr);
    assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
    let [file, link] = ["private.bundle", "latest.bundle"].map(|name| folder.path().join(name));
    fs::write(&file, "an older one").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    symlink("private.bundle", &link).unwrap();
    backup(repo.path(), &link).assert_exit_code(0);
    assert_eq!(fs::read_link(&link).unwrap(), Path::new("private.bundle"));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    restored(&file, "copy.git");
}

#[test]
fn what_a_killed_backup_has_left_goes_with_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repo::seeded(folder.path().join("settings"), "small");
    let [left, held] = ["left", "held"].map(|name| folder.path().join(format!(".collectory-backup-{name}")));
    for scratch in [&left, &held] {
        fs::create_dir(scratch).unwrap();
        fs::write(scratch.join("bundle"), "half").unwrap();
    }
    let lock = fs::File::open(&held).unwrap();
    lock.try_lock().unwrap();
    backup(repo.path(), &folder.path().join("settings.bundle")).assert_exit_code(0);
    assert!(!left.exists());
    assert!(held.exists(), "another backup is at work there");
}

#[tokio::test]
async fn a_copy_beside_a_service_is_of_the_branch_that_it_serves_whatever_is_checked_out() {
    let server = TestServer::start("small").await;
    server.repo().git(&["checkout", "--quiet", "-b", "side"]);
    server.create(&document("new", json!({"name": "New"}))).await.is(201);
    let file = server.folder().join("settings.bundle");
    backup(server.repo().path(), &file).assert_exit_code(0);
    let copy = restored(&file, "copy.git");
    assert_eq!(copy.tip("main"), server.repo().tip("main"));
    assert_eq!(copy.tip("side"), None);
}

#[test]
fn a_damaged_repository_leaves_the_older_copy_alone() {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repo::seeded(folder.path().join("settings"), "small");
    let file = folder.path().join("settings.bundle");
    backup(repo.path(), &file).assert_exit_code(0);
    let before = fs::read(&file).unwrap();
    repo.git(&["commit", "--quiet", "--allow-empty", "--message=More"]);
    fs::remove_file(repo.object_file("HEAD:collections/posts.yaml")).unwrap();
    let failed = backup(repo.path(), &file).assert_exit_code(1);
    assert!(failed.stderr.contains("git pack-objects failed"), "{}", failed.stderr);
    assert_eq!(fs::read(&file).unwrap(), before);
}

#[test]
fn a_branch_without_a_commit_has_no_copy() {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repo::init(folder.path().join("settings"));
    let failed = backup(repo.path(), &folder.path().join("settings.bundle")).assert_exit_code(1);
    assert!(failed.stderr.contains("there is nothing to copy"), "{}", failed.stderr);
}

/// How many copies are made while others write.
const COPIES: usize = 3;

/// Writes that are answered before each copy.
const WRITES: usize = 40;

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_under_load_has_every_write_that_was_answered_before_it() {
    let server = TestServer::start("empty").await;
    let (answered, enough) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let mut writers = JoinSet::new();
    for writer in 0..4 {
        let (client, answered, enough) =
            (server.client().clone(), Arc::clone(&answered), Arc::clone(&enough));
        writers.spawn(async move {
            let mut done = Vec::new();
            while !enough.load(Ordering::Relaxed) {
                let key = format!("k{writer}-{}", done.len());
                let answer = client.create(&document(&key, json!({"name": "x"}))).await.is(201);
                done.push((answered.fetch_add(1, Ordering::SeqCst), answer.header("collectory-revision")));
            }
            done
        });
    }
    let (file, mut copies) = (server.folder().join("settings.bundle"), Vec::new());
    for copy in 1..=COPIES {
        eventually("enough is written", async || {
            (answered.load(Ordering::SeqCst) >= copy * WRITES).then_some(())
        })
        .await;
        let before = answered.load(Ordering::SeqCst);
        let (repository, file) = (server.repo().path().to_owned(), file.clone());
        let copied = tokio::task::spawn_blocking(move || {
            backup(&repository, &file).assert_exit_code(0);
            restored(&file, &format!("copy-{copy}.git"))
        });
        copies.push((before, copied.await.unwrap()));
    }
    enough.store(true, Ordering::Relaxed);
    let writes: Vec<_> = writers.join_all().await.into_iter().flatten().collect();
    for (before, copy) in copies {
        let revisions = copy.git(&["rev-list", "HEAD"]);
        let missing =
            writes.iter().filter(|(at, revision)| *at < before && !revisions.contains(revision.as_str()));
        assert_eq!(missing.count(), 0, "of {before} writes before the copy");
    }
}
