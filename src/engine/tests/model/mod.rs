//! Random stories: API writes, hand edits committed or not, branch moves by git, faults, lost notices and restarts,
//! interleaved by a seed on the engine alone.
//!
//! After each step the test waits until everything is quiet, and checks what the design promises: what is served is
//! what a [plain reading](plain) of the repository says; every acknowledged write is in the history exactly once, and
//! a failed one not at all; every byte that a person saved is in the work tree or in a commit; the problems are the
//! broken files; the work tree has the person's own changes and no others.
//!
//! `COLLECTORY_STORIES` sets how many stories are run, `COLLECTORY_STORY_SEED` replays one. The stories of
//! `tests/it/stories.rs`, on the real program and the real git, use the same variables.

mod hands;
mod plain;
mod requests;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::engine::tests::model::plain::{Folder, Reading};
use crate::engine::tests::*;

const STORIES_DEFAULT: u64 = 60;
const STEPS: usize = 40;
const KEYS: [&str; 3] = ["alpha", "bravo", "charlie"];

#[test]
fn nothing_is_lost_whatever_people_programs_and_faults_do() {
    #[expect(clippy::disallowed_methods, reason = "how long a run is, is the tester's to say")]
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match number("COLLECTORY_STORY_SEED") {
        Some(seed) => vec![seed],
        None => (1..=number("COLLECTORY_STORIES").unwrap_or(STORIES_DEFAULT)).collect(),
    };
    for seed in seeds {
        Story::new(seed).tell();
    }
}

/// How many commits of the whole history a request may have made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Commits {
    None,
    One,
    /// It failed after the branch had moved: the client was not told that it was carried out.
    AtMostOne,
}

struct Story {
    seed: u64,
    rng: fastrand::Rng,
    script: String,
    journal: MemoryJournal,
    running: Option<Running>,
    options: Options,
    hands: Hands,
    quiet: Quiet,
    asked: BTreeMap<String, Commits>,
    counter: u64,
}

/// What a person has done.
struct Hands {
    /// What the work tree must have.
    files: Folder,
    /// Whether the served branch is checked out.
    is_here: bool,
    /// What was saved and not taken back.
    kept: Vec<(String, String)>,
}

/// The last quiet moment, and what has happened since.
#[derive(Default)]
struct Quiet {
    /// What was served.
    before: Reading,
    /// Whether the branch has moved since.
    has_moved: bool,
    /// Whether something has been pushed since.
    is_behind: bool,
}

impl Story {
    fn new(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let journal = MemoryJournal::new();
        // Sometimes it takes a while until what looks broken is believed.
        let patience = Duration::from_millis(if rng.u32(..8) == 0 { 2 } else { 0 });
        let options = believing_after(patience);
        let running = Some(Running::with(&journal, options.clone()));
        Self {
            seed,
            rng,
            script: String::new(),
            journal,
            running,
            options,
            hands: Hands { files: Folder::new(), is_here: true, kept: Vec::new() },
            quiet: Quiet::default(),
            asked: BTreeMap::new(),
            counter: 0,
        }
    }

    fn tell(mut self) {
        for _ in 0..STEPS {
            self.step();
            self.quiet();
        }
        self.running.take().expect("the engine runs").stop();
    }

    fn step(&mut self) {
        match self.rng.u32(..100) {
            0..=29 => self.ask(),
            30..=54 => self.by_hand(true),
            55..=74 => self.with_git(true),
            75..=81 => self.ask_and_fail(),
            82..=86 => self.lose_notices(),
            87..=90 => self.while_busy(),
            91..=93 => self.while_unreadable(),
            94..=97 => self.crowd(),
            _ => self.restart(),
        }
    }

    /// Acts without notices, until the slow tick.
    fn lose_notices(&mut self) {
        self.note("(the notices of what follows are lost)");
        for _ in 0..self.rng.usize(1..4) {
            if self.quiet.is_behind {
                // How git handles a commit over a push that was not followed is not tested here.
                break;
            }
            if self.rng.bool() {
                self.by_hand(false);
            } else {
                self.with_git(false);
            }
        }
        self.notice(Hint::Everything);
    }

    /// Lets git hold its locks, so that no write is possible.
    fn while_busy(&mut self) {
        self.note("(git holds its locks)");
        self.journal.set_busy(true);
        self.by_hand(true);
        let predicted = self.journal.appends();
        let (id, requests) = self.requests();
        let answer = self.submit(&id, requests);
        let has_tried = self.journal.appends() != predicted;
        assert!(answer.is_err() || !has_tried || !self.hands.is_here, "{answer:?}\n{}", self.story());
        let commits = if answer.is_ok() && has_tried { Commits::One } else { Commits::None };
        self.asked.insert(id, commits);
        self.journal.set_busy(false);
        self.note("(git is done)");
        self.notice(Hint::Branch);
    }

