//! The history of a running engine.

use std::time::Duration;

use crate::domain::{Actor, Command, Patch, Value};
use crate::engine::history::tests::*;
use crate::engine::{
    Condition, Engine, Hint, MirrorOptions, Options as EngineOptions, Signal, Submission, SubmitError,
    UndoRequest,
};
use crate::store::git::{GitJournal, Options as GitOptions};

struct Running {
    repo: Repo,
    engine: Engine,
    history: History,
    follower: std::thread::JoinHandle<()>,
}

impl Running {
    async fn on(repo: Repo) -> Self {
        Self::with(repo, Options::new("collections")).await
    }

    async fn with(repo: Repo, options: Options) -> Self {
        let journal = GitJournal::open(GitOptions::new(repo.path())).unwrap();
        let engine = crate::engine::start(Box::new(journal), engine_options()).unwrap();
        let heads = engine.projection.heads();
        let (history, follower) = History::start(repo.archive(), heads, options).unwrap();
        history.ready().await.unwrap();
        Self { repo, engine, history, follower }
    }

    async fn submit(&self, command: Command) -> Result<(), SubmitError> {
        let asked = Submission::of(Actor::new("Ed", "ed@example.org"), [command]);
        let submission = Submission { reason: Some("because".to_owned()), ..asked };
        self.engine.handle.submit(submission).await.map(drop)
    }

    async fn rename(&self, to: &str) {
        self.patch("name", to.into()).await;
    }

    async fn patch(&self, name: &str, value: Value) {
        let patch = Patch::new([(name.to_owned(), value)]);
        self.submit(Command::Update { key: key("posts"), kind: None, patch }).await.unwrap();
    }

    async fn newest(&self) -> Arc<EventRecord> {
        let view = self.history.view().await.unwrap();
        view.events(&Filter::default(), &EventPageQuery::first(1)).unwrap().events.remove(0)
    }

    async fn undo(&self, id: uuid::Uuid) -> Result<(), UndoRefusal> {
        let parts = (&self.engine.handle, &self.engine.projection);
        undoer().undo(&self.history, parts, id).await.map(drop)
    }

    async fn restore(&self, revision: Revision) -> Result<(), UndoRefusal> {
        let parts = (&self.engine.handle, &self.engine.projection);
        undoer().restore(&self.history, parts, &key("posts"), revision).await.map(drop)
    }

