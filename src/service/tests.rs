//! A service whose threads misbehave: it is noticed, and stopping takes no longer than it may.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::domain::{Actor, Revision};
use crate::http::AllowAll;
use crate::service::*;
use crate::store::git::GitJournal;
use crate::store::{
    BlobId, Commit, Committed, Draft, EachContent, FileChange, Journal, Kept, Paths, WorkTree,
};

/// A test gives up after this time.
const DEADLINE: Duration = Duration::from_secs(30);

/// A journal that does something of a test's own whenever it is asked for the head.
struct Hooked<F> {
    journal: GitJournal,
    hook: F,
}

impl<F: FnMut() + Send + 'static> Journal for Hooked<F> {
    fn head(&mut self) -> Result<Option<Revision>, StoreError> {
        (self.hook)();
        self.journal.head()
    }

    fn changes(
        &mut self,
        from: Option<Revision>,
        to: Option<Revision>,
    ) -> Result<Vec<FileChange>, StoreError> {
        self.journal.changes(from, to)
    }

    fn read(&mut self, blobs: &[BlobId], each: &EachContent<'_>) -> Result<(), StoreError> {
        self.journal.read(blobs, each)
    }

    fn append(&mut self, expected: Option<Revision>, drafts: &[Draft]) -> Result<Vec<Committed>, StoreError> {
        self.journal.append(expected, drafts)
    }

    fn make_durable(&mut self, head: Option<Revision>) -> Result<(), StoreError> {
        self.journal.make_durable(head)
    }

    fn work_tree(
        &mut self,
        head: Option<Revision>,
        paths: Paths<'_>,
        despite_locks: bool,
    ) -> Result<WorkTree, StoreError> {
        self.journal.work_tree(head, paths, despite_locks)
    }

    fn catch_up(&mut self) -> Result<(), StoreError> {
        self.journal.catch_up()
    }

    fn walk(
        &mut self,
        from: Revision,
        each: &mut dyn FnMut(&Commit, &[FileChange]) -> bool,
    ) -> Result<(), StoreError> {
        self.journal.walk(from, each)
    }

    fn descends(&mut self, descendant: Revision, ancestor: Revision) -> Result<bool, StoreError> {
        self.journal.descends(descendant, ancestor)
    }

    fn commits_beyond(&mut self, old: Revision, new: Revision) -> Result<Vec<Revision>, StoreError> {
        self.journal.commits_beyond(old, new)
    }

    fn keep(&mut self, revision: Revision, now: DateTime<Utc>) -> Result<Kept, StoreError> {
        self.journal.keep(revision, now)
    }

    fn person(&mut self) -> Actor {
        self.journal.person()
    }
}

/// A service on a new repository whose journal has a hook.
pub(crate) async fn hooked(folder: &std::path::Path, hook: impl FnMut() + Send + 'static) -> Service {
    hooked_with(folder, Limits::default(), hook).await
}

async fn hooked_with(
    folder: &std::path::Path,
    limits: Limits,
    hook: impl FnMut() + Send + 'static,
) -> Service {
    let mut config = ServeConfig::new(folder.join("settings"));
    config.listen.address = SocketAddr::from(([127, 0, 0, 1], 0)).into();
    let builder = Service::configured(config).limits(limits).authorizer(AllowAll);
    builder.start_with(|journal, _| Hooked { journal, hook }).await.unwrap()
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, what).await.expect("it takes too long")
}

/// A channel whose receiving end blocks whoever asks for the head until the other end is gone.
fn gate() -> (Sender<()>, impl FnMut() + Send + 'static) {
    let (open, closed): (_, Receiver<()>) = channel();
    let closed = Mutex::new(closed);
    (open, move || closed.lock().unwrap().recv().unwrap_or_default())
}

#[tokio::test]
async fn a_writer_that_dies_at_the_first_reading_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let service = hooked(folder.path(), || panic!("as a test asked for")).await;
    assert_eq!(soon(service.failed()).await, "writer");
    assert_eq!(soon(service.shutdown()).await, Err(StopError::Panicked { thread: "writer" }));
}

#[tokio::test]
async fn a_writer_that_dies_later_is_noticed_and_holds_up_no_shutdown() {
    let folder = tempfile::tempdir().unwrap();
    let mut calls = 0;
    let service = hooked(folder.path(), move || {
        calls += 1;
        assert!(calls < 2, "as a test asked for");
    })
    .await;
    soon(service.ready()).await;
    let file = folder.path().join("settings/collections/posts.yaml");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, "type: document\n").unwrap();
    assert_eq!(soon(service.failed()).await, "writer");
    assert_eq!(soon(service.shutdown()).await, Err(StopError::Panicked { thread: "writer" }));
}

#[tokio::test]
async fn a_healthy_service_does_not_fail_and_stops_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let service = hooked(folder.path(), || ()).await;
    tokio::select! {
        biased;
        thread = service.failed() => panic!("{thread} has ended"),
        () = service.ready() => {}
    }
    assert_eq!(soon(service.shutdown()).await, Ok(()));
}

#[tokio::test]
async fn a_first_reading_that_takes_for_ever_holds_up_no_shutdown() {
    let folder = tempfile::tempdir().unwrap();
    let (_gate, hook) = gate();
    let service = hooked(folder.path(), hook).await;
    assert_eq!(soon(service.shutdown()).await, Ok(()));
}

#[tokio::test]
async fn a_writer_that_is_stuck_holds_up_no_shutdown_for_longer_than_the_grace_period() {
    let folder = tempfile::tempdir().unwrap();
    let (_gate, mut block) = gate();
    let (tell, mut stuck) = tokio::sync::mpsc::unbounded_channel();
    let mut calls = 0;
    let hook = move || {
        calls += 1;
        if calls > 1 {
            tell.send(()).unwrap();
            block();
        }
    };
    let limits = Limits { shutdown_grace_ms: 0, ..Limits::default() };
    let service = hooked_with(folder.path(), limits, hook).await;
    soon(service.ready()).await;
    std::fs::write(folder.path().join("settings/.git/packed-refs"), "").unwrap();
    soon(stuck.recv()).await;
    let stopped = soon(service.shutdown()).await;
    assert!(matches!(stopped, Err(StopError::Stuck { .. })), "{stopped:?}");
}
