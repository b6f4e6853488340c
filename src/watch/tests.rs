//! What notices mean, and what becomes of those that never come.

use super::*;
use notify::event::{CreateKind, DataChange, Flag, RemoveKind, RenameMode};

fn actor() -> Actor {
    let (signals, _) = mpsc::channel(1);
    let (notices, _) = channel();
    Actor {
        armed: Armed::new(None, &notices),
        places: Places {
            work_tree: Some(("/r".into(), "/r/cms/collections".into())),
            branch_files: vec!["/r/.git/HEAD".into(), "/r/.git/refs/heads/main".into()],
        },
        settle: Settle::new(Duration::ZERO),
        tick: Duration::ZERO,
        signals,
    }
}

const WRITTEN: EventKind = EventKind::Modify(ModifyKind::Data(DataChange::Any));
const MOVED: EventKind = EventKind::Modify(ModifyKind::Name(RenameMode::To));
const GONE: EventKind = EventKind::Remove(RemoveKind::Any);
const MADE: EventKind = EventKind::Create(CreateKind::Any);

#[track_caller]
fn means(kind: EventKind, path: &str, meaning: Meaning) {
    assert_eq!(actor().meaning(kind, Path::new(path)), meaning);
}

#[test]
fn only_collection_files_of_the_folder_itself_are_told() {
    means(WRITTEN, "/r/cms/collections/posts.yaml", Meaning::File("posts.yaml".into(), Touch::Writing));
    means(MOVED, "/r/cms/collections/posts.yml", Meaning::File("posts.yml".into(), Touch::Done));
    for other in [
        "/r/cms/collections/.posts.yaml.swp",
        "/r/cms/collections/posts.yaml~",
        "/r/cms/collections/x/posts.yaml",
        "/r/posts.yaml",
    ] {
        means(MOVED, other, Meaning::Nothing);
    }
}

#[test]
fn a_moved_ref_is_a_branch_and_its_lock_is_one_when_it_goes() {
    means(MOVED, "/r/.git/refs/heads/main", Meaning::Branch);
    means(MADE, "/r/.git/refs/heads/main.lock", Meaning::Nothing);
    means(WRITTEN, "/r/.git/HEAD.lock", Meaning::Nothing);
    means(GONE, "/r/.git/HEAD.lock", Meaning::Branch);
    means(GONE, "/r/.git/other.lock", Meaning::Nothing);
    means(WRITTEN, "/r/.git/HEAD", Meaning::Branch);
}

#[test]
fn a_folder_on_the_way_that_appears_or_goes_means_everything() {
    for folder in ["/r/cms", "/r/cms/collections", "/r/.git/refs/heads"] {
        means(GONE, folder, Meaning::Folders);
        means(MADE, folder, Meaning::Folders);
    }
}

/// After this time a test gives up on whatever should have become true.
const DEADLINE: Duration = Duration::from_secs(30);

/// What comes next, waited for.
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

/// A work tree with a collections folder.
fn places(root: &Path) -> Places {
    let folder = root.join("collections");
    std::fs::create_dir_all(&folder).unwrap();
    Places { work_tree: Some((root.to_owned(), folder)), branch_files: Vec::new() }
}

#[test]
fn lost_notices_mean_everything_with_a_path_and_without() {
    let lost = Event::new(EventKind::Other).set_flag(Flag::Rescan);
    let with_path = lost.clone().add_path("/r/cms/collections/posts.yaml".into());
    let error = notify::Error::generic("the queue overflowed");
    for notice in [Ok(lost), Ok(with_path), Err(error)] {
        let (mut branch, mut folders) = (false, false);
        actor().note(notice, &mut branch, &mut folders);
        assert!(folders, "everything is read, and watched anew");
    }
}

#[test]
fn where_nothing_can_be_watched_the_tick_carries_the_load() {
    let root = tempfile::tempdir().unwrap();
    let limit: Make = |_| Err(notify::Error::new(notify::ErrorKind::MaxFilesWatch));
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
fn a_folder_that_could_not_be_watched_is_tried_again() {
    let root = tempfile::tempdir().unwrap();
    let (notices, _inbox) = channel();
    let mut armed = Armed::new(Some(system_watcher), &notices);
    let [there, absent] = [root.path().to_owned(), root.path().join("absent")];
    let wanted = BTreeSet::from([there, absent.clone()]);
    armed.renew(wanted.clone());
    assert!(!armed.is_complete(&wanted));
    assert_eq!(armed.trouble.len(), 1);
    std::fs::create_dir(absent).unwrap();
    armed.renew(wanted.clone());
    assert!(armed.is_complete(&wanted) && armed.trouble.is_empty());
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
