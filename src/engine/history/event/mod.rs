//! Events: what each commit did to the collections; and differences, blame and verification.
//!
//! An event is the difference of a commit to its first parent; the commit's message adds to that and never replaces
//! it. A merge made by the service has only the events that its sides do not report (`decided`). `index` stores
//! which events there are; this module stores nothing.

pub(crate) mod blame;
pub(crate) mod decided;
pub(crate) mod difference;
pub(crate) mod record;
pub(crate) mod table;
pub(crate) mod verify;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::domain::{Actor, Change, Key, Reversal, Revision};
use crate::engine::memo::Memo;
use crate::format::Fault;

/// What happened to a collection: whether it has a file before and after the commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// It had no file before.
    Created,
    /// It had a file before and has one now.
    Updated,
    /// It had a file before and has none now.
    Deleted,
}

impl Action {
    /// All actions.
    pub const ALL: [Self; 3] = [Self::Created, Self::Updated, Self::Deleted];

    /// Returns the word on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Deleted => "deleted",
        }
    }

    /// Parses the word on the wire.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.as_str() == text)
    }
}

/// Where a change came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    Api,
    /// A hand edit that the service committed for a person before it wrote.
    WorkTree,
    /// A person's own commit.
    Git,
    /// The command line.
    Command,
    /// The service, which merged the commits of several instances.
    Merge,
}

impl Origin {
    /// All origins.
    pub const ALL: [Self; 5] = [Self::Api, Self::WorkTree, Self::Git, Self::Command, Self::Merge];

    /// Returns the word on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::WorkTree => "work-tree",
            Self::Git => "git",
            Self::Command => "command",
            Self::Merge => "merge",
        }
    }

    /// Parses the word on the wire.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|origin| origin.as_str() == text)
    }
}

/// The maximum number of collections of a commit that each of its events lists.
pub(crate) const TOGETHER_MAX: usize = 1_000;

/// One event, with everything that a response shows of it.
#[derive(Debug)]
pub struct EventRecord {
    /// The id: from the commit's trailers if they name this collection, else derived from commit and key. No two
    /// events of a history share one.
    pub id: Uuid,
    pub action: Action,
    pub key: Key,
    pub commit: EventCommit,
    /// Its position in the history, for the stream.
    pub position: Position,
    pub effect: Effect,
    /// The collection that the file moved to (for a deletion) or from (for a creation) in the same commit, with its
    /// content unchanged.
    pub moved: Option<Key>,
    /// The collections of the commit if there are several, for readers who may not see all of them; `None` when
    /// there are more than a thousand.
    pub together: Option<Box<[Key]>>,
    /// The event as JSON, rendered when it is first needed.
    pub memo: Memo,
    /// The event as the stream sends it, rendered when it is first sent.
    pub memo_streamed: Memo,
}

/// The commit of an event: which it is, and who made it, when, how and why.
#[derive(Debug)]
pub struct EventCommit {
    pub revision: Revision,
    /// The committer's time.
    pub at: DateTime<Utc>,
    /// The author.
    pub actor: Arc<Actor>,
    pub origin: Origin,
    pub message: EventMessage,
}

/// What the message of a commit says about its events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventMessage {
    /// The first line.
    pub subject: String,
    /// The reason in the caller's words; for a person's own commit, the whole message without its trailers.
    pub reason: Option<String>,
    /// The id of the request that asked for it.
    pub request_id: Option<String>,
    /// What it undoes or restores.
    pub reverses: Option<Reversal>,
}

/// What an event did to the attributes.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// The attributes that differ from the last good version; none if only comments, order or the file name changed.
    Changes(Vec<Change>),
    /// The file can't be read from here on; the last good version stays served.
    Problem(PastFault),
}

/// A fault of a file of the past.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastFault {
    /// The path inside the repository.
    pub path: String,
    /// The fault and where it is in the file.
    pub fault: Fault,
}

/// `path:line:column: message`, as editors and compilers write it.
impl fmt::Display for PastFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.path, self.fault)
    }
}

/// How far a follower has read the history: through a commit, or through one of its events.
///
/// It is the `id` of a streamed event: `REVISION`, or `REVISION/n` within a commit of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Position {
    pub revision: Revision,
    /// The number of its events that have been received; `None` means all.
    pub seen: Option<u32>,
}

impl From<Revision> for Position {
    fn from(revision: Revision) -> Self {
        Self { revision, seen: None }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.seen {
            None => write!(f, "{}", self.revision),
            Some(seen) => write!(f, "{}/{seen}", self.revision),
        }
    }
}

/// The error for a text that is not a position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a position is a revision, or a revision, `/` and the number of an event of it, from 1")]
pub struct ParsePositionError;

impl FromStr for Position {
    type Err = ParsePositionError;

    fn from_str(text: &str) -> Result<Self, ParsePositionError> {
        let (revision, seen) = match text.split_once('/') {
            Some((revision, seen)) => (revision, Some(seen)),
            None => (text, None),
        };
        let number = |seen: &str| match seen.as_bytes() {
            [b'1'..=b'9', rest @ ..] if rest.iter().all(u8::is_ascii_digit) => seen.parse().ok(),
            _ => None,
        };
        let seen = seen.map(|seen| number(seen).ok_or(ParsePositionError)).transpose()?;
        Ok(Self { revision: revision.parse().map_err(|_| ParsePositionError)?, seen })
    }
}

/// Derives the id of an event that no trailer names, always the same for a commit and key (RFC 9562, version 8).
pub(crate) fn stable_id(revision: Revision, key: &Key) -> Uuid {
    let digest = Sha256::new()
        .chain_update("collectory-event\0")
        .chain_update(revision.as_bytes())
        .chain_update(key.as_str())
        .finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_reads_as_it_is_shown() {
        let revision = "0123456789abcdef0123456789abcdef01234567";
        for text in [revision.to_owned(), format!("{revision}/1"), format!("{revision}/20")] {
            assert_eq!(text.parse::<Position>().unwrap().to_string(), text);
        }
        for text in ["", "/1", &format!("{revision}/"), &format!("{revision}/0"), &format!("{revision}/+1")] {
            assert_eq!(text.parse::<Position>(), Err(ParsePositionError), "{text:?}");
        }
    }

    #[test]
    fn an_event_without_a_trailer_has_the_same_id_every_time() {
        let revision = Revision::new([7; 20]);
        let id = |key: &str| stable_id(revision, &Key::parse(key).unwrap());
        assert_eq!(id("posts"), id("posts"));
        assert_ne!(id("posts"), id("pages"));
        assert_eq!(id("posts").get_version_num(), 8);
    }
}
