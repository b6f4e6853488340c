//! This version reads what an older version wrote, and refuses what a newer one wrote with a clear message.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::support::{Auth, Repo, Setup, TestServer, copy_folder};

/// The repositories that released versions have left, one folder per version. Their `.git` is named `git`, because no
/// repository can contain another. Made with that version from the examples in the README: some writes, a committed
/// hand edit, an orderly stop.
const VERSIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/versions");

/// Copies one of these repositories.
fn kept(version: &Path, folder: &Path) -> Repo {
    let path = folder.join("settings");
    copy_folder(version, &path);
    fs::rename(path.join("git"), path.join(".git")).unwrap();
    // Git does not store empty folders.
    for empty in ["refs/tags", "objects/info"] {
        fs::create_dir_all(path.join(".git").join(empty)).unwrap();
    }
    Repo::at(path)
}

fn versions() -> Vec<PathBuf> {
    let mut versions: Vec<_> = fs::read_dir(VERSIONS).unwrap().map(|entry| entry.unwrap().path()).collect();
    versions.sort();
    assert!(!versions.is_empty());
    versions
}

fn serving(repo: &Repo) -> Setup {
    TestServer::setup("small").auth(Auth::None).repository(repo.path()).flag(&["--log-level", "debug"])
}

#[tokio::test]
async fn what_every_released_version_wrote_is_read() {
    for version in versions() {
        let folder = tempfile::tempdir().unwrap();
        let repo = kept(&version, folder.path());
        let commits = repo.commit_count();
        let server = serving(&repo).start().await;
        assert_eq!(server.list().await.is(200).ids(), ["news", "pages", "posts"], "{version:?}");
        let events = server.get("/events?page[size]=100").await.is(200);
        assert_eq!(events.json()["data"].as_array().unwrap().len(), 5, "{version:?}");
        assert!(!server.log().contains("does not fit"), "{}", server.log());
        assert!(!server.log().contains(" WARN "), "{}", server.log());
        server.patch("posts", json!({"name": "Written by this version"})).await.is(200);
        assert_eq!(repo.commit_count(), commits + 1, "{version:?}");
        assert_eq!(repo.status(), "", "{version:?}");
    }
}

#[test]
fn what_a_newer_version_wrote_is_refused_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let repo = kept(&versions()[0], folder.path());
    fs::write(repo.git_folder().join("collectory/format"), "7\n").unwrap();
    let refused = serving(&repo).expect_start_failure().assert_exit_code(1);
    let sentence = "a newer version of Collectory has served it (its own files have the format 7, and this version knows 1)";
    assert!(refused.stderr.contains(sentence), "{}", refused.stderr);
}
