//! The part of the served collections that one reader sees, and the token that identifies it.
//!
//! Two readers may see different keys, so each has its own state, which three things identify:
//!
//! ```text
//! 9fceb02d…~5d41402a…~pages~d7f1b…~news~
//! revision  digest    pages: a document collection, of this weight; news: not served
//! ```
//!
//! * the revision, for what is committed;
//! * the digest of everything that the reader sees;
//! * the collections whose served state does not follow from the commit alone: those with an uncommitted hand edit,
//!   or with a problem. Only those that the reader may see.
//!
//! A token is therefore self-contained and the service stores nothing: it stays valid across restarts and in any
//! process that serves the repository. The differences are computed backwards from what is served now, and count
//! only if they lead to the token's digest ([`View::changes_since`]). Where they do not (the reader may see other
//! keys now, or a key had a state that is no longer known), the token is treated as unknown: a change may be
//! reported twice but is never missed.
//!
//! A revision alone is a token too, for what was committed there. Git's null object id is the token of an empty
//! repository.
//!
//! [`View::changes_since`]: crate::engine::history::View::changes_since

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::domain::{Catalog, Key, Kind, Revision, unhex};
use crate::engine::history::HistoryError;
use crate::engine::projection::{Entry, Snapshot};

/// The maximum number of bytes of the collections that a token names, to fit into a request's path or header. If they
/// take more, it names none.
const NAMED_BYTES_MAX: usize = 4096;

/// Git's null object id, which it writes where there is no commit.
const NOTHING: Revision = Revision::new([0; 20]);

/// Separates the parts of a token; no key contains it, and URLs need not escape it.
const SEPARATOR: char = '~';

/// Replaces the collections where they would make the token too long.
const TOO_MANY: &str = "more";

/// The collections that a reader sees at one moment.
#[derive(Debug, Clone)]
pub struct VisibleState {
    pub catalog: Catalog<Arc<Entry>>,
    /// The token that identifies them.
    pub token: SyncToken,
    /// The collections whose served state does not follow from the commit alone.
    pub(crate) apart: BTreeMap<Key, Option<VersionDigest>>,
}

/// Which collections a reader may see.
#[derive(Clone, Copy)]
pub enum VisibleKeys<'a> {
    All,
    /// Those with keys for which this is true.
    Some(&'a dyn Fn(&Key) -> bool),
    One(&'a Key),
}

impl VisibleKeys<'_> {
    pub(crate) fn sees(self, key: &Key) -> bool {
        match self {
            Self::All => true,
            Self::Some(sees) => sees(key),
            Self::One(one) => one == key,
        }
    }

    /// Returns the visible collections and the sum of their weights.
    fn of(self, snapshot: &Snapshot) -> (Catalog<Arc<Entry>>, u128) {
        let catalog: Catalog<Arc<Entry>> = match self {
            Self::All => return (snapshot.catalog().clone(), snapshot.digest()),
            Self::Some(sees) => {
                snapshot.catalog().iter().filter(|entry| sees(entry.collection.key())).cloned().collect()
            }
            Self::One(key) => snapshot.get(key.as_str()).into_iter().cloned().collect(),
        };
        let digest = catalog.iter().fold(0_u128, |sum, entry| sum.wrapping_add(entry.weight()));
        (catalog, digest)
    }
}

impl VisibleState {
    /// Returns what a reader sees of a snapshot.
    #[must_use]
    pub fn of(snapshot: &Snapshot, visible_keys: VisibleKeys<'_>) -> Self {
        let (catalog, digest) = visible_keys.of(snapshot);
        let apart = snapshot.keys_not_as_committed().into_iter().filter(|key| visible_keys.sees(key));
        let apart =
            apart.map(|key| (key.clone(), catalog.get(key.as_str()).map(|entry| VersionDigest::of(entry))));
        let apart: BTreeMap<_, _> = apart.collect();
        let is_nothing = snapshot.revision.is_none() && catalog.is_empty() && apart.is_empty();
        let state = ServedState { digest, apart: has_room(&apart).then(|| apart.clone()) };
        let token = SyncToken { revision: snapshot.revision, state: (!is_nothing).then_some(state) };
        Self { catalog, token, apart }
    }
}

