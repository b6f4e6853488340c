//! Derives the order of the commits and checks that each answer is true at one place in it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Instant;

use super::calls::{Call, Operation, Outcome};
use super::person::Saves;
use crate::support::Repo;

/// The service searches at least this many commits for the base version of a merge.
const COMMITS_SEARCHED: usize = 100;

type State = BTreeMap<String, String>;

/// The history of the branch: the state after each commit, and the call that made it. A rewrite of the branch gets
/// its own places, so a revision may have several places, and a call may have been done more than once.
pub(crate) struct BranchHistory {
    pub(crate) places: HashMap<String, Vec<usize>>,
    pub(crate) states: Vec<State>,
    pub(crate) by_id: HashMap<String, Vec<usize>>,
    /// The places that the branch reached by a move that removed commits.
    pub(crate) taken_back: Vec<usize>,
}

/// A commit: its parent, the state after it, and the call that made it.
struct Commit {
    parent: Option<String>,
    state: State,
    id: Option<String>,
}

impl BranchHistory {
    /// Reads the order of the commits of a branch.
    pub(crate) fn of(repo: &Repo) -> Self {
        let line = Self::through(repo, &[repo.head()]);
        for (id, places) in &line.by_id {
            assert_eq!(places.len(), 1, "{id} was done twice");
        }
        line
    }

    /// Like [`of`](Self::of), for a branch whose reflog has every move since `start` (`core.logAllRefUpdates`).
    pub(crate) fn of_moves(repo: &Repo, start: &str) -> Self {
        let log =
            std::fs::read_to_string(repo.git_folder().join("logs/refs/heads/main")).expect("it was noted");
        let mut heads = vec![start.to_owned()];
        for line in log.lines() {
            let (from, to) = line.split_once(' ').expect("each tells from where to where");
            assert_eq!(
                Some(from),
                heads.last().map(String::as_str),
                "a move is missing, git has tidied the log"
            );
            heads.push(to.split(' ').next().unwrap_or_default().to_owned());
        }
        assert_eq!(heads.last(), repo.tip("main").as_ref(), "the last moves are missing");
        Self::through(repo, &heads)
    }

    fn through(repo: &Repo, heads: &[String]) -> Self {
        let commits = commits(repo);
        let mut line = Self {
            places: HashMap::new(),
            states: vec![State::new()],
            by_id: HashMap::new(),
            taken_back: Vec::new(),
        };
        let mut at = None;
        for head in heads {
            let way = way(&commits, at, head);
            if way.first().is_some_and(|first| at.is_some() && commits[first].parent.as_ref() != at) {
                line.taken_back.push(line.states.len());
            }
            for revision in way {
                let commit = &commits[&revision];
                let place = line.states.len();
                line.states.push(commit.state.clone());
                line.places.entry(revision).or_default().push(place);
                commit.id.iter().for_each(|id| line.by_id.entry(id.clone()).or_default().push(place));
            }
            at = Some(head);
        }
        line
    }

    /// Returns the known places of a call: those of a read's revision, or of a write's commit.
    fn places(&self, call: &Call) -> &[usize] {
        match (&call.answered, &call.asked) {
            (Outcome::Seen(revision, _), _) => self.at(revision, call),
            (Outcome::Done(_), _) => {
                self.by_id.get(&call.id).unwrap_or_else(|| panic!("acknowledged and lost: {call:?}"))
            }
            (Outcome::Refused | Outcome::NotNow | Outcome::Lost, _) => &[],
        }
    }

    pub(super) fn at(&self, revision: &str, call: &Call) -> &[usize] {
        match self.places.get(revision) {
            Some(places) => places,
            None if revision.is_empty() => &[0],
            None => panic!("the branch never had {revision}: {call:?}"),
        }
    }

