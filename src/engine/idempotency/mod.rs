//! Records of requests with an `Idempotency-Key`, so that a repeated request is not carried out again.
//!
//! The record of a commit contains only its id: the answer is reconstructed from the commit, so it is the same before
//! and after a restart. A write that changed nothing has no commit; its record exists until the service ends.
//!
//! Only grants are recorded. A refusal changed nothing, so a repeated request is decided again.

pub(crate) mod replay;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use uuid::Uuid;

use crate::domain::{Actor, Revision};
use crate::engine::mirror::Clock;
use crate::engine::submission::answer::Outcome;
use crate::engine::submission::idempotency_key::{Fingerprint, IdempotencyKey, Scope};
use crate::format::{self, message};
use crate::store::{Commit, Journal, StoreError};
use crate::telemetry::{Limit, LimitCounters};

/// Memory that a collection takes per byte of its file, including its ready-made answer: an approximate upper bound,
/// reached by collections with many small values.
const MEMORY_PER_BYTE: usize = 10;

/// The outcome of a granted request.
#[derive(Debug, Clone)]
pub(crate) enum RecordedOutcome {
    Commit(Revision),
    /// Nothing had to be changed.
    Nothing {
        /// The revision that the request was decided on.
        at: Option<Revision>,
        outcomes: Vec<Outcome>,
    },
}

impl RecordedOutcome {
    /// Returns the approximate memory that the record takes: it may hold the last references to its entries.
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

/// What is known about an idempotency key.
pub(crate) enum KeyStatus {
    /// It has not been used.
    New,
    Granted(RecordedOutcome),
    /// Another request was granted.
    Other,
}

/// How much is remembered of requests.
#[derive(Debug, Clone)]
pub struct Retention {
    /// How long a write with an idempotency key is remembered.
    pub time: Duration,
    /// Maximum number of such writes that are remembered, and of commits that are searched for them at start.
    pub len_max: usize,
    /// Approximate maximum number of bytes for remembered writes that changed nothing.
    pub bytes_max: usize,
}

/// The most recent granted requests with an idempotency key.
#[derive(Clone)]
pub(crate) struct IdempotencyStore {
    records: Arc<Mutex<Records>>,
    time: TimeDelta,
    len_max: usize,
    bytes_max: usize,
    reached: LimitCounters,
    clock: Clock,
}

#[derive(Default)]
struct Records {
    by_scope: HashMap<Scope, Record>,
    /// Requests whose outcome is unknown, with the events that will show it.
    unknown: HashMap<Scope, (Fingerprint, Vec<Uuid>)>,
    /// The records, the oldest first; entries whose record was removed or replaced are skipped.
    by_age: VecDeque<(DateTime<Utc>, Scope)>,
    /// The records of requests that changed nothing.
    answers_by_age: VecDeque<(DateTime<Utc>, Scope)>,
    /// The memory of the records beyond their own size, in bytes.
    bytes: usize,
    /// The head up to which commits have been read.
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

    /// Removes a record, unless it has been replaced since; returns whether it was there.
    fn remove_of(&mut self, (at, scope): (DateTime<Utc>, Scope)) -> bool {
        let is_there = self.by_scope.get(&scope).is_some_and(|record| record.at == at);
        if is_there {
            self.remove(scope);
        }
        is_there
    }
}

impl std::fmt::Debug for IdempotencyStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IdempotencyStore").field("len_max", &self.len_max).finish_non_exhaustive()
    }
}