/// Reports whether a token has room for the collections.
fn has_room(apart: &BTreeMap<Key, Option<VersionDigest>>) -> bool {
    // Besides the key there are two separators, a letter and 32 digits.
    apart.keys().map(|key| key.as_str().len() + 35).sum::<usize>() <= NAMED_BYTES_MAX
}

/// A summary of the served version of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionDigest {
    pub kind: Kind,
    /// The amount that it adds to the digest.
    pub(crate) weight: u128,
}

impl VersionDigest {
    /// Returns the digest of a served collection.
    #[must_use]
    pub fn of(entry: &Entry) -> Self {
        Self { kind: entry.collection.kind(), weight: entry.weight() }
    }

    fn parse(text: &str) -> Option<Self> {
        let kind = match text.get(..1)? {
            "d" => Kind::Document,
            "m" => Kind::Media,
            _ => return None,
        };
        Some(Self { kind, weight: digits(&text[1..])? })
    }
}

impl fmt::Display for VersionDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Document => 'd',
            Kind::Media => 'm',
        };
        write!(f, "{kind}{:032x}", self.weight)
    }
}

/// Identifies what a reader has seen; opaque to the reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncToken {
    /// The head at that time.
    pub(crate) revision: Option<Revision>,
    /// What the reader saw; `None` means what was committed.
    pub(crate) state: Option<ServedState>,
}

/// What a token says besides the revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServedState {
    pub(crate) digest: u128,
    /// The collections whose served state did not follow from the commit alone; `None` if too many to name.
    pub(crate) apart: Option<BTreeMap<Key, Option<VersionDigest>>>,
}

impl ServedState {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(SEPARATOR);
        let digest = digits(parts.next()?)?;
        let mut apart = BTreeMap::new();
        while let Some(key) = parts.next() {
            let Some(version) = parts.next() else {
                return (key == TOO_MANY && apart.is_empty()).then_some(Self { digest, apart: None });
            };
            let version = if version.is_empty() { None } else { Some(VersionDigest::parse(version)?) };
            apart.insert(Key::parse(key).ok()?, version);
        }
        Some(Self { digest, apart: Some(apart) })
    }
}

impl fmt::Display for SyncToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.revision.unwrap_or(NOTHING), f)?;
        let Some(ServedState { digest, apart }) = &self.state else { return Ok(()) };
        write!(f, "{SEPARATOR}{digest:032x}")?;
        let Some(apart) = apart else { return write!(f, "{SEPARATOR}{TOO_MANY}") };
        for (key, version) in apart {
            write!(f, "{SEPARATOR}{key}{SEPARATOR}")?;
            version.map_or(Ok(()), |version| write!(f, "{version}"))?;
        }
        Ok(())
    }
}

impl FromStr for SyncToken {
    type Err = HistoryError;

    fn from_str(text: &str) -> Result<Self, HistoryError> {
        let (revision, state) = match text.split_once(SEPARATOR) {
            None => (text, None),
            Some((revision, state)) => {
                (revision, Some(ServedState::parse(state).ok_or(HistoryError::BadToken)?))
            }
        };
        let revision: Revision = revision.parse().map_err(|_| HistoryError::BadToken)?;
        Ok(Self { revision: (revision != NOTHING).then_some(revision), state })
    }
}

/// Parses a number written in 32 digits.
fn digits(text: &str) -> Option<u128> {
    unhex(text).map(u128::from_be_bytes)
}

/// The change of a collection between two moments.
#[derive(Debug, Clone, PartialEq)]
pub struct ServedChange {
    pub key: Key,
    /// What was served before.
    pub was: Option<VersionDigest>,
    /// What is served now.
    pub now: Option<Arc<Entry>>,
}

impl ServedChange {
    /// Returns the digest of what is served now.
    pub(crate) fn now_digest(&self) -> Option<VersionDigest> {
        self.now.as_deref().map(VersionDigest::of)
    }

    /// Reports whether what is served now differs from what was served before.
    #[must_use]
    pub fn differs(&self) -> bool {
        self.was != self.now_digest()
    }
}
