//! Tests of the watcher, and of notifications that never arrive.

use std::path::Path;

use crate::watch::*;

/// How long a test waits for a condition before it fails.
const DEADLINE: Duration = Duration::from_secs(30);

/// Waits for the next hint.
fn next(signals: &mut mpsc::Receiver<Signal>) -> Hint {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let next = runtime.block_on(async { tokio::time::timeout(DEADLINE, signals.recv()).await });
    match next.expect("a hint comes").expect("the watcher runs") {
        Signal::Changed(hint) => hint,
        other => panic!("{other:?}"),
    }
}

fn options(tick: Duration) -> Options {
    Options { quiet: Duration::ZERO, quiet_unclosed: Duration::ZERO, tick, notices: true }
}

/// Creates a work tree with a collections folder.
fn places(root: &Path) -> WatchedPaths {
    let folder = root.join("collections");
    std::fs::create_dir_all(&folder).unwrap();
    WatchedPaths { work_tree: Some((root.to_owned(), folder)), branch_files: Vec::new() }
}

#[test]
fn where_nothing_can_be_watched_the_tick_carries_the_load() {
    let root = tempfile::tempdir().unwrap();
    let limit: Make = |_, _| Err(notify::Error::new(notify::ErrorKind::MaxFilesWatch));
    for make in [Some(limit), None] {
        let (signals, mut inbox) = mpsc::channel(8);
        let options = options(Duration::from_millis(1));
        let watch = start_with(make, places(root.path()), options, signals).unwrap();
        for _ in 0..3 {
            assert_eq!(next(&mut inbox), Hint::Everything);
        }
        drop(inbox);
        drop(watch);
    }
}

#[test]
fn a_folder_that_comes_later_is_watched_then() {
    let root = tempfile::tempdir().unwrap();
    let (notices, _inbox) = channel();
    let absent = root.path().join("absent");
    let places =
        WatchedPaths { work_tree: Some((root.path().to_owned(), absent.clone())), ..WatchedPaths::default() };
    let mut watch = ActiveWatch::new(Some(system_watcher), EventClassifier::new(places), &notices);
    watch.renew();
    assert!(watch.is_complete(), "what is not there need not be watched");
    std::fs::create_dir(absent).unwrap();
    assert!(!watch.is_complete());
    watch.renew();
    assert!(watch.is_complete() && watch.trouble.is_empty());
}

#[test]
fn a_folder_that_comes_while_others_are_being_watched_is_watched_too() {
    /// Creates all folders after the existing ones were listed.
    fn late(meanings: Arc<EventClassifier>, notices: Sender<Notice>) -> notify::Result<RecommendedWatcher> {
        meanings.folders().iter().for_each(|folder| std::fs::create_dir_all(folder).unwrap());
        system_watcher(meanings, notices)
    }
    let root = tempfile::tempdir().unwrap();
    let (notices, _inbox) = channel();
    let folder = root.path().join("cms/collections");
    let places =
        WatchedPaths { work_tree: Some((root.path().to_owned(), folder)), ..WatchedPaths::default() };
    let mut watch = ActiveWatch::new(Some(late), EventClassifier::new(places), &notices);
    watch.renew();
    assert!(watch.is_complete());
}

#[test]
fn a_folder_that_was_replaced_is_read_and_watched_anew() {
    let root = tempfile::tempdir().unwrap();
    let places = places(root.path());
    let (signals, mut inbox) = mpsc::channel(64);
    let watch = start(places, options(Duration::from_secs(3600)), signals).unwrap();
    let folder = root.path().join("collections");
    std::fs::rename(&folder, root.path().join("old")).unwrap();
    std::fs::create_dir(&folder).unwrap();
    assert_eq!(next(&mut inbox), Hint::Everything);
    std::fs::write(folder.join("posts.yaml"), "x").unwrap();
    let wanted = Hint::Files(vec!["posts.yaml".to_owned()]);
    while !matches!(next(&mut inbox), hint if hint == wanted || hint == Hint::Everything) {}
    drop(inbox);
    drop(watch);
}