    /// Makes the disk unreadable; the previous snapshot stays served.
    fn while_unreadable(&mut self) {
        self.note("(nothing can be read)");
        self.journal.set_unreadable(true);
        self.by_hand(true);
        let (id, requests) = self.requests();
        let answer = self.submit(&id, requests);
        assert!(answer.is_err(), "{answer:?}\n{}", self.story());
        self.asked.insert(id, Commits::None);
        assert_eq!(self.shown().served, self.quiet.before.served, "{}", self.story());
        self.journal.set_unreadable(false);
        self.note("(it can be read again)");
        self.notice(Hint::Everything);
    }

    fn restart(&mut self) {
        self.note("restart");
        self.running.take().expect("the engine runs").stop();
        self.running = Some(Running::with(&self.journal, self.options.clone()));
        // What was served of a file that is broken now is unknown.
        self.quiet.before = Reading::default();
    }

    /// Waits until everything that was noticed has been followed, and checks everything.
    fn quiet(&mut self) {
        let started = Instant::now();
        loop {
            self.running().settled();
            let Some(wrong) = self.wrong() else { break };
            let is_due = self.options.mirror.settle_patience.is_zero() || started.elapsed() > DEADLINE;
            assert!(!is_due, "{wrong}\n{}", self.story());
        }
        self.quiet.before = self.shown();
        (self.quiet.has_moved, self.quiet.is_behind) = (false, false);
        self.check_history();
        self.check_kept();
        assert_eq!(plain::work_tree(&self.journal), self.hands.files, "the work tree\n{}", self.story());
    }

    /// Returns a description of what differs from a plain reading of the repository.
    fn wrong(&self) -> Option<String> {
        let shown = self.shown();
        let mut expected = plain::read(&self.journal, self.hands.is_here, &self.quiet.before);
        if self.quiet.has_moved {
            // Whether an edit was seen before it was committed and broken is undefined.
            let forgetful = plain::read(&self.journal, self.hands.is_here, &Reading::default());
            expected = plain::choose(&self.journal, self.hands.is_here, &shown, [&expected, &forgetful]);
        }
        let snapshot = self.running().snapshot();
        let head = self.journal.log().first().map(|commit| commit.revision);
        let trouble = self.running().engine.projection.read_error();
        let is_wrong = |key: &str| plain::names(key).iter().any(|name| shown.problems.contains_key(name));
        let mut entries = snapshot.catalog().iter();
        let unmarked =
            entries.find(|entry| entry.problem.is_some() != is_wrong(entry.collection.key().as_str()));
        if shown != expected {
            return Some(format!("served: {shown:#?}\nexpected: {expected:#?}"));
        }
        if snapshot.revision != head {
            return Some(format!("{:?} is served, and the head is {head:?}", snapshot.revision));
        }
        if let Some(entry) = unmarked {
            return Some(format!("the problem is marked wrongly: {entry:?}"));
        }
        trouble.map(|trouble| format!("there is trouble: {trouble}"))
    }

    fn shown(&self) -> Reading {
        let snapshot = self.running().snapshot();
        let served = snapshot.catalog().iter().map(|entry| {
            let served = plain::Served {
                file: entry.file(),
                name: name_of(&entry.collection),
                uncommitted: entry.uncommitted,
                stale: entry.stale,
            };
            (entry.collection.key().to_string(), served)
        });
        let problems = snapshot.problems.iter().map(|(path, problem)| {
            let name = path.strip_prefix("collections/").expect("a path in the folder");
            (name.to_owned(), problem.committed.is_some())
        });
        Reading {
            served: served.collect(),
            problems: problems.collect(),
            uncommitted: snapshot.hand_edits.served,
        }
    }

    /// Checks that every acknowledged write is in the history once, and that no refused write is.
    fn check_history(&self) {
        let commits = self.journal.commits();
        for (id, expected) in &self.asked {
            let trailer = format!("Request-Id: {id}\n");
            let found = commits.iter().filter(|commit| commit.message.contains(&trailer)).count();
            let is_right = match expected {
                Commits::None => found == 0,
                Commits::One => found == 1,
                Commits::AtMostOne => found <= 1,
            };
            assert!(is_right, "{id} is in {found} commits, not {expected:?}\n{}", self.story());
        }
    }

    /// Checks that what a person saved is in the work tree or in a commit.
    fn check_kept(&mut self) {
        let work_tree = plain::work_tree(&self.journal);
        for (name, text) in &self.hands.kept {
            let is_there = work_tree.get(name) == Some(text) || self.journal.is_committed(text.as_bytes());
            assert!(is_there, "{text:?} is lost\n{}", self.story());
        }
    }

    fn running(&self) -> &Running {
        self.running.as_ref().expect("the engine runs")
    }

    fn notice(&mut self, hint: Hint) {
        self.running().notice(hint);
    }

    fn note(&mut self, what: &str) {
        writeln!(self.script, "  {what}").expect("a string takes everything");
    }

    fn story(&self) -> String {
        format!("seed {}:\n{}", self.seed, self.script)
    }

    fn fresh(&mut self) -> String {
        self.counter += 1;
        format!("Version {}", self.counter)
    }

    fn key(&mut self) -> &'static str {
        KEYS[self.rng.usize(..KEYS.len())]
    }
}
