//! Merges made by the service: which events they have, and which followers receive them.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use tokio::sync::watch;

use crate::domain::{Value, changes};
use crate::engine::PublishedHead;
use crate::engine::history::query::filter::Bound;
use crate::engine::history::tests::*;
use crate::random::cases;
use crate::store::git::testing::{CommitSpec, NewEntry};

/// The collections as a follower of the events has them.
type Held = BTreeMap<Key, BTreeMap<String, Value>>;

const MERGED: &str = "Merge 1 commit made here with what the remote has\n\nCollectory-Origin: merge\n";

/// Two sides of a branch and the merge of them.
struct Merged {
    repo: Repo,
    base: Revision,
    theirs: Vec<Revision>,
    ours: Vec<Revision>,
    merge: Revision,
}

impl Merged {
    /// Makes the commits from the file of `posts` in the base, in each commit of the sides, and in the merge.
    fn of(base: Option<&str>, theirs: &[Option<&str>], ours: &[Option<&str>], merged: Option<&str>) -> Self {
        let repo = Repo::bare();
        let put = |parents: &[Revision], text: Option<&str>, message: &str, at: i64| {
            let exists = parents.first().is_some_and(|parent| repo.show(*parent, "posts.yaml").is_some());
            let files = match text {
                Some(text) => vec![("posts.yaml", NewEntry::File(text.to_owned()))],
                None if exists => vec![("posts.yaml", NewEntry::Nothing)],
                None => Vec::new(),
            };
            let (author, committer, files) = (MARA, SERVICE, files.as_slice());
            repo.make(&CommitSpec { parents, files, message, author, committer, at })
        };
        let root = put(&[], base, "base", 1);
        let line = |side: &[Option<&str>], from: i64| {
            let mut revisions = Vec::new();
            for (text, at) in side.iter().zip(from..) {
                let parent = revisions.last().copied().unwrap_or(root);
                revisions.push(put(&[parent], *text, "one side", at));
            }
            revisions
        };
        let (theirs, ours) = (line(theirs, 100), line(ours, 200));
        let merge = put(&[*theirs.last().unwrap(), *ours.last().unwrap()], merged, MERGED, 300);
        repo.point("refs/heads/main", merge);
        Self { repo, base: root, theirs, ours, merge }
    }

    /// Returns the events of the merge.
    fn events(&self) -> Vec<String> {
        read(&self.repo).events_of(self.merge).unwrap().iter().map(|event| line(event)).collect()
    }
}

fn document(attributes: &str) -> String {
    format!("type: document\n{attributes}")
}

fn served(view: &View, revision: Revision) -> Held {
    let entries = view.as_of(revision).unwrap();
    let attributes = |entry: &crate::engine::Entry| {
        let all = changes(None, Some(&entry.collection));
        all.into_iter().map(|it| (it.attribute, it.to.unwrap())).collect()
    };
    entries.entries.iter().map(|(key, entry)| (key.clone(), attributes(entry))).collect()
}

/// Applies an event to what a follower has.
fn follow(followed: &mut Held, event: &EventRecord) {
    let has = followed.entry(event.key.clone()).or_default();
    if event.action != Action::Updated {
        has.clear();
    }
    if let (Effect::Changes(changes), false) = (&event.effect, event.action == Action::Deleted) {
        for change in changes {
            has.remove(&change.attribute);
            has.extend(change.to.clone().map(|value| (change.attribute.clone(), value)));
        }
    }
    if has.is_empty() {
        followed.remove(&event.key);
    }
}

/// Returns the events that a follower at a commit receives, oldest first; all events without a commit.
fn heard(view: &View, since: Option<Revision>) -> Vec<Arc<EventRecord>> {
    let since = since.map(|revision| Bound::Revision { asked: revision.to_string(), revision });
    let filter = Filter { since, ..Filter::default() };
    let page = view.events_and_total(&filter, &EventPageQuery::first(1000)).unwrap();
    assert_eq!(page.0.events.len(), page.1, "what is counted is listed");
    page.0.events.into_iter().rev().collect()
}

#[test]
fn a_clone_that_begins_at_a_merge_has_a_history() {
    let (a, b, c) = (document("name: A\n"), document("name: B\n"), document("name: C\n"));
    let merged = Merged::of(Some(&a), &[Some(&b)], &[Some(&c)], Some(&b));
    let git = merged.repo.path();
    std::fs::write(git.join("shallow"), format!("{}\n", merged.merge)).unwrap();
    for lost in [merged.theirs[0], merged.ours[0]] {
        let id = lost.to_string();
        std::fs::remove_file(git.join("objects").join(&id[..2]).join(&id[2..])).unwrap();
    }
    assert_eq!(read(&merged.repo).commits_len(), 1);
}

