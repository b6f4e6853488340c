//! A person who saves files of the work tree during the test and commits now and then, and a judge of which versions
//! may be seen when.
//!
//! Each save sets a unique name, so that the commits show its place: the service commits a saved file before it
//! writes over it. A version that was never committed was replaced by the next save of the same file, and ranks right
//! before that one.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::calls::{Call, Operation, Outcome};
use super::judge::BranchHistory;
use crate::support::{Repo, eventually_sync};

/// A failure lists this many places before and after the one in question.
const PLACES_SHOWN: usize = 8;

/// A failure lists the saves and restarts within this time of the call.
const TIME_SHOWN: Duration = Duration::from_secs(3);

/// How many answers there are between two saves.
const ANSWERS_BETWEEN_SAVES: usize = 20;

/// A person at the work tree.
pub(crate) struct Person {
    pub(crate) repo: Repo,
    pub(crate) seed: u64,
    pub(crate) until: Instant,
    pub(crate) keys: &'static [&'static str],
    pub(crate) answers: Arc<AtomicUsize>,
}

/// A file that was saved.
pub(crate) struct Save {
    key: &'static str,
    name: String,
    began: Instant,
}

impl Person {
    /// Saves until the time is over; the seed alone determines what is saved.
    pub(crate) fn run(self) -> Vec<Save> {
        let mut random = fastrand::Rng::with_seed(self.seed);
        let mut saves = Vec::new();
        loop {
            let enough = self.answers.load(Ordering::Relaxed) + ANSWERS_BETWEEN_SAVES;
            eventually_sync("calls are answered", || {
                (self.answers.load(Ordering::Relaxed) >= enough || Instant::now() >= self.until).then_some(())
            });
            if Instant::now() >= self.until {
                return saves;
            }
            let key = self.keys[random.usize(..self.keys.len())];
            let (name, began) = (format!("h{}", saves.len()), Instant::now());
            if self.save(key, &name, random.bool()) {
                saves.push(Save { key, name, began });
            }
            if random.u8(..4) == 0 {
                // A lock of the service, or a write that was faster, may make these fail.
                let file = format!("collections/{key}.yaml");
                drop(self.repo.try_git(&["add", &file]));
                drop(self.repo.try_git(&["commit", "--quiet", "--message", "By hand", "--", &file]));
            }
        }
    }

    /// Sets the name in the file, as editors do: in place, or by renaming a new file over it. The file and its folder
    /// may not exist.
    fn save(&self, key: &str, name: &str, is_beside: bool) -> bool {
        let path = self.repo.path().join(format!("collections/{key}.yaml"));
        let text = fs::read_to_string(&path).unwrap_or_else(|_| "type: document\nname: none\n".to_owned());
        let lines = text.lines().map(|line| match line.starts_with("name: ") {
            true => format!("name: {name}\n"),
            false => format!("{line}\n"),
        });
        let text: String = lines.collect();
        if !is_beside {
            return fs::write(&path, text).is_ok();
        }
        let beside = path.with_file_name(format!(".{key}.saving"));
        fs::write(&beside, text).and_then(|()| fs::rename(&beside, &path)).is_ok()
    }
}

/// Returns the commits by place, with author, committer and subject.
fn commits(repo: &Repo) -> Vec<String> {
    let log = repo.git(&["log", "--reverse", "--first-parent", "--format=%h %an %cn %ct %s"]);
    std::iter::once(String::new()).chain(log.lines().map(str::to_owned)).collect()
}

/// The rank of a version among a collection's versions: the place of the commit that has it, or of the commit before
/// which it was replaced.
type Rank = (usize, usize);

/// Returns the rank of the version committed at a place.
const fn committed(place: usize) -> Rank {
    (place, usize::MAX)
}

/// All saves, by name.
#[derive(Default)]
pub(crate) struct Saves {
    by_name: HashMap<String, (&'static str, Instant, Rank)>,
    pub(crate) committed: usize,
    commits: Vec<String>,
    /// When the service ended, and when the next one was ready.
    restarts: Vec<(Instant, Instant)>,
}

impl FromIterator<(&'static str, &'static str, Instant, Rank)> for Saves {
    fn from_iter<S: IntoIterator<Item = (&'static str, &'static str, Instant, Rank)>>(saves: S) -> Self {
        let by_name =
            saves.into_iter().map(|(name, key, began, rank)| (name.to_owned(), (key, began, rank))).collect();
        Self { by_name, ..Self::default() }
    }
}

impl Saves {
    /// Determines the rank of each save. The last save of a file may still be uncommitted.
    pub(crate) fn of(
        saves: &[Save],
        line: &BranchHistory,
        repo: &Repo,
        restarts: Vec<(Instant, Instant)>,
    ) -> Self {
        let mut found = Self { commits: commits(repo), restarts, ..Self::default() };
        let mut next: HashMap<&str, Rank> = HashMap::new();
        for Save { key, name, began } in saves.iter().rev() {
            let place = line.states.iter().position(|state| state.get(*key) == Some(name));
            let later = next.get(key).copied();
            let rank = match (place, later) {
                (Some(place), _) => committed(place),
                (None, Some((place, turn))) => (place, turn - 1),
                (None, None) => {
                    let text = repo.read(&format!("collections/{key}.yaml"));
                    assert!(text.contains(&format!("name: {name}\n")), "{name} of {key} is lost: {text}");
                    committed(usize::MAX)
                }
            };
            assert!(
                later.is_none_or(|later| rank < later),
                "{name} of {key} came after what was saved later: {rank:?}, {later:?}\n{}",
                found.around(key, later.unwrap_or(rank), rank.0, line, *began)
            );
            found.committed += usize::from(place.is_some());
            next.insert(key, rank);
            found.by_name.insert(name.clone(), (key, *began, rank));
        }
        found
    }

