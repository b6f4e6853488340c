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

use chrono::{DateTime, TimeDelta, Utc};
use sha2::{Digest as _, Sha256};

use crate::domain::{Actor, Revision};
use crate::engine::handle::Outcome;
use crate::engine::mirror::Clock;
use crate::format::message;
use crate::store::{Journal, StoreError};

/// The name that a caller gave to a request, and what the request is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Once {
    /// The name: visible characters of ASCII.
    pub key: String,
    /// What is the same of the same request.
    pub fingerprint: Fingerprint,
}

/// A digest of everything that makes a request the same request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Digests the parts, each with its length, so that none runs into the next.
    #[must_use]
    pub fn of(parts: &[&[u8]]) -> Self {
        let mut digest = Sha256::new();
        for part in parts {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        }
        Self(digest.finalize().into())
    }

    /// Reads what [`Display`](std::fmt::Display) wrote.
    fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("sha256:").filter(|digits| digits.len() == 64 && digits.is_ascii())?;
        let mut bytes = [0; 32];
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&digits[2 * index..2 * index + 2], 16).ok()?;
        }
        Some(Self(bytes))
    }
}

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Who named it how: nobody meets the names of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Scope([u8; 32]);

impl Scope {
    pub(crate) fn of(author: &Actor, once: &Once) -> Self {
        let parts = [author.name().as_bytes(), author.email().as_bytes(), once.key.as_bytes()];
        Self(Fingerprint::of(&parts).0)
    }
}

/// What became of a request that was granted.
#[derive(Debug, Clone)]
pub(crate) enum Made {
    /// A commit.
    Commit(Revision),
    /// Nothing had to be changed.
    Nothing(Vec<Outcome>),
}

/// What is known of a name.
pub(crate) enum Known {
    /// Nothing.
    New,
    /// The same request was granted.
    Granted(Made),
    /// Another request was granted under the name.
    Other,
}

/// The requests that were granted under a name, the newest ones.
#[derive(Clone)]
pub(crate) struct Ledger {
    records: Arc<Mutex<Records>>,
    retention: TimeDelta,
    len_max: usize,
    clock: Clock,
}

#[derive(Default)]
struct Records {
    by_scope: HashMap<Scope, Record>,
    /// The oldest first; one that was forgotten or made again is passed over.
    by_age: VecDeque<(DateTime<Utc>, Scope)>,
    /// The commit up to which commits were read.
    read: Option<Revision>,
}

struct Record {
    fingerprint: Fingerprint,
    at: DateTime<Utc>,
    made: Made,
}

impl std::fmt::Debug for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ledger").field("len_max", &self.len_max).finish_non_exhaustive()
    }
}

impl Ledger {
    /// An empty ledger that remembers for `retention`, and not more than `len_max` requests.
    pub(crate) fn new(retention: std::time::Duration, len_max: usize, clock: Clock) -> Self {
        let retention = TimeDelta::from_std(retention).unwrap_or(TimeDelta::MAX);
        Self { records: Arc::default(), retention, len_max, clock }
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self, at: DateTime<Utc>) -> bool {
        (self.clock)().signed_duration_since(at) >= self.retention
    }

    /// What is known of a request.
    pub(crate) fn look_up(&self, scope: Scope, fingerprint: Fingerprint) -> Known {
        match self.records().by_scope.get(&scope) {
            Some(record) if self.is_over(record.at) => Known::New,
            Some(record) if record.fingerprint == fingerprint => Known::Granted(record.made.clone()),
            Some(_) => Known::Other,
            None => Known::New,
        }
    }

    /// Whether anything is recorded under a name.
    pub(crate) fn is_recorded(&self, author: &Actor, once: &Once) -> bool {
        let records = self.records();
        let record = records.by_scope.get(&Scope::of(author, once));
        record.is_some_and(|record| !self.is_over(record.at))
    }

