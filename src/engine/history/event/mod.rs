//! Events: what each commit did to the collections, and what is told from them: differences, blame, and
//! whether a commit says what it did.
//!
//! An event is the difference of a commit to its first parent; its message adds to that and never replaces it. A merge
//! that the service made has only those events that its sides do not tell (`decided`).
//! Which events there are is kept in `index`; nothing here keeps anything.

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

use crate::domain::{Actor, Change, Key, Reverses, Revision};
use crate::engine::memo::Memo;
use crate::format::Fault;

/// What happened to a collection: whether it has a file before and after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// It had no file before.
    Created,
    /// It had a file before and has one now.
    Updated,
    /// It has no file any more.
    Deleted,
}

impl Action {
    /// The word on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Deleted => "deleted",
        }
    }

    /// Finds the action that a word on the wire names.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Created, Self::Updated, Self::Deleted].into_iter().find(|action| action.as_str() == text)
    }
}

/// Where a change came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The API.
    Api,
    /// A hand edit that the service committed for a person before it wrote.
    WorkTree,
    /// A person's own commit.
    Git,
    /// The command line.
    Command,
    /// The service, which merged what was written at several places.
    Merge,
}

impl Origin {
    /// All there are.
    pub const ALL: [Self; 5] = [Self::Api, Self::WorkTree, Self::Git, Self::Command, Self::Merge];

    /// The word on the wire.
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

    /// Finds the origin that a word on the wire names.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|origin| origin.as_str() == text)
    }
}

/// Of how many collections of a commit each of its events knows.
pub(crate) const TOGETHER_MAX: usize = 1_000;

/// One event, with everything that an answer tells of it.
#[derive(Debug)]
pub struct EventRecord {
    /// The id: from the commit's trailers if they tell of this collection, else made from commit
    /// and key. No two events of a history share one.
    pub id: Uuid,
    /// What happened.
    pub action: Action,
    /// The collection.
    pub key: Key,
    /// What its commit says of it.
    pub commit: EventCommit,
    /// Where the event stands in the history, for the stream.
    pub position: Position,
    /// What it changed.
    pub effect: Effect,
    /// The collection that the file moved to or from in the same commit, with its content unchanged: to,
    /// of a deletion, and from, of a creation.
    pub moved: Option<Key>,
    /// The collections that its commit is about if they are several, for whoever must not hear of all of
    /// them; `None` when they are more than a thousand.
    pub together: Option<Box<[Key]>>,
    /// The event as JSON, made when somebody first asks for it.
    pub memo: Memo,
    /// The event as the stream sends it, made when it is first sent.
    pub memo_streamed: Memo,
}

/// The commit of an event: which it is, and who made it, when, how and why.
#[derive(Debug)]
pub struct EventCommit {
    /// Its id.
    pub revision: Revision,
    /// The committer's time.
    pub at: DateTime<Utc>,
    /// The author.
    pub actor: Arc<Actor>,
    /// Where the change came from.
    pub origin: Origin,
    /// What its message says.
    pub message: EventMessage,
}

/// What the message of a commit says about its events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventMessage {
    /// The first line.
    pub subject: String,
    /// Why, in the caller's words; of a person's own commit the whole message without its trailers.
    pub reason: Option<String>,
    /// The request that asked for it.
    pub request_id: Option<String>,
    /// What was undone or restored.
    pub reverses: Option<Reverses>,
}

/// What an event did to the attributes.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// The attributes that differ from the last good version before; none when only comments,
    /// order or the file's name changed.
    Changes(Vec<Change>),
    /// The file can't be read since; the last good version stays served.
    Problem(PastFault),
}

/// What is wrong with a file of the past.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastFault {
    /// The path inside the repository.
    pub path: String,
    /// Where in it, and what.
    pub fault: Fault,
}

/// `path:line:column: message`, as editors and compilers write it.
impl fmt::Display for PastFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.path, self.fault)
    }
}

/// How far somebody has followed the history: up to and with a commit, or up to one of its events.
///
/// It is the `id` of a streamed event: `REVISION`, or `REVISION/n` within a commit of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Position {
    /// The commit.
    pub revision: Revision,
    /// How many of its events have been seen, if not all.
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

/// A text that is no position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a position is a revision, or a revision, `/` and the number of an event of it, from 1")]
pub struct NotAPosition;

impl FromStr for Position {
    type Err = NotAPosition;

    fn from_str(text: &str) -> Result<Self, NotAPosition> {
        let (revision, seen) = match text.split_once('/') {
            Some((revision, seen)) => (revision, Some(seen)),
            None => (text, None),
        };
        let number = |seen: &str| match seen.as_bytes() {
            [b'1'..=b'9', rest @ ..] if rest.iter().all(u8::is_ascii_digit) => seen.parse().ok(),
            _ => None,
        };
        let seen = seen.map(|seen| number(seen).ok_or(NotAPosition)).transpose()?;
        Ok(Self { revision: revision.parse().map_err(|_| NotAPosition)?, seen })
    }
}

/// The id of an event that no trailer names: the same whenever and wherever it is asked for
/// (RFC 9562, version 8).
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
            assert_eq!(text.parse::<Position>(), Err(NotAPosition), "{text:?}");
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
