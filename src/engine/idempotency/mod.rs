//! What was asked for under a name that the caller chose, so that asking again does not do it
//! again (`Idempotency-Key`).
//!
//! A record of a commit names just the commit: what was answered is read back from it, which works
//! the same before and after a restart. A write that changed nothing has no commit to remember it;
//! its record lives as long as the service.
//!
//! Only what was granted is recorded. A refusal changed nothing, so asking again is judged again.

pub(crate) mod replay;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use uuid::Uuid;

use crate::domain::{Actor, Revision};
use crate::engine::mirror::Clock;
use crate::engine::submission::answer::Outcome;
use crate::engine::submission::once::{Fingerprint, Once, Scope};
use crate::format::{self, message};
use crate::store::{Commit, Journal, StoreError};
use crate::telemetry::{Limit, Reached};

/// What a collection takes in memory for each byte of its file, with its ready-made answer: at most about this
/// much, where it has many small values.
const MEMORY_PER_BYTE: usize = 10;

/// What became of a request that was granted.
#[derive(Debug, Clone)]
pub(crate) enum RecordedOutcome {
    /// A commit.
    Commit(Revision),
    /// Nothing had to be changed.
    Nothing {
        /// The revision at which that was so.
        at: Option<Revision>,
        outcomes: Vec<Outcome>,
    },
}

impl RecordedOutcome {
    /// What it keeps in memory, about: versions of collections that nobody else may have any more.
    fn bytes(&self) -> usize {
        match self {
            Self::Commit(_) => 0,
            Self::Nothing { outcomes, .. } => {
                let entries = outcomes.iter().filter_map(Outcome::entry);
                entries.map(|entry| format::write(&entry.collection).len() * MEMORY_PER_BYTE).sum()
            }
        }
    }
}

/// What is known of a name.
pub(crate) enum NameStatus {
    /// Nothing.
    New,
    /// This very request was granted.
    Granted(RecordedOutcome),
    /// Another request was granted under the name.
    Other,
}

/// How much is remembered of requests.
#[derive(Debug, Clone)]
pub struct Retention {
    /// How long a write is remembered under the name that its caller gave to it.
    pub time: Duration,
    /// How many writes are remembered so, and how many commits are looked through for them at start.
    pub len_max: usize,
    /// How many bytes may be taken, about, by what is remembered of those that changed nothing.
    pub bytes_max: usize,
}

/// The requests that were granted under a name, the newest ones.
#[derive(Clone)]
pub(crate) struct Ledger {
    records: Arc<Mutex<Records>>,
    time: TimeDelta,
    len_max: usize,
    bytes_max: usize,
    reached: Reached,
    clock: Clock,
}

#[derive(Default)]
struct Records {
    by_scope: HashMap<Scope, Record>,
    /// The requests of which nobody knows whether they were carried out, and the events that tell later.
    unknown: HashMap<Scope, (Fingerprint, Vec<Uuid>)>,
    /// The oldest first; one that was forgotten or made again is passed over.
    by_age: VecDeque<(DateTime<Utc>, Scope)>,
    /// Those of them that changed nothing.
    answers_by_age: VecDeque<(DateTime<Utc>, Scope)>,
    /// What the records take in memory beyond their places.
    bytes: usize,
    /// The commit up to which commits were read.
    read: Option<Revision>,
}

struct Record {
    fingerprint: Fingerprint,
    at: DateTime<Utc>,
    made: RecordedOutcome,
}

impl Records {
    fn insert(&mut self, scope: Scope, record: Record) {
        self.bytes += record.made.bytes();
        if let Some(replaced) = self.by_scope.insert(scope, record) {
            self.bytes -= replaced.made.bytes();
        }
    }

    fn remove(&mut self, scope: Scope) {
        if let Some(removed) = self.by_scope.remove(&scope) {
            self.bytes -= removed.made.bytes();
        }
    }

    /// Removes what was recorded then, unless it was made again; says whether it was there.
    fn remove_of(&mut self, (at, scope): (DateTime<Utc>, Scope)) -> bool {
        let is_there = self.by_scope.get(&scope).is_some_and(|record| record.at == at);
        if is_there {
            self.remove(scope);
        }
        is_there
    }
}

impl std::fmt::Debug for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ledger").field("len_max", &self.len_max).finish_non_exhaustive()
    }
}

impl Ledger {
    /// An empty ledger.
    pub(crate) fn new(retention: &Retention, clock: Clock, reached: Reached) -> Self {
        let Retention { time, len_max, bytes_max } = *retention;
        let time = TimeDelta::from_std(time).unwrap_or(TimeDelta::MAX);
        Self { records: Arc::default(), time, len_max, bytes_max, reached, clock }
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self, at: DateTime<Utc>) -> bool {
        (self.clock)().signed_duration_since(at) >= self.time
    }