#[test]
fn what_a_merge_brought_in_is_blamed_on_what_it_came_from() {
    let (a, b, c) = (document("name: A\nx-x: 1\n"), document("name: A\n"), document("name: C\nx-x: 1\n"));
    let merged = Merged::of(Some(&a), &[Some(&b)], &[Some(&c)], Some(&document("name: C\n")));
    let view = read(&merged.repo);
    let blamed = view.blame(&key("posts"), Some(merged.ours[0]), &|_| true).unwrap();
    let by: Vec<_> = blamed.iter().map(|it| (it.attribute.as_str(), it.event.commit.revision)).collect();
    assert_eq!(by, [("type", merged.base), ("name", merged.ours[0]), ("x-x", merged.base)]);
}

#[test]
fn a_merge_that_decided_nothing_tells_nothing_and_its_file_counts_all_the_same() {
    let (a, b) = (document("name: A\n"), document("name: B\n"));
    let (x, both) = (document("name: A\nx-x: 1\n"), document("name: B\nx-x: 1\n"));
    let merged = Merged::of(Some(&a), &[Some(&x)], &[Some(&b)], Some(&both));
    assert_eq!(merged.events(), [""; 0]);
    let view = read(&merged.repo);
    assert_eq!(view.events_len(), 3);
    assert_eq!(
        events(&view),
        ["updated posts (name A B)", "updated posts (x-x - 1)", "created posts (type - document, name - A)"]
    );
    let blamed = view.blame(&key("posts"), None, &|_| true).unwrap();
    let by = |name: &str| blamed.iter().find(|it| it.attribute == name).unwrap().event.commit.revision;
    assert_eq!([by("name"), by("x-x"), by("type")], [merged.ours[0], merged.theirs[0], merged.base]);
    let last = view.last_change(&key("posts"), None).unwrap();
    assert_eq!(last.id, heard(&view, None)[2].id);
    let days = view.events_by_day(&Filter::default()).unwrap();
    assert_eq!(days.values().sum::<usize>(), 3);
    assert_eq!(view.events_after(None, &Filter::default()), 3);
    // The next commit is compared with the content of the merge.
    let next = merged.repo.add_commit(&[("posts.yaml", &document("name: C\nx-x: 1\n"))], "next");
    let view = read(&merged.repo);
    assert_eq!(line(&view.events_of(next).unwrap()[0]), "updated posts (name B C)");
}

#[test]
fn a_range_that_begins_or_ends_on_one_side_of_a_merge_has_what_the_other_side_has_not() {
    let [a, b, c] = ["A", "B", "C"].map(|name| document(&format!("name: {name}\n")));
    let merged = Merged::of(Some(&a), &[Some(&b)], &[Some(&c)], Some(&b));
    let view = read(&merged.repo);
    let (theirs, ours, merge) = (merged.theirs[0], merged.ours[0], merged.merge);
    let line = |after, until| view.line(after, until).unwrap();
    assert_eq!(line(Some(ours), None), [theirs, merge]);
    assert_eq!(line(Some(theirs), Some(merge)), [ours, merge]);
    assert_eq!(line(None, Some(ours)), [merged.base, ours]);
    assert_eq!(line(None, None), [merged.base, theirs, ours, merge]);
}

#[test]
fn a_time_names_what_the_first_parents_of_a_merge_had_then() {
    let (a, b) = (document("name: A\n"), document("name: B\n"));
    let (x, both) = (document("name: A\nx-x: 1\n"), document("name: B\nx-x: 1\n"));
    let merged = Merged::of(Some(&a), &[Some(&x)], &[Some(&b)], Some(&both));
    let view = read(&merged.repo);
    let at = |seconds| view.at_time(chrono::DateTime::from_timestamp(seconds, 0).unwrap());
    let (first, theirs, merge) = (Some(merged.base), Some(merged.theirs[0]), Some(merged.merge));
    assert_eq!([0, 50, 150, 250, 300].map(at), [None, first, theirs, theirs, merge]);
}

/// Returns what a subscriber can receive now.
async fn heard_now(subscription: &mut Subscription) -> Vec<String> {
    let mut heard = Vec::new();
    while let Some(next) = subscription.next_known().await.unwrap() {
        heard.push(match next {
            Followed::Event(event) => event.position.to_string(),
            Followed::Reset(_) => "reset".to_owned(),
            Followed::CaughtUp(revision) => format!("up to {revision}"),
        });
    }
    heard
}

