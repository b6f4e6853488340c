//! The expected history, from git's output and from the intended meaning of each file. Only `git ls-tree` and
//! `git log` are parsed here.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use serde_json::{Value, json};
use sha1::{Digest as _, Sha1};

use crate::support::Repo;

/// The attributes of a collection by their wire names.
pub(super) type Attributes = BTreeMap<String, Value>;

/// The expected state at one commit.
#[derive(Debug, Default)]
pub(super) struct ExpectedState {
    /// The file that counts for each key: its name and blob.
    pub(super) files: BTreeMap<String, (String, String)>,
    /// Keys that have files with both endings.
    pub(super) twins: BTreeSet<String>,
    /// What is served: the blob and its attributes. For a broken file, its last good version.
    pub(super) served: BTreeMap<String, (String, Attributes)>,
}

/// What one commit did to one key.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ExpectedEvent {
    /// The event id in the stream.
    pub(super) position: String,
    pub(super) revision: String,
    pub(super) key: String,
    pub(super) action: &'static str,
    pub(super) actor: String,
    pub(super) at: i64,
    /// The attributes that changed, by name; `None` where the file is broken.
    pub(super) changes: Option<BTreeMap<String, Value>>,
}

#[derive(Debug, Clone)]
struct Commit {
    parent: Option<String>,
    author: String,
    at: i64,
}

/// Combines what git reports with what the test knows about its files.
#[derive(Debug, Default)]
pub(super) struct Oracle {
    /// By blob; `None` for a broken file.
    meanings: HashMap<String, Option<Attributes>>,
    commits: HashMap<String, Commit>,
    states: HashMap<String, Rc<ExpectedState>>,
}

impl Oracle {
    /// Records the meaning of a file before anything else reads it.
    pub(super) fn means(&mut self, content: &[u8], meaning: Option<Attributes>) {
        let mut hasher = Sha1::new();
        hasher.update(format!("blob {}\0", content.len()));
        hasher.update(content);
        let blob = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        self.blob_means(blob, meaning);
    }

    /// Like [`means`](Self::means), for a file that git already has.
    pub(super) fn blob_means(&mut self, blob: String, meaning: Option<Attributes>) {
        let known = self.meanings.entry(blob).or_insert_with(|| meaning.clone());
        assert_eq!(*known, meaning, "the same bytes mean the same");
    }

    /// Returns the commits along first parents, oldest first.
    pub(super) fn line(&mut self, repo: &Repo, from: &str) -> Vec<String> {
        let mut line = vec![from.to_owned()];
        while let Some(parent) = self.parent(repo, line.last().expect("it has one")) {
            line.push(parent);
        }
        line.reverse();
        line
    }

    /// Returns every commit reachable from `from`.
    pub(super) fn reached(&mut self, repo: &Repo, from: &str) -> Vec<String> {
        self.learn(repo, from);
        repo.git(&["rev-list", from]).lines().map(str::to_owned).collect()
    }

    fn learn(&mut self, repo: &Repo, from: &str) {
        if self.commits.contains_key(from) {
            return;
        }
        let log = repo.git(&["log", "--format=%H%x00%P%x00%an%x00%ct", from]);
        for line in log.lines() {
            let [id, parents, author, at] = line.split('\0').collect::<Vec<_>>()[..] else {
                panic!("git log said {line:?}")
            };
            let parent = parents.split(' ').next().filter(|id| !id.is_empty()).map(str::to_owned);
            let at = at.parse().expect("a time is a number");
            self.commits.insert(id.to_owned(), Commit { parent, author: author.to_owned(), at });
        }
    }

    fn parent(&mut self, repo: &Repo, revision: &str) -> Option<String> {
        self.learn(repo, revision);
        self.commits[revision].parent.clone()
    }

    /// Returns the expected state at a commit.
    pub(super) fn state_at(&mut self, repo: &Repo, revision: &str) -> Rc<ExpectedState> {
        if let Some(state) = self.states.get(revision) {
            return Rc::clone(state);
        }
        let mut open = vec![revision.to_owned()];
        while let Some(revision) = open.last().cloned() {
            let parent = self.parent(repo, &revision);
            match parent.filter(|parent| !self.states.contains_key(parent)) {
                Some(parent) => open.push(parent),
                None => {
                    let state = self.read_state(repo, &revision);
                    self.states.insert(revision, Rc::new(state));
                    open.pop();
                }
            }
        }
        Rc::clone(&self.states[revision])
    }