    /// What is known of a request.
    pub(crate) fn look_up(&self, scope: Scope, fingerprint: Fingerprint) -> NameStatus {
        match self.records().by_scope.get(&scope) {
            Some(record) if self.is_over(record.at) => NameStatus::New,
            Some(record) if record.fingerprint == fingerprint => NameStatus::Granted(record.made.clone()),
            Some(_) => NameStatus::Other,
            None => NameStatus::New,
        }
    }

    /// Whether anything is recorded under a name.
    pub(crate) fn is_recorded(&self, author: &Actor, once: &Once) -> bool {
        let records = self.records();
        let record = records.by_scope.get(&Scope::of(author, once));
        record.is_some_and(|record| !self.is_over(record.at))
    }

    /// Records what was granted.
    pub(crate) fn record(
        &self,
        scope: Scope,
        fingerprint: Fingerprint,
        at: DateTime<Utc>,
        made: RecordedOutcome,
    ) {
        let mut records = self.records();
        records.by_age.push_back((at, scope));
        if matches!(made, RecordedOutcome::Nothing { .. }) {
            records.answers_by_age.push_back((at, scope));
        }
        records.insert(scope, Record { fingerprint, at, made });
        self.forget_oldest(&mut records);
        self.forget_answers(&mut records);
    }

    /// Forgets what is over, and the oldest where there are too many.
    fn forget_oldest(&self, records: &mut Records) {
        while let Some(oldest) = records.by_age.front().copied() {
            let is_over = self.is_over(oldest.0);
            if !is_over && records.by_age.len() <= self.len_max {
                break;
            }
            records.by_age.pop_front();
            records.answers_by_age.pop_front_if(|answer| *answer == oldest);
            if records.remove_of(oldest) && !is_over {
                self.reached.count(Limit::IdempotencyLen);
            }
        }
    }

    /// Forgets the oldest of what changed nothing where that takes too much: of a commit nothing would be given back.
    fn forget_answers(&self, records: &mut Records) {
        while records.bytes > self.bytes_max
            && let Some(oldest) = records.answers_by_age.pop_front()
        {
            if records.remove_of(oldest) {
                self.reached.count(Limit::IdempotencyBytes);
            }
        }
    }

    /// Notes that nobody knows whether a request was carried out.
    pub(crate) fn note_unknown(&self, author: &Actor, once: &Once, events: Vec<Uuid>) {
        self.records().unknown.insert(Scope::of(author, once), (once.fingerprint, events));
    }

    /// The events that tell later of a request of which nobody knows.
    pub(crate) fn unknown(&self, author: &Actor, once: &Once) -> Option<Vec<Uuid>> {
        let records = self.records();
        let (fingerprint, events) = records.unknown.get(&Scope::of(author, once))?;
        (*fingerprint == once.fingerprint).then(|| events.clone())
    }

    /// Notes that it is known now what became of all of them.
    pub(crate) fn all_known(&self) {
        self.records().unknown.clear();
    }

    /// Forgets a record whose commit is gone from the branch.
    pub(crate) fn forget(&self, scope: Scope) {
        self.records().remove(scope);
    }

    /// Notes that the branch went on by commits that are recorded already.
    pub(crate) fn went_on(&self, from: Option<Revision>, to: Revision) {
        let mut records = self.records();
        if records.read == from {
            records.read = Some(to);
        }
    }

    /// Reads the requests that the newest commits name, back to the commit that was read last, or as far and as many as
    /// the retention keeps.
    pub(crate) fn read_back(&self, journal: &mut dyn Journal, head: Revision) -> Result<(), StoreError> {
        let read = self.records().read;
        if read == Some(head) {
            return Ok(());
        }
        let mut found = Vec::new();
        let mut note = |commit: &Commit| {
            if let Some((key, fingerprint)) = message::idempotency(&commit.message)
                && let Some(fingerprint) = Fingerprint::parse(&fingerprint)
            {
                let scope = Scope::of(&commit.author, &Once { key, fingerprint });
                found.push((scope, fingerprint, commit.at, commit.revision));
            }
        };
        let (mut left, mut merges) = (self.len_max, Vec::new());
        let known = match read {
            Some(read) if journal.commits().descends(head, read)? => Some(read),
            Some(_) | None => None,
        };
        match known {
            // Also those that a merge brings.
            Some(read) => {
                let new = journal.commits().commits_beyond(head, read)?;
                one_by_one(journal, new, &mut left, &mut note)?;
            }
            None => {
                journal.commits().log(head, &mut |commit| {
                    if left == 0 || self.is_over(commit.at) {
                        return false;
                    }
                    left -= 1;
                    note(commit);
                    if let ([first, joined], true) = (&commit.parents[..], message::is_merge(&commit.message))
                    {
                        merges.push((*joined, *first));
                    }
                    true
                })?;
                for (joined, first) in merges {
                    let side = journal.commits().commits_beyond(joined, first)?;
                    one_by_one(journal, side, &mut left, &mut note)?;
                }
            }
        }
        for (scope, fingerprint, at, revision) in found.into_iter().rev() {
            self.record(scope, fingerprint, at, RecordedOutcome::Commit(revision));
        }
        self.records().read = Some(head);
        Ok(())
    }
}