#[tokio::test]
async fn who_follows_over_a_merge_hears_each_event_once_and_comes_back_behind_the_merge() {
    let [a, b, c] = ["A", "B", "C"].map(|name| document(&format!("name: {name}\n")));
    let [x, y] = [1, 2].map(|x| document(&format!("name: A\nx-x: {x}\n")));
    let both = document("name: C\nx-x: 2\n");
    let merged = Merged::of(Some(&a), &[Some(&x), Some(&y)], &[Some(&b), Some(&c)], Some(&both));
    let Merged { repo, base, theirs, ours, merge } = &merged;
    let (tell, heads) = watch::channel(PublishedHead::At(theirs.last().copied()));
    let (history, thread) = History::start(repo.archive(), heads, Options::new("collections")).unwrap();
    history.ready().await.unwrap();
    let mut from_start = history.subscribe_from_start(Filter::default());
    let mut from_now = history.subscribe(None, Filter::default());
    let shown = |revisions: &[Revision]| revisions.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(heard_now(&mut from_start).await, shown(&[*base, theirs[0], theirs[1]]));
    assert_eq!(heard_now(&mut from_now).await, [""; 0]);

    tell.send_replace(PublishedHead::At(Some(*merge)));
    history.view().await.unwrap();
    let up_to = [format!("up to {merge}")];
    for subscription in [&mut from_start, &mut from_now] {
        assert_eq!(heard_now(subscription).await, [&shown(ours)[..], &up_to].concat());
        assert_eq!(subscription.head_if_caught_up(), Some(*merge));
    }
    // A subscriber that resumes at the merge has everything; one at a side's last commit lacks the other side.
    let events =
        async |at: Revision| heard_now(&mut history.subscribe(Some(at.into()), Filter::default())).await;
    assert_eq!(events(*merge).await, [""; 0]);
    assert_eq!(events(theirs[1]).await, [&shown(ours)[..], &up_to].concat());
    assert_eq!(events(ours[1]).await, [&shown(theirs)[..], &up_to].concat());
    let mut all = history.subscribe_from_start(Filter::default());
    assert_eq!(
        heard_now(&mut all).await,
        [&shown(&[*base])[..], &shown(theirs), &shown(ours), &up_to].concat()
    );
    tell.send_replace(PublishedHead::Ended);
    tokio::task::spawn_blocking(move || thread.join().unwrap()).await.unwrap();
}

#[test]
fn the_event_of_a_merge_that_told_nothing_is_no_event() {
    let (a, b, x) = (document("name: A\n"), document("name: B\n"), document("name: A\nx-x: 1\n"));
    let merged = Merged::of(Some(&a), &[Some(&x)], &[Some(&b)], Some(&document("name: B\nx-x: 1\n")));
    let view = read(&merged.repo);
    let id = crate::engine::history::event::stable_id(merged.merge, &key("posts"));
    assert!(matches!(view.event(id), Err(HistoryError::UnknownEvent(_))));
    assert!(view.key_of(id).is_none());
}

#[test]
fn of_an_attribute_that_both_changed_the_merge_tells_which_value_stays() {
    let (a, b, c) = (document("name: A\n"), document("name: B\n"), document("name: C\n"));
    let merged = Merged::of(Some(&a), &[Some(&b)], &[Some(&c)], Some(&b));
    assert_eq!(merged.events(), ["updated posts (name C B)"]);
}

#[test]
fn what_one_side_took_back_itself_is_told_for_who_hears_it_last() {
    let (a, b, c) = (document("name: A\n"), document("name: B\n"), document("name: C\n"));
    // In a list: C, then B, then A again.
    let merged = Merged::of(Some(&a), &[Some(&c)], &[Some(&b), Some(&a)], Some(&c));
    assert_eq!(merged.events(), ["updated posts (name A C)"]);
    // For a follower at C: B, then A again. In a list, C gave the value.
    let merged = Merged::of(Some(&a), &[Some(&b), Some(&a)], &[Some(&c)], Some(&c));
    assert_eq!(merged.events(), ["updated posts (name A C)"]);
    let blamed = read(&merged.repo).blame(&key("posts"), None, &|_| true).unwrap();
    let name = blamed.iter().find(|it| it.attribute == "name").unwrap();
    assert_eq!(name.event.commit.revision, merged.ours[0]);
}