    fn read_state(&self, repo: &Repo, revision: &str) -> ExpectedState {
        let before = self.commits[revision].parent.as_ref().map(|parent| Rc::clone(&self.states[parent]));
        let mut state = ExpectedState::default();
        for line in repo.git(&["ls-tree", revision, "collections/"]).lines() {
            let (entry, path) = line.split_once('\t').expect("git writes a tab");
            let blob = entry.rsplit(' ').next().expect("git writes the id last").to_owned();
            let name = path.trim_start_matches("collections/");
            let (key, ending) = name.rsplit_once('.').expect("files have endings here");
            if let Some((other, _)) = state.files.get(key) {
                state.twins.insert(key.to_owned());
                if other.ends_with(".yaml") {
                    continue;
                }
            }
            assert!(matches!(ending, "yaml" | "yml"), "{name}");
            state.files.insert(key.to_owned(), (name.to_owned(), blob));
        }
        for (key, (name, blob)) in &state.files {
            let meaning = self.meanings.get(blob);
            let meaning = meaning.unwrap_or_else(|| panic!("nobody made {name} of {revision}: {blob}"));
            let good = meaning.clone().map(|meaning| (blob.clone(), meaning));
            let last = || before.as_ref().and_then(|before| before.served.get(key).cloned());
            if let Some(served) = good.or_else(last) {
                state.served.insert(key.clone(), served);
            }
        }
        state
    }

    /// Reports whether the file of a key is broken at a commit.
    pub(super) fn is_broken(&mut self, repo: &Repo, revision: &str, key: &str) -> bool {
        let state = self.state_at(repo, revision);
        state.files.get(key).is_some_and(|(_, blob)| self.meanings[blob].is_none())
    }

    /// Returns every expected event, oldest first.
    pub(super) fn expected(&mut self, repo: &Repo, head: &str) -> Vec<ExpectedEvent> {
        self.line(repo, head).iter().flat_map(|revision| self.events_of(repo, revision)).collect()
    }

    fn events_of(&mut self, repo: &Repo, revision: &str) -> Vec<ExpectedEvent> {
        let after = self.state_at(repo, revision);
        let parent = self.parent(repo, revision);
        let before = parent.map_or_else(Rc::default, |parent| self.state_at(repo, &parent));
        let keys: BTreeSet<&String> = before.files.keys().chain(after.files.keys()).collect();
        let touched: Vec<&String> =
            keys.into_iter().filter(|key| before.files.get(*key) != after.files.get(*key)).collect();
        let commit = self.commits[revision].clone();
        let one = |(index, key): (usize, &&String)| {
            let (old, new) = (before.files.get(*key), after.files.get(*key));
            let broken = new.is_some_and(|(_, blob)| self.meanings[blob].is_none());
            let served =
                |state: &ExpectedState| state.served.get(*key).map(|(_, it)| it.clone()).unwrap_or_default();
            ExpectedEvent {
                position: if touched.len() > 1 {
                    format!("{revision}/{}", index + 1)
                } else {
                    revision.to_owned()
                },
                revision: revision.to_owned(),
                key: (*key).clone(),
                action: match (old, new) {
                    (None, _) => "created",
                    (_, None) => "deleted",
                    _ => "updated",
                },
                actor: commit.author.clone(),
                at: commit.at,
                changes: (!broken).then(|| differences(&served(&before), &served(&after))),
            }
        };
        touched.iter().enumerate().map(one).collect()
    }

    /// Returns the events after a position in the stream; `None` if the position is not on the first-parent line.
    pub(super) fn events_after(
        &mut self,
        repo: &Repo,
        head: &str,
        place: Option<&str>,
    ) -> Option<Vec<ExpectedEvent>> {
        let line = self.line(repo, head);
        let Some(place) = place else { return Some(self.expected(repo, head)) };
        let (revision, seen) = place.split_once('/').unwrap_or((place, ""));
        let at = line.iter().position(|it| it == revision)?;
        let mut expected: Vec<ExpectedEvent> = self.events_of(repo, revision);
        expected.drain(..seen.parse().unwrap_or(expected.len()));
        expected.extend(line[at + 1..].iter().flat_map(|revision| self.events_of(repo, revision)));
        Some(expected)
    }
}

/// Returns the differences in the form of an event: by attribute name, with the values that exist.
pub(super) fn differences(before: &Attributes, after: &Attributes) -> BTreeMap<String, Value> {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let differing = names.into_iter().filter(|name| before.get(*name) != after.get(*name));
    let change = |name: &String| {
        let mut change = json!({"attribute": name});
        for (side, value) in [("from", before.get(name)), ("to", after.get(name))] {
            if let Some(value) = value {
                change[side] = value.clone();
            }
        }
        (name.clone(), change)
    };
    differing.map(change).collect()
}