    fn file(&self, name: &str) -> Option<String> {
        let head = self.repo.archive().head().unwrap().unwrap();
        self.repo.show(head, name).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    /// Notifies the engine that the branch moved, and waits until it has read the new head.
    async fn notice(&self, head: Revision) {
        let mut heads = self.engine.projection.heads();
        self.engine.signals.send(Signal::Changed(Hint::Branch)).await.unwrap();
        heads.wait_for(|it| *it == crate::engine::PublishedHead::At(Some(head))).await.unwrap();
    }

    async fn stop(self) -> Repo {
        self.engine.signals.send(Signal::Shutdown).await.unwrap();
        tokio::task::spawn_blocking(move || {
            self.engine.writer.join().unwrap();
            self.follower.join().unwrap();
            self.repo
        })
        .await
        .unwrap()
    }
}

/// The options of the engine's own tests, with a later clock.
fn engine_options() -> EngineOptions {
    let options = crate::engine::tests::options();
    let clock = Arc::new(|| DateTime::from_timestamp(1_900_000_000, 0).unwrap());
    EngineOptions { mirror: MirrorOptions { clock, ..options.mirror }, ..options }
}

fn undoer() -> UndoRequest {
    let asked = Submission::of(Actor::new("Ada", "ada@example.org"), []);
    UndoRequest {
        template: Submission { reason: Some("Oh".into()), ..asked },
        condition: Condition::default(),
    }
}

const FILE: &str = "# Ask Mara before renaming.\ntype: document\nname: Posts   # short\nrecursive: true\n";

async fn with_posts() -> Running {
    let repo = Repo::bare();
    repo.add_commit(&[("posts.yaml", FILE)], "Posts");
    Running::on(repo).await
}

#[tokio::test]
async fn who_was_answered_finds_the_event_at_once_and_undone_it_leaves_the_identical_file() {
    let running = with_posts().await;
    running.rename("All posts").await;
    let event = running.newest().await;
    assert_eq!(line(&event), "updated posts (name Posts All posts)");
    assert_eq!((event.commit.origin, event.commit.message.reason.as_deref()), (Origin::Api, Some("because")));
    running.undo(event.id).await.unwrap();
    assert_eq!(running.file("posts.yaml").unwrap(), FILE);
    let undoing = running.newest().await;
    assert_eq!(line(&undoing), "updated posts (name All posts Posts)");
    assert_eq!((undoing.commit.actor.name(), undoing.commit.message.reason.as_deref()), ("Ada", Some("Oh")));
    let message = running.repo.git(&["log", "-1", "--format=%B", "main"]);
    assert!(message.starts_with("Update posts: name\n\nOh\n"), "{message}");
    assert!(message.contains(&format!("\nUndoes {}\n", event.id)), "{message}");
    assert!(message.contains(&format!("\nCollectory-Undoes: {}\n", event.id)), "{message}");
    running.undo(undoing.id).await.unwrap();
    assert!(running.file("posts.yaml").unwrap().contains("All posts"), "an undoing can be undone");
    let view = running.history.view().await.unwrap();
    view.verify(None, None, &Rules::default(), &mut |verdict| {
        assert_eq!(verdict.disagreements, []);
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    running.stop().await;
}

#[tokio::test]
async fn only_what_the_event_touched_is_undone_when_something_else_changed_since() {
    let running = with_posts().await;
    running.rename("All posts").await;
    let event = running.newest().await;
    running.patch("recursive", false.into()).await;
    running.undo(event.id).await.unwrap();
    let file = running.file("posts.yaml").unwrap();
    assert!(file.contains("name: Posts") && file.contains("recursive: false"), "{file}");
    assert!(file.contains("# Ask Mara"), "{file}");
    running.stop().await;
}

#[tokio::test]
async fn an_attribute_that_was_touched_again_is_not_undone_even_if_its_value_came_back() {
    let running = with_posts().await;
    running.rename("B").await;
    let event = running.newest().await;
    running.rename("C").await;
    running.rename("B").await;
    let refusal = running.undo(event.id).await.unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "`name` was changed again later: the event made it \"B\", now it is \"B\""
    );
    assert!(matches!(refusal, UndoRefusal::ChangedSince { by: Some(_), .. }));
    let unknown = running.undo(uuid::Uuid::nil()).await;
    assert!(matches!(unknown, Err(UndoRefusal::History(HistoryError::UnknownEvent(_)))));
    running.stop().await;
}

#[tokio::test]
async fn a_creation_is_undone_by_deleting_and_a_deletion_by_bringing_back() {
    let running = with_posts().await;
    let created = running.newest().await;
    running.undo(created.id).await.unwrap();
    assert_eq!(running.file("posts.yaml"), None);
    let deleted = running.newest().await;
    assert_eq!(deleted.action, Action::Deleted);
    running.undo(deleted.id).await.unwrap();
    assert_eq!(running.file("posts.yaml").unwrap(), FILE);
    assert!(matches!(running.undo(deleted.id).await, Err(UndoRefusal::ChangedSince { .. })));
    assert!(matches!(running.undo(created.id).await, Err(UndoRefusal::ChangedSince { .. })));
    running.stop().await;
}

#[tokio::test]
async fn a_change_of_comments_is_undone_byte_for_byte_or_not_at_all() {
    let repo = Repo::bare();
    repo.add_commit(&[("posts.yaml", FILE)], "one");
    repo.add_commit(&[("posts.yaml", "type: document\nname: Posts\nrecursive: true\n")], "two");
    let running = Running::on(repo).await;
    let event = running.newest().await;
    assert_eq!(event.effect, Effect::Changes(Vec::new()));
    running.undo(event.id).await.unwrap();
    assert_eq!(running.file("posts.yaml").unwrap(), FILE);
    assert!(matches!(running.undo(event.id).await, Err(UndoRefusal::FileChangedSince)));
    running.stop().await;
}

#[tokio::test]
async fn a_collection_is_restored_to_any_revision_a_deleted_or_broken_one_too() {
    let repo = Repo::bare();
    let first = repo.add_commit(&[("posts.yaml", FILE)], "one");
    let gone = repo.add_commit(&[("posts.yaml", "")], "gone");
    let running = Running::on(repo).await;
    running.restore(first).await.unwrap();
    assert_eq!(running.file("posts.yaml").unwrap(), FILE);
    let message =
        running.repo.git(&["log", "-1", "--format=%s%n%(trailers:key=Collectory-Restores)", "main"]);
    let short = &first.to_string()[..7];
    assert_eq!(message.trim(), format!("Restore posts to {short}\nCollectory-Restores: {first}"));
    let before = running.repo.archive().head().unwrap();
    running.restore(first).await.unwrap();
    assert_eq!(running.repo.archive().head().unwrap(), before, "it is so already, so no commit is made");
    let absent = running.restore(gone).await;
    assert!(matches!(absent, Err(UndoRefusal::History(HistoryError::UnknownKey(_)))));
    let broken = running.repo.add_commit(&[("posts.yaml", "name: ["), ("posts.yml", "x")], "broken");
    running.notice(broken).await;
    running.restore(first).await.unwrap();
    assert_eq!(running.file("posts.yaml").unwrap(), FILE);
    assert_eq!(running.file("posts.yml"), None, "what stood beside the broken file is gone");
    running.stop().await;
}

#[tokio::test]
async fn an_edit_that_nobody_committed_counts_as_a_later_change() {
    let repo = Repo::new();
    repo.add_commit(&[("posts.yaml", FILE)], "one");
    repo.git(&["reset", "-q", "--hard"]);
    let running = Running::on(repo).await;
    running.rename("B").await;
    let event = running.newest().await;
    let path = running.repo.path().join("collections/posts.yaml");
    let saved = std::fs::read_to_string(&path).unwrap().replace("name: B", "name: Mine");
    std::fs::write(&path, saved).unwrap();
    running.engine.signals.send(Signal::Changed(Hint::Everything)).await.unwrap();
    running.patch("x-other", true.into()).await;
    std::fs::write(&path, std::fs::read_to_string(&path).unwrap().replace("name: Mine", "name: Again"))
        .unwrap();
    running.engine.signals.send(Signal::Changed(Hint::Everything)).await.unwrap();
    // A write to another key is answered after the notice has been handled.
    let other = crate::domain::Collection::new(key("other"), crate::domain::Kind::Media, []).unwrap();
    running.submit(Command::Create(other)).await.unwrap();
    let refusal = running.undo(event.id).await.unwrap_err();
    let UndoRefusal::ChangedSince { attribute, present, .. } = refusal else { panic!("{refusal}") };
    assert_eq!((attribute.as_str(), present), ("name", Some("Again".into())));
    running.stop().await;
}

/// Waits for the next `count` items of a subscriber.
async fn heard(subscription: &mut Subscription, count: usize) -> Vec<String> {
    let mut heard = Vec::new();
    for _ in 0..count {
        let next = tokio::time::timeout(Duration::from_secs(60), subscription.next());
        heard.push(match next.await.expect("nothing was told").unwrap().unwrap() {
            Followed::Event(event) => format!("{} {}", event.action.as_str(), event.position),
            Followed::Reset(revision) => format!("reset {}", revision.unwrap()),
            Followed::CaughtUp(revision) => format!("caught up {revision}"),
        });
    }
    heard
}

#[tokio::test]
async fn a_subscriber_hears_each_event_once_and_is_told_when_the_branch_was_rewritten() {
    let running = with_posts().await;
    let first = running.repo.archive().head().unwrap().unwrap();
    let mut now = running.history.subscribe(None, Filter::default());
    let mut since = running.history.subscribe(Some(first.into()), Filter::default());
    let created = Filter { actions: vec![Action::Created], ..Filter::default() };
    let mut created = running.history.subscribe(Some(first.into()), created);
    running.rename("B").await;
    let second = running.newest().await.commit.revision;
    assert_eq!(heard(&mut since, 1).await, [format!("updated {second}")]);
    assert_eq!(since.head_if_caught_up(), Some(second));
    let made = running.repo.add_commit(&[("a.yaml", &named("a")), ("b.yaml", &named("b"))], "hand");
    running.notice(made).await;
    running.history.view().await.unwrap();
    let both = [format!("created {made}/1"), format!("created {made}/2")];
    assert_eq!(heard(&mut since, 2).await, both);
    assert_eq!(heard(&mut created, 2).await, both);
    let mut half = running.history.subscribe(Some(format!("{made}/1").parse().unwrap()), Filter::default());
    assert_eq!(heard(&mut half, 1).await, both[1..]);
    running.repo.point("refs/heads/main", first);
    let other = running.repo.add_commit(&[("c.yaml", &named("c"))], "other");
    running.notice(other).await;
    running.history.view().await.unwrap();
    assert_eq!(heard(&mut since, 1).await, [format!("reset {other}")]);
    let mut lost = running.history.subscribe(Some(made.into()), Filter::default());
    assert_eq!(heard(&mut lost, 1).await, [format!("reset {other}")]);
    running.rename("C").await;
    let third = running.newest().await.commit.revision;
    assert_eq!(heard(&mut since, 1).await, [format!("updated {third}")], "it goes on from there");
    let both = [format!("created {other}"), format!("updated {third}")];
    assert_eq!(heard(&mut now, 2).await, both, "the branch still descends from where it began");
    running.stop().await;
    assert!(since.next().await.unwrap().is_none());
}

#[tokio::test]
async fn a_subscriber_that_is_too_slow_is_told_to_read_everything_again() {
    let repo = Repo::bare();
    repo.add_commit(&[("posts.yaml", FILE)], "Posts");
    let running = Running::with(repo, Options { lag_events_max: 3, ..Options::new("collections") }).await;
    let first = running.newest().await.commit.revision;
    let mut slow = running.history.subscribe(Some(first.into()), Filter::default());
    running.rename("0").await;
    running.history.view().await.unwrap();
    heard(&mut slow, 1).await;
    for n in 1..=9 {
        running.rename(&n.to_string()).await;
        running.history.view().await.unwrap();
    }
    let head = running.newest().await.commit.revision;
    assert_eq!(heard(&mut slow, 1).await, [format!("reset {head}")]);
    let mut replay = running.history.subscribe(Some(first.into()), Filter::default());
    assert_eq!(heard(&mut replay, 10).await.len(), 10, "who comes back later is not slow");
    running.stop().await;
}

/// Returns what is served for each key, and its problem.
fn rules(snapshot: &crate::engine::Snapshot) -> Vec<String> {
    let shown = snapshot.catalog().iter().map(|entry| {
        let problem = entry.problem.as_ref().map(|problem| (problem.to_string(), problem.serving));
        format!("{} {} {} {problem:?}", entry.file(), entry.blob, entry.stale)
    });
    shown.collect()
}

/// Covers keys that differ only in letter case, two files of a key, broken files, and files that lack something.
#[test]
fn the_present_and_the_past_show_a_key_by_the_same_rules() {
    let repo = Repo::bare();
    let nameless = "type: document\nunpublishedStatuses:\n  draft:\n    directory: drafts\n";
    repo.add_commit(&[("a.yaml", &named("small")), ("B.yaml", &named("large")), ("c.yaml", nameless)], "1");
    repo.add_commit(&[("A.yaml", &named("large")), ("b.yaml", &named("small")), ("d.yml", &named("D"))], "2");
    repo.add_commit(&[("d.yaml", &named("D")), ("a.yaml", &named("changed")), ("E.yaml", &named("E"))], "3");
    repo.add_commit(&[("E.yaml", ""), ("e.yaml", &named("E")), ("B.yaml", "name: [")], "4");
    repo.add_commit(&[("E.yaml", &named("again")), ("f.yaml", "name: [")], "5");
    let journal = GitJournal::open(GitOptions::new(repo.path())).unwrap();
    let live = crate::engine::survey(Box::new(journal), engine_options().mirror).unwrap();
    let head = live.revision.unwrap();
    assert_eq!(live.get("a").unwrap().file(), "a.yaml", "it was there first");
    let view = read(&repo);
    assert_eq!(rules(&view.snapshot_as_of(head).unwrap()), rules(&live));
    for entry in live.catalog().iter() {
        let one = read(&repo).entry_as_of(head, entry.collection.key()).unwrap();
        assert_eq!((one.blob, one.stale), (entry.blob, entry.stale));
    }
}

mod any_change {
    use proptest::prelude::*;

    use super::*;
    use crate::random::cases;

    fn file() -> impl Strategy<Value = String> {
        let lines = prop::collection::vec(
            prop::sample::select(vec![
                "# a comment\n",
                "\n",
                "name: 'Posts'   # said so\n",
                "directory: content/posts/\n",
                "recursive: false\n",
                "draftDirectory: drafts # short\n",
                "x-list: [1, two, {three: 3}]\n",
                "x-text: |\n  a\n  b\n",
            ]),
            0..8,
        );
        lines.prop_map(|lines| {
            let mut file = String::from("type: document\n");
            for line in lines {
                let name = line.split(':').next().unwrap();
                if !line.contains(':') || !file.contains(&format!("{name}:")) {
                    file.push_str(line);
                }
            }
            file
        })
    }

    fn change() -> impl Strategy<Value = (&'static str, Value)> {
        prop::sample::select(vec![
            ("name", "Other".into()),
            ("name", Value::Null),
            ("recursive", true.into()),
            ("directory", "elsewhere".into()),
            ("x-list", Value::List([].into())),
            ("x-text", "one line".into()),
            ("draftDirectory", "unborn".into()),
            ("draftDirectory", Value::Null),
        ])
    }

    proptest! {
        #![proptest_config(cases(16))]

        #[test]
        fn followed_by_its_undoing_leaves_the_identical_file(file in file(), change in change()) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            runtime.block_on(async {
                let repo = Repo::bare();
                repo.add_commit(&[("posts.yml", &file)], "Posts");
                let running = Running::on(repo).await;
                let before = running.newest().await.commit.revision;
                running.patch(change.0, change.1).await;
                let newest = running.newest().await;
                if newest.commit.revision != before {
                    running.undo(newest.id).await.unwrap();
                }
                assert_eq!(running.file("posts.yml"), Some(file));
                running.stop().await;
            });
        }
    }
}

#[tokio::test]
async fn a_history_that_is_deepened_or_cut_shorter_is_told_anew_at_the_next_question() {
    let repo = Repo::bare();
    let commits: Vec<_> =
        ["A", "B", "C"].map(|name| repo.add_commit(&[("posts.yaml", &named(name))], name)).into();
    let shallow = repo.path().join("shallow");
    let cut_at = |revision: Revision| std::fs::write(&shallow, format!("{revision}\n")).unwrap();
    let whole =
        ["updated posts (name B C)", "updated posts (name A B)", "created posts (type - document, name - A)"];
    let cut = ["updated posts (name B C)", "created posts (! collections/posts.yaml:1:1)"];
    cut_at(commits[1]);
    let running = Running::on(repo).await;
    assert_eq!(events(&running.history.view().await.unwrap()), cut);
    std::fs::remove_file(&shallow).unwrap();
    assert_eq!(events(&running.history.view().await.unwrap()), whole);
    cut_at(commits[1]);
    assert_eq!(events(&running.history.view().await.unwrap()), cut);
    // A shallow commit that the branch never had changes nothing.
    std::fs::write(&shallow, format!("{}\n{}\n", commits[1], "7".repeat(40))).unwrap();
    assert_eq!(events(&running.history.view().await.unwrap()), cut);
    running.stop().await;
}

#[test]
fn a_kept_index_of_a_shallow_clone_is_not_taken_for_a_whole_one() {
    let repo = Repo::bare();
    let mut commits: Vec<_> = Vec::new();
    for n in 0..1200 {
        commits.push(repo.add_commit(&[("posts.yaml", &named(&format!("N{n}")))], "n"));
    }
    let shallow = repo.path().join("shallow");
    std::fs::write(&shallow, format!("{}\n", commits[100])).unwrap();
    assert_eq!(read(&repo).commits_len(), 1100);
    assert!(repo.archive().read_cached("history-index").unwrap().is_some(), "it was kept");
    std::fs::remove_file(&shallow).unwrap();
    assert_eq!(read(&repo).commits_len(), 1200);
}
