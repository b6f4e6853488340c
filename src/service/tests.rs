//! Tests of services whose threads misbehave: that is noticed, and stopping takes no longer than it may.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::config::Limits;
use crate::http::AllowAll;
use crate::service::*;
use crate::store::git::{Failpoint, Hook};

/// How long a test waits before it fails.
const DEADLINE: Duration = Duration::from_secs(30);

/// Starts a service on a new repository, with a hook that runs whenever its journal reads the head.
pub(crate) async fn hooked(folder: &std::path::Path, hook: impl FnMut() + Send + 'static) -> (Service, Hook) {
    hooked_with(folder, Limits::default(), hook).await
}

async fn hooked_with(
    folder: &std::path::Path,
    limits: Limits,
    mut hook: impl FnMut() + Send + 'static,
) -> (Service, Hook) {
    let hook = Hook::new(folder, move |step, _| {
        if step == Failpoint::ReadHead {
            hook();
        }
        Ok(())
    });
    let mut config = ServeConfig::new(folder.join("settings"));
    config.listen.address = SocketAddr::from(([127, 0, 0, 1], 0)).into();
    let service = Service::configured(config).limits(limits).authorizer(AllowAll).start().await.unwrap();
    (service, hook)
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, what).await.expect("it takes too long")
}

/// Returns a sender and a hook that blocks until the sender is dropped.
fn gate() -> (Sender<()>, impl FnMut() + Send + 'static) {
    let (open, closed): (_, Receiver<()>) = channel();
    let closed = Mutex::new(closed);
    (open, move || closed.lock().unwrap().recv().unwrap_or_default())
}

#[tokio::test]
async fn a_writer_that_dies_at_the_first_reading_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let (service, _hook) = hooked(folder.path(), || panic!("as a test asked for")).await;
    assert_eq!(soon(service.failed()).await, "writer");
    assert_eq!(soon(service.shutdown()).await, Err(StopError::Panicked { thread: "writer" }));
}

#[tokio::test]
async fn a_writer_that_dies_later_is_noticed_and_holds_up_no_shutdown() {
    let folder = tempfile::tempdir().unwrap();
    let mut calls = 0;
    let (service, _hook) = hooked(folder.path(), move || {
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
    let (service, _hook) = hooked(folder.path(), || ()).await;
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
    let (service, _hook) = hooked(folder.path(), hook).await;
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
    let (service, _hook) = hooked_with(folder.path(), limits, hook).await;
    soon(service.ready()).await;
    std::fs::write(folder.path().join("settings/.git/packed-refs"), "").unwrap();
    soon(stuck.recv()).await;
    let stopped = soon(service.shutdown()).await;
    assert!(matches!(stopped, Err(StopError::Stuck { .. })), "{stopped:?}");
}
