//! Random histories: hand commits, broken files, merges, rewrites.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tokio::sync::watch;

use crate::domain::Collection;
use crate::engine::PublishedHead;
use crate::engine::history::tests::*;
use crate::random::cases;
use crate::store::git::testing::{CommitSpec, NewEntry};

/// A step of a random history.
#[derive(Debug, Clone)]
enum Act {
    /// A commit with these changes of files, as indexes of names and contents.
    Commit(Vec<(usize, usize)>),
    /// A side branch of two commits, merged with its first parent on the main line or on the side.
    Merge(Vec<(usize, usize)>, bool),
    /// Moves the branch back by this many commits.
    Rewind(usize),
}

const NAMES: [&str; 7] = ["a.yaml", "a.yml", "b.yaml", "c.yml", "B.yaml", "README.md", "no key.yaml"];

fn contents() -> Vec<NewEntry> {
    let text = |text: &str| NewEntry::File(text.to_owned());
    vec![
        NewEntry::Nothing,
        text("type: document\nname: One\n"),
        text("# with a comment\ntype: document\nname: One\n"),
        text("type: document\nname: Two\nrecursive: true\n"),
        text("type: media\nname: Two\n"),
        text("type: document\nname: [\n"),
        text(""),
        NewEntry::Link,
    ]
}

fn act() -> impl Strategy<Value = Act> {
    let puts = || prop::collection::vec((0..NAMES.len(), 0..contents().len()), 1..4);
    prop_oneof![
        8 => puts().prop_map(Act::Commit),
        2 => (puts(), any::<bool>()).prop_map(|(puts, swapped)| Act::Merge(puts, swapped)),
        1 => (1..4_usize).prop_map(Act::Rewind),
    ]
}

fn commit(repo: &Repo, parents: &[Revision], puts: &[(usize, usize)], n: usize) -> Revision {
    let mut chosen: BTreeMap<&str, NewEntry> = BTreeMap::new();
    for (name, content) in puts {
        let (name, put) = (NAMES[*name], contents()[*content].clone());
        let exists = parents.first().is_some_and(|parent| repo.show(*parent, name).is_some());
        if put != NewEntry::Nothing || exists {
            chosen.insert(name, put);
        }
    }
    let files: Vec<_> = chosen.into_iter().collect();
    let at = 1_000 + i64::try_from(n).unwrap();
    let (files, message) = (files.as_slice(), format!("commit {n}"));
    repo.make(&CommitSpec { parents, files, message: &message, author: MARA, committer: MARA, at })
}

/// Performs one step, and points the branch to the result.
fn perform(repo: &Repo, act: &Act, n: usize) -> Option<Revision> {
    let head = repo.archive().head().unwrap();
    let parents: Vec<_> = head.into_iter().collect();
    let next = match act {
        Act::Commit(puts) => commit(repo, &parents, puts, n),
        Act::Merge(puts, swapped) => {
            let main = commit(repo, &parents, &puts[..1], n);
            let side = commit(repo, &parents, puts, n + 1000);
            let side = commit(repo, &[side], &puts[..1], n + 2000);
            let both = if *swapped { [side, main] } else { [main, side] };
            commit(repo, &both, puts, n + 3000)
        }
        Act::Rewind(back) => {
            let line = repo.archive().first_parents(head?, &|_| false).unwrap().revisions;
            *line.get(*back)?
        }
    };
    repo.point("refs/heads/main", next);
    Some(next)
}

fn parsed(repo: &Repo, revision: Revision, key: &Key) -> Option<Result<Collection, ()>> {
    let file = [format!("{key}.yaml"), format!("{key}.yml")];
    let bytes = file.iter().find_map(|name| repo.show(revision, name))?;
    Some(crate::format::read(key, &bytes).map_err(|_| ()))
}

/// Returns what is served for a key after a line of commits, oldest first: the file, or the file before it broke.
fn served(repo: &Repo, line: &[Revision], key: &Key) -> Option<Collection> {
    line.iter().fold(None, |before, revision| match parsed(repo, *revision, key) {
        None => None,
        Some(Ok(collection)) => Some(collection),
        Some(Err(())) => before,
    })
}

fn keys() -> [Key; 4] {
    ["a", "b", "c", "B"].map(key)
}