    /// Returns the rank of the version seen at a place: the one that is committed there, or one that was saved over
    /// it.
    fn rank(
        &self,
        key: &str,
        name: Option<&String>,
        place: usize,
        line: &BranchHistory,
        call: &Call,
    ) -> Rank {
        let at = |place: usize| line.states[place].get(key);
        if at(place) == name {
            return committed((1..=place).rev().find(|place| at(place - 1) != name).unwrap_or(0));
        }
        let saved = name.and_then(|name| self.by_name.get(name));
        let saved =
            saved.filter(|(of, began, rank)| *of == key && *began < call.ended && *rank > committed(place));
        let (_, _, rank) = saved.unwrap_or_else(|| {
            let stood = (0..line.states.len()).filter(|place| at(*place) == name);
            panic!(
                "not what stood there: {key} at {place}: {call:?}\nthat stood at {:?}\n{}",
                stood.collect::<Vec<_>>(),
                self.around(
                    key,
                    committed(place.saturating_sub(PLACES_SHOWN)),
                    place + PLACES_SHOWN,
                    line,
                    call.began
                )
            )
        });
        *rank
    }

    /// Reports whether a save that was not committed yet at a place justifies a refusal.
    pub(crate) fn refuse(&self, call: &Call, place: usize) -> bool {
        self.by_name.iter().any(|(name, (of, began, rank))| {
            let refuses = match &call.asked {
                Operation::Create(key) => key == of,
                Operation::Update(key, Some(expected)) | Operation::Merge(key, expected) => {
                    key == of && expected != name
                }
                Operation::Read(_)
                | Operation::List
                | Operation::Update(_, None)
                | Operation::Label(_)
                | Operation::Delete(_)
                | Operation::Both(_) => false,
            };
            refuses && *began < call.ended && *rank > committed(place)
        })
    }

    /// Describes the versions and commits between two places, and the saves and restarts around a time.
    fn around(&self, key: &str, rank: Rank, to: usize, line: &BranchHistory, at: Instant) -> String {
        let to = to.min(line.states.len() - 1);
        let commit = |place: usize| self.commits.get(place).map_or("", String::as_str);
        let stood = (rank.0..=to)
            .map(|place| format!("{place}: {:?} {}", line.states[place].get(key), commit(place)));
        let age = |began: Instant| at.max(began) - at.min(began);
        let saved = self.by_name.iter().filter(|(_, (of, began, _))| *of == key && age(*began) < TIME_SHOWN);
        let when =
            |began: Instant| format!("{:?} {}", age(began), if began < at { "before" } else { "after" });
        let saved =
            saved.map(|(name, (_, began, rank))| format!("{name} saved {} is {rank:?}", when(*began)));
        let near = self.restarts.iter().filter(|(ended, _)| age(*ended) < TIME_SHOWN);
        let restarts =
            near.map(|(ended, there)| format!("service ended {}, there {}", when(*ended), when(*there)));
        stood.chain(saved).chain(restarts).collect::<Vec<_>>().join("\n")
    }

    /// Judges what was seen of each collection: the version existed at its place, and no later read shows an older
    /// one. Without saves, the places alone prove the latter.
    pub(crate) fn judge(&self, calls: &[Call], line: &BranchHistory) {
        let committed = line.states.iter().flatten().map(|(key, _)| key.as_str());
        let keys: HashSet<&str> = committed.chain(self.by_name.values().map(|(key, ..)| *key)).collect();
        for key in keys {
            let mut seen: Vec<(&Call, Rank)> = Vec::new();
            for call in calls {
                let Outcome::Seen(revision, names) = &call.answered else { continue };
                if matches!(call.asked, Operation::Read(other) if other != key) {
                    continue;
                }
                let place = line.at(revision, call)[0];
                seen.push((call, self.rank(key, names.get(key), place, line, call)));
            }
            let mut ended = seen.clone();
            ended.sort_unstable_by_key(|(call, _)| call.ended);
            seen.sort_unstable_by_key(|(call, _)| call.began);
            let (mut before, mut newest) = (ended.into_iter().peekable(), None);
            for (call, rank) in seen {
                while let Some((other, seen)) = before.next_if(|(other, _)| other.ended < call.began) {
                    newest = newest.filter(|(_, rank)| *rank >= seen).or(Some((other, seen)));
                }
                let went_back = newest.filter(|(_, newest)| rank < *newest && !self.by_name.is_empty());
                if let Some((_, (newest, _))) = went_back {
                    let around = self.around(key, rank, newest, line, call.began);
                    panic!("{key} went back to {rank:?}: {call:?}\nfrom {went_back:?}\nwhere {around}");
                }
            }
        }
    }
}
