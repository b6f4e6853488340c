//! Tests of the engine on a repository in memory, with injected faults.

mod conflicts;
mod durable;
mod following;
mod large;
mod letter_case;
mod model;
mod races;
mod rewritten;

use std::time::{Duration, Instant};

use chrono::DateTime;

use crate::domain::{Actor, Collection, Command, Key, Patch, Revision, Value};
use crate::engine::*;
use crate::store::memory::MemoryJournal;
use crate::telemetry::LimitCounters;

/// Time after which a test gives up waiting.
const DEADLINE: Duration = Duration::from_secs(30);

const POSTS: &str = "posts.yaml";

struct Running {
    engine: Engine,
}

/// Starts an engine on a repository with one file.
fn with_first() -> (MemoryJournal, Running) {
    let journal = MemoryJournal::new();
    commit(&journal, POSTS, &named("First"));
    let running = Running::on(&journal);
    (journal, running)
}

/// Returns the options of these tests: what looks broken is believed at once.
pub(crate) fn options() -> Options {
    Options {
        mirror: MirrorOptions {
            folder: "collections".to_owned(),
            branch: "main".to_owned(),
            committers: vec![Actor::service().email().to_owned()],
            serve_uncommitted: true,
            settle_patience: Duration::ZERO,
            busy_max: DEADLINE,
            clock: Arc::new(|| DateTime::UNIX_EPOCH),
            reached: LimitCounters::default(),
        },
        writer: WriterOptions {
            queue_len_max: 64,
            batch_len_max: 64,
            races_max: 3,
            operations_bytes_max: 2 << 20,
            busy_max: DEADLINE,
            retry_wait: Duration::from_millis(1),
        },
        idempotency: Retention { time: Duration::from_secs(60), len_max: 16, bytes_max: 1 << 20 },
        reached: LimitCounters::default(),
        metrics: Arc::default(),
        give_back: || {},
    }
}

/// Returns the [`options`] with uncommitted edits served or not.
fn serving(serve_uncommitted: bool) -> Options {
    let options = options();
    Options { mirror: MirrorOptions { serve_uncommitted, ..options.mirror }, ..options }
}

/// Returns the [`options`] with a file that is broken, empty or gone believed after this time.
fn believing_after(patience: Duration) -> Options {
    let options = options();
    Options { mirror: MirrorOptions { settle_patience: patience, ..options.mirror }, ..options }
}

impl Running {
    /// Starts an engine and waits until it has read the repository.
    fn on(journal: &MemoryJournal) -> Self {
        Self::with(journal, options())
    }

    fn with(journal: &MemoryJournal, options: Options) -> Self {
        let running = Self { engine: start(Box::new(journal.clone()), options).unwrap() };
        running.read();
        running
    }

    /// Starts an engine and waits until it has looked at the work tree for the first time.
    fn looking_at(journal: &MemoryJournal, options: Options) -> Self {
        let running = Self { engine: start(Box::new(journal.clone()), options).unwrap() };
        running.eventually("the work tree is looked at", |_| (journal.looks() > 0).then_some(()));
        running
    }

    /// Waits until the engine has read the repository.
    fn read(&self) {
        self.eventually("the repository is read", |running| {
            running.engine.projection.snapshot().is_some().then_some(())
        });
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        self.engine.projection.snapshot().expect("it was read when the engine was started")
    }

    /// Returns the name of a collection, and whether it is marked as uncommitted.
    fn shown(&self, key: &str) -> Option<(String, bool)> {
        let snapshot = self.snapshot();
        let entry = snapshot.get(key)?;
        Some((name_of(&entry.collection), entry.uncommitted))
    }

    /// Sends a notice, as the watcher does.
    fn notice(&self, hint: Hint) {
        self.engine.signals.blocking_send(Signal::Changed(hint)).unwrap();
    }

    /// Waits until every notice that was sent has been acted on.
    fn settled(&self) {
        let refused = self.submit(delete("nobody"));
        assert!(refused.is_err(), "{refused:?}");
    }

    /// Sends a notice and waits until it has been acted on.
    fn look(&self, hint: Hint) {
        self.notice(hint);
        self.settled();
    }

    fn submit(&self, command: Command) -> Result<SubmitAnswer, SubmitError> {
        self.submit_all([command])
    }

    /// Submits changes that are made together or not at all.
    fn submit_all(&self, changes: impl IntoIterator<Item = Command>) -> Result<SubmitAnswer, SubmitError> {
        let mara = Actor::new("Mara", "mara@example.org");
        block_on(self.engine.handle.submit(Submission::of(mara, changes)))
    }

    /// Retries until `attempt` returns a value.
    #[track_caller]
    fn eventually<T>(&self, what: &str, mut attempt: impl FnMut(&Self) -> Option<T>) -> T {
        let started = Instant::now();
        loop {
            if let Some(found) = attempt(self) {
                return found;
            }
            assert!(started.elapsed() < DEADLINE, "after {DEADLINE:?} still not: {what}");
            thread::park_timeout(Duration::from_millis(1));
        }
    }

    fn stop(self) {
        self.engine.signals.blocking_send(Signal::Shutdown).unwrap();
        self.engine.writer.join().unwrap();
    }
}

/// Returns the `name` of a collection, empty if it has none.
fn name_of(collection: &Collection) -> String {
    collection.by_name("name").and_then(Value::as_text).unwrap_or_default().to_owned()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn rename(key: &str, to: &str) -> Command {
    let patch = Patch::new([("name".to_owned(), to.into())]);
    Command::Update { key: Key::parse(key).unwrap(), kind: None, patch }
}

fn delete(key: &str) -> Command {
    Command::Delete { key: Key::parse(key).unwrap(), kind: None }
}

/// Returns the text of a file in the work tree.
fn saved_text(journal: &MemoryJournal, file: &str) -> String {
    String::from_utf8(journal.saved(file).unwrap()).unwrap()
}

/// Returns a file of a document collection with only a name.
fn named(name: &str) -> String {
    format!("type: document\nname: {name}\n")
}

fn commit(journal: &MemoryJournal, file: &str, content: &str) -> Revision {
    let mara = Actor::new("Mara", "mara@example.org");
    journal.commit_by_hand(&[(file, Some(content))], &mara, "By hand", DateTime::UNIX_EPOCH)
}