    /// Reports whether a refusal may be right at a place. A merge may also be refused if its base version is too many
    /// commits back, or may have been removed from the branch, although another version has its name.
    fn may_refuse(&self, asked: &Operation, place: usize) -> bool {
        let is_out_of_sight = |name: &str| {
            let given = self.by_id.get(name).and_then(|places| places.iter().rfind(|given| **given <= place));
            given.is_none_or(|given| {
                given + COMMITS_SEARCHED <= place
                    || self.taken_back.iter().any(|at| (given + 1..=place).contains(at))
            })
        };
        self.refuses(asked, place) || matches!(asked, Operation::Merge(_, name) if is_out_of_sight(name))
    }

    /// Reports whether only a refusal is right at a place.
    fn refuses(&self, asked: &Operation, place: usize) -> bool {
        let name = |key: &str| self.states[place].get(key);
        match asked {
            Operation::List => false,
            Operation::Create(key) => name(key).is_some(),
            Operation::Read(key)
            | Operation::Delete(key)
            | Operation::Label(key)
            | Operation::Update(key, None) => name(key).is_none(),
            Operation::Update(key, Some(expected)) | Operation::Merge(key, expected) => {
                name(key) != Some(expected)
            }
            Operation::Both(keys) => keys.iter().any(|key| name(key).is_none()),
        }
    }
}

/// Returns all commits that the branch ever had.
fn commits(repo: &Repo) -> HashMap<String, Commit> {
    let log = repo.git(&[
        "log",
        "--all",
        "--reflog",
        "--topo-order",
        "--reverse",
        "--first-parent",
        "-p",
        "-U0",
        "--no-renames",
        "--format=%x01%H %P%n%B%x02",
    ]);
    let mut commits: HashMap<String, Commit> = HashMap::new();
    for commit in log.split('\u{1}').skip(1) {
        let (message, changes) = commit.split_once('\u{2}').expect("each has both");
        let (ids, body) = message.split_once('\n').expect("the ids stand alone");
        let mut ids = ids.split_whitespace().map(str::to_owned);
        let (revision, parent) = (ids.next().expect("an id"), ids.next());
        let is_id = |text: &&str| text.starts_with('c') && text[1..].contains('n') && !text.contains(' ');
        let id = body.lines().find(is_id).map(str::to_owned);
        let mut state = parent.as_ref().map(|parent| commits[parent].state.clone()).unwrap_or_default();
        for change in changes.split("diff --git a/collections/").skip(1) {
            let key = change.split(".yaml").next().expect("a file").to_owned();
            match change.lines().find_map(|text| text.strip_prefix("+name: ")) {
                Some(name) => drop(state.insert(key, name.to_owned())),
                None if change.contains("\ndeleted file mode") => drop(state.remove(&key)),
                None => {}
            }
        }
        commits.insert(revision, Commit { parent, state, id });
    }
    commits
}

/// Returns the commits from one head to the next; if the next does not descend from the first, only itself.
fn way(commits: &HashMap<String, Commit>, from: Option<&String>, to: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut next = Some(to.to_owned());
    while let Some(revision) = next.filter(|revision| Some(revision) != from) {
        next = commits[&revision].parent.clone();
        let is_root = next.is_none();
        found.push(revision);
        if is_root && from.is_some() {
            return vec![to.to_owned()];
        }
    }
    found.reverse();
    found
}

/// The known places of calls, which limit the possible places of other calls.
struct Clock {
    /// By the end of each call, the last place known until then.
    ended: Vec<(Instant, usize)>,
    /// By the start of each call, the first place known from then on.
    began: Vec<(Instant, usize)>,
}

impl Clock {
    fn of(calls: &[Call], line: &BranchHistory) -> Self {
        let placed = || {
            calls.iter().filter_map(|call| match line.places(call) {
                [place] => Some((call, *place)),
                _ => None,
            })
        };
        let mut ended: Vec<_> = placed().map(|(call, place)| (call.ended, place)).collect();
        ended.sort_unstable();
        let mut last = 0;
        ended.iter_mut().for_each(|(_, place)| {
            last = last.max(*place);
            *place = last;
        });
        // A read that may be stale can show an old place at any time, so it is no limit.
        let newest = placed().filter(|(call, _)| call.is_latest);
        let mut began: Vec<_> = newest.map(|(call, place)| (call.began, place)).collect();
        began.sort_unstable();
        let mut first = usize::MAX;
        began.iter_mut().rev().for_each(|(_, place)| {
            first = first.min(*place);
            *place = first;
        });
        Self { ended, began }
    }