    /// Records what was granted.
    pub(crate) fn record(&self, scope: Scope, fingerprint: Fingerprint, at: DateTime<Utc>, made: Made) {
        let mut records = self.records();
        records.by_age.push_back((at, scope));
        records.by_scope.insert(scope, Record { fingerprint, at, made });
        while let Some((at, scope)) = records.by_age.front().copied() {
            if records.by_age.len() <= self.len_max && !self.is_over(at) {
                break;
            }
            records.by_age.pop_front();
            if records.by_scope.get(&scope).is_some_and(|record| record.at == at) {
                records.by_scope.remove(&scope);
            }
        }
    }

    /// Forgets a record whose commit is gone from the branch.
    pub(crate) fn forget(&self, scope: Scope) {
        self.records().by_scope.remove(&scope);
    }

    /// Notes that the branch went on by commits that are recorded already.
    pub(crate) fn went_on(&self, from: Option<Revision>, to: Revision) {
        let mut records = self.records();
        if records.read == from {
            records.read = Some(to);
        }
    }

    /// Reads back what the commits tell that were not read yet: of the retention, as many as are remembered.
    pub(crate) fn read_back<J: Journal>(&self, journal: &mut J, head: Revision) -> Result<(), StoreError> {
        let read = self.records().read;
        if read == Some(head) {
            return Ok(());
        }
        let mut found = Vec::new();
        let mut left = self.len_max;
        journal.log(head, &mut |commit| {
            if left == 0 || self.is_over(commit.at) || Some(commit.revision) == read {
                return false;
            }
            left -= 1;
            if let Some((key, fingerprint)) = message::idempotency(&commit.message)
                && let Some(fingerprint) = Fingerprint::parse(&fingerprint)
            {
                let scope = Scope::of(&commit.author, &Once { key, fingerprint });
                found.push((scope, fingerprint, commit.at, commit.revision));
            }
            true
        })?;
        for (scope, fingerprint, at, revision) in found.into_iter().rev() {
            self.record(scope, fingerprint, at, Made::Commit(revision));
        }
        self.records().read = Some(head);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(len_max: usize) -> Ledger {
        let clock = Arc::new(|| DateTime::from_timestamp(1_000, 0).unwrap());
        Ledger::new(std::time::Duration::from_secs(100), len_max, clock)
    }

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(seconds, 0).unwrap()
    }

    fn scope(key: &str) -> Scope {
        let once = Once { key: key.into(), fingerprint: Fingerprint::of(&[]) };
        Scope::of(&Actor::anonymous(), &once)
    }

    fn knows(ledger: &Ledger, key: &str) -> bool {
        matches!(ledger.look_up(scope(key), Fingerprint::of(&[b"x"])), Known::Granted(_))
    }

    #[test]
    fn the_oldest_are_forgotten_when_there_are_too_many() {
        let ledger = ledger(2);
        for key in ["a", "b", "c"] {
            ledger.record(scope(key), Fingerprint::of(&[b"x"]), at(1_000), Made::Nothing(Vec::new()));
        }
        assert_eq!([knows(&ledger, "a"), knows(&ledger, "b"), knows(&ledger, "c")], [false, true, true]);
    }

    #[test]
    fn what_is_older_than_the_retention_is_new_again() {
        let ledger = ledger(10);
        for (key, when) in [("old", 900), ("young", 901)] {
            ledger.record(scope(key), Fingerprint::of(&[b"x"]), at(when), Made::Nothing(Vec::new()));
        }
        assert_eq!([knows(&ledger, "old"), knows(&ledger, "young")], [false, true]);
    }

    #[test]
    fn another_request_under_the_name_is_noticed() {
        let ledger = ledger(10);
        ledger.record(scope("a"), Fingerprint::of(&[b"x"]), at(1_000), Made::Nothing(Vec::new()));
        assert!(matches!(ledger.look_up(scope("a"), Fingerprint::of(&[b"y"])), Known::Other));
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