fn check_past(repo: &Repo, view: &View) {
    let line = repo.first_parents();
    assert_eq!(view.commits_len(), line.len());
    let mut folded: BTreeMap<Key, Collection> = BTreeMap::new();
    for (at, revision) in line.iter().enumerate() {
        for event in view.events_of(*revision).unwrap() {
            fold(&mut folded, &event);
        }
        let alone = keys().map(|key| view.entry_as_of(*revision, &key).ok());
        let past = view.as_of(*revision).unwrap();
        for (key, alone) in keys().into_iter().zip(alone) {
            assert_eq!(alone.as_ref(), past.entries.get(&key), "{key} alone as of {revision}");
            let wanted = served(repo, &line[..=at], &key);
            assert_eq!(folded.get(&key), wanted.as_ref(), "folded {key} at {revision}");
            let since = |key: &str| {
                let here = |at: usize| parsed(repo, line[at], &self::key(key)).is_some();
                (0..=at).rev().take_while(|at| here(*at)).last()
            };
            // The key that has existed longer hides the other; of equally old ones, the first in byte order does.
            let both = folded.contains_key("b") && folded.contains_key("B");
            let hidden = match key.as_str() {
                "b" => both && since("B") <= since("b"),
                "B" => both && since("b") < since("B"),
                _ => false,
            };
            let found = past.entries.get(&key).map(|entry| &*entry.collection);
            assert_eq!(found, wanted.as_ref().filter(|_| !hidden), "{key} as of {revision}");
        }
    }
}

/// Applies an event's changes, from the event alone.
fn fold(folded: &mut BTreeMap<Key, Collection>, event: &EventRecord) {
    let Effect::Changes(changes) = &event.effect else { return };
    let mut attributes: BTreeMap<String, crate::domain::Value> = BTreeMap::new();
    if let Some(before) = folded.remove(&event.key) {
        let all = crate::domain::changes(None, Some(&before));
        attributes.extend(all.into_iter().map(|it| (it.attribute, it.to.unwrap())));
    }
    for change in changes {
        assert_eq!(attributes.remove(&change.attribute), change.from, "{}", line(event));
        attributes.extend(change.to.clone().map(|value| (change.attribute.clone(), value)));
    }
    if event.action == Action::Deleted {
        assert!(attributes.is_empty(), "a deletion lists everything");
    } else {
        let kind = attributes["type"].as_text().and_then(crate::domain::Kind::parse).unwrap();
        let collection = Collection::new(event.key.clone(), kind, attributes).unwrap();
        folded.insert(event.key.clone(), collection);
    }
}

/// Returns the events of `git log --first-parent` after a revision, as ids of the stream.
fn positions(view: &View, repo: &Repo, behind: Option<Revision>) -> Vec<String> {
    let line = repo.first_parents();
    let from = behind.map_or(0, |behind| line.iter().position(|it| *it == behind).unwrap() + 1);
    let events = line[from..].iter().flat_map(|revision| view.events_of(*revision).unwrap());
    events.map(|event| event.position.to_string()).collect()
}

/// Follows a branch through these acts; the subscriber is dropped and resumed where `cuts` says.
async fn follow(repo: &Repo, acts: &[Act], cuts: &[bool]) {
    let first = commit(repo, &[], &[(0, 1), (2, 1)], 0);
    repo.point("refs/heads/main", first);
    let (tell, heads) = watch::channel(PublishedHead::At(Some(first)));
    let (history, thread) = History::start(repo.archive(), heads, Options::new("collections")).unwrap();
    let view = history.ready().await.unwrap();
    check_past(repo, &view);
    let mut position = Position::from(first);
    let mut subscription = history.subscribe(Some(position), Filter::default());
    // What a reader that starts over at each reset has received, and the revision it started from.
    let (mut began, mut heard) = (first, Vec::new());
    for (n, act) in acts.iter().enumerate() {
        let Some(head) = perform(repo, act, n + 1) else { continue };
        tell.send_replace(PublishedHead::At(Some(head)));
        let view = history.view().await.unwrap();
        assert_eq!(view.head(), Some(head));
        if cuts[n % cuts.len()] {
            subscription = history.subscribe(Some(position), Filter::default());
        }
        while let Some(next) = subscription.next_known().await.unwrap() {
            match next {
                Followed::Event(event) => {
                    position = event.position;
                    heard.push(position.to_string());
                    if cuts[heard.len() % cuts.len()] {
                        subscription = history.subscribe(Some(position), Filter::default());
                    }
                }
                Followed::Reset(revision) => {
                    (began, position) = (revision.unwrap(), revision.unwrap().into());
                    heard.clear();
                }
                Followed::CaughtUp(revision) => position = revision.into(),
            }
        }
        assert_eq!(subscription.head_if_caught_up(), Some(head));
        // A merge whose first parent is the side moves the received commits off the first parents.
        if repo.first_parents().contains(&began) {
            let all = positions(&view, repo, Some(began));
            let known = |it: &&String| all.contains(it);
            assert_eq!(heard.iter().filter(known).collect::<Vec<_>>(), all.iter().collect::<Vec<_>>());
        } else {
            began = head;
            heard.clear();
        }
    }
    check_past(repo, &history.view().await.unwrap());
    tell.send_replace(PublishedHead::Ended);
    tokio::task::spawn_blocking(move || thread.join().unwrap()).await.unwrap();
}

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn events_folded_from_the_first_give_every_past_and_the_stream_gives_every_event_once(
        acts in prop::collection::vec(act(), 1..16),
        cuts in prop::collection::vec(any::<bool>(), 1..8),
    ) {
        let repo = Repo::bare();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(follow(&repo, &acts, &cuts));
    }
}