impl IdempotencyStore {
    pub(crate) fn new(retention: &Retention, clock: Clock, reached: LimitCounters) -> Self {
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

    /// Returns what is known about a request.
    pub(crate) fn look_up(&self, scope: Scope, fingerprint: Fingerprint) -> KeyStatus {
        match self.records().by_scope.get(&scope) {
            Some(record) if self.is_over(record.at) => KeyStatus::New,
            Some(record) if record.fingerprint == fingerprint => KeyStatus::Granted(record.made.clone()),
            Some(_) => KeyStatus::Other,
            None => KeyStatus::New,
        }
    }

    pub(crate) fn is_recorded(&self, author: &Actor, idempotency_key: &IdempotencyKey) -> bool {
        let records = self.records();
        let record = records.by_scope.get(&Scope::of(author, idempotency_key));
        record.is_some_and(|record| !self.is_over(record.at))
    }

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

    /// Removes expired records, and the oldest ones if there are too many.
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

    /// Removes the oldest records that changed nothing if they take too much memory. Removing records of commits
    /// would free nothing.
    fn forget_answers(&self, records: &mut Records) {
        while records.bytes > self.bytes_max
            && let Some(oldest) = records.answers_by_age.pop_front()
        {
            if records.remove_of(oldest) {
                self.reached.count(Limit::IdempotencyBytes);
            }
        }
    }

    /// Records that the outcome of a request is unknown.
    pub(crate) fn note_unknown(&self, author: &Actor, idempotency_key: &IdempotencyKey, events: Vec<Uuid>) {
        self.records()
            .unknown
            .insert(Scope::of(author, idempotency_key), (idempotency_key.fingerprint, events));
    }

    /// Returns the events that will show the outcome of a request, if the outcome is unknown.
    pub(crate) fn unknown(&self, author: &Actor, idempotency_key: &IdempotencyKey) -> Option<Vec<Uuid>> {
        let records = self.records();
        let (fingerprint, events) = records.unknown.get(&Scope::of(author, idempotency_key))?;
        (*fingerprint == idempotency_key.fingerprint).then(|| events.clone())
    }

    /// Records that the outcomes of all requests are known now.
    pub(crate) fn all_known(&self) {
        self.records().unknown.clear();
    }

    /// Removes a record whose commit is no longer on the branch.
    pub(crate) fn forget(&self, scope: Scope) {
        self.records().remove(scope);
    }

    /// Records that the branch moved forward by commits that are already recorded.
    pub(crate) fn note_fast_forward(&self, from: Option<Revision>, to: Revision) {
        let mut records = self.records();
        if records.read == from {
            records.read = Some(to);
        }
    }

    /// Reads the idempotency keys of the newest commits, back to the commit that was read last, or within the limits
    /// of the retention.
    pub(crate) fn load_commits(&self, journal: &mut dyn Journal, head: Revision) -> Result<(), StoreError> {
        let read = self.records().read;
        if read == Some(head) {
            return Ok(());
        }
        let mut found = Vec::new();
        let mut note = |commit: &Commit| {
            if let Some((key, fingerprint)) = message::idempotency(&commit.message)
                && let Some(fingerprint) = Fingerprint::parse(&fingerprint)
            {
                let scope = Scope::of(&commit.author, &IdempotencyKey { key, fingerprint });
                found.push((scope, fingerprint, commit.at, commit.revision));
            }
        };
        let (mut left, mut merges) = (self.len_max, Vec::new());
        let known = match read {
            Some(read) if journal.commits().descends(head, read)? => Some(read),
            Some(_) | None => None,
        };
        match known {
            // Includes the commits that a merge brings.
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

/// Passes each of these commits to `note`, up to the remaining limit.
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

    fn idempotency(len_max: usize) -> IdempotencyStore {
        let clock = Arc::new(|| DateTime::from_timestamp(1_000, 0).unwrap());
        IdempotencyStore::new(
            &Retention { time: Duration::from_secs(100), len_max, bytes_max: usize::MAX },
            clock,
            LimitCounters::default(),
        )
    }

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(seconds, 0).unwrap()
    }

    fn scope(key: &str) -> Scope {
        let idempotency_key = IdempotencyKey { key: key.into(), fingerprint: Fingerprint::of(&[]) };
        Scope::of(&Actor::anonymous(), &idempotency_key)
    }

    const NOTHING: RecordedOutcome = RecordedOutcome::Nothing { at: None, outcomes: Vec::new() };

    fn knows(idempotency: &IdempotencyStore, key: &str) -> bool {
        matches!(idempotency.look_up(scope(key), Fingerprint::of(&[b"x"])), KeyStatus::Granted(_))
    }

    #[test]
    fn the_oldest_are_forgotten_when_there_are_too_many() {
        let idempotency = idempotency(2);
        for key in ["a", "b", "c"] {
            idempotency.record(scope(key), Fingerprint::of(&[b"x"]), at(1_000), NOTHING);
        }
        assert_eq!(
            [knows(&idempotency, "a"), knows(&idempotency, "b"), knows(&idempotency, "c")],
            [false, true, true]
        );
    }

    /// Returns the answer to a large update that changed nothing.
    fn large() -> RecordedOutcome {
        let attributes = [("x-large".to_owned(), "x".repeat(1_000).as_str().into())];
        let key = crate::domain::Key::parse("large").unwrap();
        let collection = crate::domain::Collection::new(key, crate::domain::Kind::Document, attributes);
        let entry = crate::engine::Entry::committed(Arc::new(collection.unwrap()));
        RecordedOutcome::Nothing { at: None, outcomes: vec![Outcome::Unchanged(Arc::new(entry))] }
    }

    #[test]
    fn what_changed_nothing_is_remembered_within_a_budget_of_bytes() {
        let reached = LimitCounters::default();
        let idempotency =
            IdempotencyStore { bytes_max: 100_000, reached: reached.clone(), ..idempotency(1_000) };
        for number in 0..100 {
            idempotency.record(scope(&number.to_string()), Fingerprint::of(&[b"x"]), at(1_000), large());
        }
        let known = (0..100).filter(|number| knows(&idempotency, &number.to_string())).count();
        assert!((5..10).contains(&known), "{known}");
        assert!(knows(&idempotency, "99"), "the newest are remembered");
        assert_eq!(reached.of(Limit::IdempotencyBytes), 100 - known as u64);
    }

    #[test]
    fn a_commit_is_remembered_however_much_changed_nothing_since() {
        let reached = LimitCounters::default();
        let idempotency =
            IdempotencyStore { bytes_max: 100_000, reached: reached.clone(), ..idempotency(20) };
        let record =
            |key: &str, made| idempotency.record(scope(key), Fingerprint::of(&[b"x"]), at(1_000), made);
        record("commit", RecordedOutcome::Commit(Revision::new([1; 20])));
        for number in 0..19 {
            record(&number.to_string(), large());
        }
        assert!(knows(&idempotency, "commit") && !knows(&idempotency, "0"));
        record("one more", large());
        assert!(!knows(&idempotency, "commit"), "there are too many");
        assert_eq!(reached.of(Limit::IdempotencyLen), 1, "what was forgotten is not forgotten again");
    }

    #[test]
    fn what_is_older_than_the_retention_is_new_again() {
        let idempotency = idempotency(10);
        for (key, when) in [("old", 900), ("young", 901)] {
            idempotency.record(scope(key), Fingerprint::of(&[b"x"]), at(when), NOTHING);
        }
        assert_eq!([knows(&idempotency, "old"), knows(&idempotency, "young")], [false, true]);
    }

    #[test]
    fn another_request_under_the_name_is_noticed() {
        let idempotency = idempotency(10);
        idempotency.record(scope("a"), Fingerprint::of(&[b"x"]), at(1_000), NOTHING);
        assert!(matches!(idempotency.look_up(scope("a"), Fingerprint::of(&[b"y"])), KeyStatus::Other));
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