/// Tells each of these commits, as long as there may be more.
fn one_by_one(
    journal: &mut dyn Journal,
    revisions: Vec<Revision>,
    left: &mut usize,
    note: &mut impl FnMut(&Commit),
) -> Result<(), StoreError> {
    for revision in revisions.into_iter().take(*left) {
        *left -= 1;
        journal.commits().intact_commit(revision)?.iter().for_each(&mut *note);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(len_max: usize) -> Ledger {
        let clock = Arc::new(|| DateTime::from_timestamp(1_000, 0).unwrap());
        Ledger::new(
            &Retention { time: Duration::from_secs(100), len_max, bytes_max: usize::MAX },
            clock,
            Reached::default(),
        )
    }

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(seconds, 0).unwrap()
    }

    fn scope(key: &str) -> Scope {
        let once = Once { key: key.into(), fingerprint: Fingerprint::of(&[]) };
        Scope::of(&Actor::anonymous(), &once)
    }

    const NOTHING: RecordedOutcome = RecordedOutcome::Nothing { at: None, outcomes: Vec::new() };

    fn knows(ledger: &Ledger, key: &str) -> bool {
        matches!(ledger.look_up(scope(key), Fingerprint::of(&[b"x"])), NameStatus::Granted(_))
    }

    #[test]
    fn the_oldest_are_forgotten_when_there_are_too_many() {
        let ledger = ledger(2);
        for key in ["a", "b", "c"] {
            ledger.record(scope(key), Fingerprint::of(&[b"x"]), at(1_000), NOTHING);
        }
        assert_eq!([knows(&ledger, "a"), knows(&ledger, "b"), knows(&ledger, "c")], [false, true, true]);
    }

    /// The answer to a large update that changed nothing.
    fn large() -> RecordedOutcome {
        let attributes = [("x-large".to_owned(), "x".repeat(1_000).as_str().into())];
        let key = crate::domain::Key::parse("large").unwrap();
        let collection = crate::domain::Collection::new(key, crate::domain::Kind::Document, attributes);
        let entry = crate::engine::Entry::committed(Arc::new(collection.unwrap()));
        RecordedOutcome::Nothing { at: None, outcomes: vec![Outcome::Unchanged(Arc::new(entry))] }
    }

    #[test]
    fn what_changed_nothing_is_remembered_within_a_budget_of_bytes() {
        let reached = Reached::default();
        let ledger = Ledger { bytes_max: 100_000, reached: reached.clone(), ..ledger(1_000) };
        for number in 0..100 {
            ledger.record(scope(&number.to_string()), Fingerprint::of(&[b"x"]), at(1_000), large());
        }
        let known = (0..100).filter(|number| knows(&ledger, &number.to_string())).count();
        assert!((5..10).contains(&known), "{known}");
        assert!(knows(&ledger, "99"), "the newest are remembered");
        assert_eq!(reached.of(Limit::IdempotencyBytes), 100 - known as u64);
    }

    #[test]
    fn a_commit_is_remembered_however_much_changed_nothing_since() {
        let reached = Reached::default();
        let ledger = Ledger { bytes_max: 100_000, reached: reached.clone(), ..ledger(20) };
        let record = |key: &str, made| ledger.record(scope(key), Fingerprint::of(&[b"x"]), at(1_000), made);
        record("commit", RecordedOutcome::Commit(Revision::new([1; 20])));
        for number in 0..19 {
            record(&number.to_string(), large());
        }
        assert!(knows(&ledger, "commit") && !knows(&ledger, "0"));
        record("one more", large());
        assert!(!knows(&ledger, "commit"), "there are too many");
        assert_eq!(reached.of(Limit::IdempotencyLen), 1, "what was forgotten is not forgotten again");
    }

    #[test]
    fn what_is_older_than_the_retention_is_new_again() {
        let ledger = ledger(10);
        for (key, when) in [("old", 900), ("young", 901)] {
            ledger.record(scope(key), Fingerprint::of(&[b"x"]), at(when), NOTHING);
        }
        assert_eq!([knows(&ledger, "old"), knows(&ledger, "young")], [false, true]);
    }

    #[test]
    fn another_request_under_the_name_is_noticed() {
        let ledger = ledger(10);
        ledger.record(scope("a"), Fingerprint::of(&[b"x"]), at(1_000), NOTHING);
        assert!(matches!(ledger.look_up(scope("a"), Fingerprint::of(&[b"y"])), NameStatus::Other));
        assert_ne!(Fingerprint::of(&[b"ab", b""]), Fingerprint::of(&[b"a", b"b"]));
    }

    #[test]
    fn a_fingerprint_is_read_as_it_is_written() {
        let written = Fingerprint::of(&[b"x"]);
        assert_eq!(Fingerprint::parse(&written.to_string()), Some(written));
        for text in ["", "sha256:", "sha256:zz", &"f".repeat(71)] {
            assert_eq!(Fingerprint::parse(text), None, "{text}");
        }
    }
}