#[test]
fn what_one_side_deleted_and_the_merge_keeps_is_told_as_created() {
    let (a, b) = (document("name: A\n"), document("name: B\n"));
    let whole = ["created posts (type - document, name - B)"];
    assert_eq!(Merged::of(Some(&a), &[None], &[Some(&b)], Some(&b)).events(), whole);
    assert_eq!(Merged::of(Some(&a), &[Some(&b)], &[None], Some(&b)).events(), whole);
    assert_eq!(Merged::of(Some(&a), &[None], &[None], None).events(), [""; 0]);
}

#[test]
fn of_a_collection_that_both_created_the_merge_tells_what_neither_way_has() {
    let (x, y) = (document("name: A\nx-x: 1\n"), document("name: A\nx-y: 1\n"));
    let merged = Merged::of(None, &[Some(&x)], &[Some(&y)], Some(&document("name: A\nx-x: 1\nx-y: 1\n")));
    assert_eq!(merged.events(), ["updated posts (x-x - 1, x-y - 1)"]);
    assert_eq!(Merged::of(None, &[Some(&x)], &[Some(&x)], Some(&x)).events(), [""; 0]);
    let commented = format!("# mine\n{x}");
    assert_eq!(Merged::of(None, &[Some(&x)], &[Some(&commented)], Some(&x)).events(), [""; 0]);
}

#[test]
fn a_merge_tells_the_same_when_its_index_was_kept() {
    use crate::engine::history::index::persist;
    let (a, b, x) = (document("name: A\n"), document("name: B\n"), document("name: A\nx-x: 1\n"));
    let merged = Merged::of(Some(&a), &[Some(&x)], &[Some(&b)], Some(&document("name: B\nx-x: 1\n")));
    let view = read(&merged.repo);
    let bytes = persist::write(&view.index, &[0; 32]);
    let index = persist::read(&bytes, &[0; 32], &|text| Key::parse(text).ok()).unwrap();
    let events = 0..index.events_len();
    assert_eq!(index.suppressed(events.clone()).collect::<Vec<_>>(), [3]);
    assert_eq!(view.index.suppressed(events).collect::<Vec<_>>(), [3]);
}

/// The file of a random commit: none, a good or a broken one.
fn file() -> impl Strategy<Value = Option<String>> {
    let value = || prop::option::of(0..3_u8);
    let good = (value(), value()).prop_map(|(name, x)| {
        let name = name.map(|name| format!("name: N{name}\n")).unwrap_or_default();
        let x = x.map(|x| format!("x-x: {x}\n")).unwrap_or_default();
        Some(document(&format!("{name}{x}")))
    });
    prop_oneof![1 => Just(None), 6 => good, 1 => Just(Some("type: document\nname: [\n".to_owned()))]
}

proptest! {
    #![proptest_config(cases(64))]

    /// Whatever the two sides changed, and whatever the result of the merge.
    #[test]
    fn whoever_follows_the_events_from_anywhere_ends_at_what_the_merge_holds(
        base in file(),
        theirs in prop::collection::vec(file(), 1..4),
        ours in prop::collection::vec(file(), 1..4),
        merged in file().prop_filter("it can be read", |it| it.as_ref().is_none_or(|it| !it.contains('['))),
    ) {
        let theirs: Vec<Option<&str>> = theirs.iter().map(Option::as_deref).collect();
        let ours: Vec<Option<&str>> = ours.iter().map(Option::as_deref).collect();
        let made = Merged::of(base.as_deref(), &theirs, &ours, merged.as_deref());
        let view = read(&made.repo);
        let end = served(&view, made.merge);
        let all = heard(&view, None);
        let ids: BTreeSet<_> = all.iter().map(|event| event.id).collect();
        let mut followed = Held::new();
        all.iter().for_each(|event| follow(&mut followed, event));
        prop_assert_eq!(&followed, &end, "from the start");
        let mut is_right_without = true;
        for at in [made.base].iter().chain(&made.theirs).chain(&made.ours) {
            let mut followed = served(&view, *at);
            let events = heard(&view, Some(*at));
            for event in events.iter().filter(|event| event.commit.revision != made.merge) {
                follow(&mut followed, event);
            }
            is_right_without &= followed == end;
            events.iter().filter(|event| event.commit.revision == made.merge).for_each(|event| {
                follow(&mut followed, event);
            });
            prop_assert!(events.iter().all(|event| ids.contains(&event.id)));
            prop_assert_eq!(&followed, &end, "from {}", at);
        }
        let of_merge = view.events_of(made.merge).unwrap();
        let could_be_read = all.iter().all(|event| matches!(event.effect, Effect::Changes(_)));
        if could_be_read && of_merge.iter().all(|event| event.action == Action::Updated) {
            prop_assert_eq!(of_merge.is_empty(), is_right_without, "told where it is needed");
        }
    }
}