    fn not_before(&self, call: &Call) -> usize {
        let before = self.ended.partition_point(|(ended, _)| *ended < call.began);
        before.checked_sub(1).map_or(0, |at| self.ended[at].1)
    }

    fn not_after(&self, call: &Call) -> usize {
        let after = self.began.partition_point(|(began, _)| *began <= call.ended);
        self.began.get(after).map_or(usize::MAX, |(_, place)| *place)
    }
}

/// Judges every call. `saves` judges reads of collections that people save.
pub(crate) fn judge(calls: &[Call], line: &BranchHistory, saves: &Saves) {
    let clock = Clock::of(calls, line);
    saves.judge(calls, line);
    for call in calls {
        let (low, high) = (clock.not_before(call), clock.not_after(call).min(line.states.len() - 1));
        let low = if call.is_latest { low } else { 0 };
        let places = line.places(call);
        match &call.answered {
            Outcome::Seen(..) => {
                let is_right = places.iter().any(|place| (low..=high).contains(place));
                assert!(is_right, "stale: {low}..={high} and not {places:?}: {call:?}");
            }
            Outcome::Done(revision) => {
                let place = places.iter().copied().find(|place| low < *place && *place <= high);
                let Some(place) = place else {
                    panic!("out of order: {low}..={high} and not {places:?}: {call:?}");
                };
                let is_after = line.at(revision, call).iter().any(|at| place <= *at);
                assert!(is_after, "answered from before it was done: {call:?}");
                assert!(!line.refuses(&call.asked, place - 1), "it had to be refused: {call:?}");
                let (keys, name) = match &call.asked {
                    Operation::Create(key) | Operation::Update(key, _) | Operation::Merge(key, _) => {
                        (vec![*key], Some(&call.id))
                    }
                    Operation::Label(_) => (Vec::new(), None),
                    Operation::Delete(key) => (vec![*key], None),
                    Operation::Both(keys) => (keys.to_vec(), Some(&call.id)),
                    Operation::Read(_) | Operation::List => unreachable!("these are seen"),
                };
                for key in keys {
                    assert_eq!(line.states[place].get(key), name, "{call:?}");
                }
            }
            Outcome::Refused => {
                let is_right =
                    (low..=high).any(|place| line.may_refuse(&call.asked, place)) || saves.refuse(call, low);
                assert!(is_right, "refused without a reason: {call:?}");
            }
            Outcome::NotNow => {
                assert!(!line.by_id.contains_key(&call.id), "refused and done: {call:?}");
            }
            Outcome::Lost => {
                let first = line.by_id.get(&call.id).and_then(|places| places.first());
                assert!(first.is_none_or(|place| low < *place), "done before it was asked: {call:?}");
            }
        }
    }
    never_back(calls, line);
    let asked: HashSet<_> = calls.iter().map(|call| &call.id).collect();
    assert!(line.by_id.keys().all(|id| asked.contains(id)), "a commit that nobody asked for");
}

/// Checks that the reads on one connection never go back.
fn never_back(calls: &[Call], line: &BranchHistory) {
    let mut shown: HashMap<(usize, usize), usize> = HashMap::new();
    for call in calls.iter().filter(|call| matches!(call.answered, Outcome::Seen(..))) {
        let last = shown.entry(call.connection).or_default();
        let next = line.places(call).iter().copied().find(|place| *place >= *last);
        *last = next.unwrap_or_else(|| panic!("back before {last}: {call:?}"));
    }
}
