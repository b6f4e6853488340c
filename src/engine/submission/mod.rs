//! The requests to the writer thread and their answers: plain values, independent of how they are carried out.

pub(crate) mod answer;
pub(crate) mod error;
pub(crate) mod idempotency_key;

use crate::domain::{Actor, Command};
use crate::engine::projection::Entry;
use crate::engine::submission::idempotency_key::IdempotencyKey;

/// A request to change collections, with all data for the commit.
#[derive(Debug, Clone)]
pub struct Submission {
    /// The changes, in order: all of them in one commit, or none.
    pub changes: Vec<ConditionalCommand>,
    /// The author of the commit.
    pub author: Actor,
    /// The reason in the caller's words.
    pub reason: Option<String>,
    /// The id of the request, for the commit's `Request-Id` trailer.
    pub request_id: Option<String>,
    /// Whether the request comes from the command line, for the commit's `Collectory-Origin` trailer.
    pub by_command: bool,
    /// Whether to do everything except the commit, and return what it would contain.
    pub dry_run: bool,
    /// The idempotency key of the request, under which it is carried out once however often it is sent. Dry runs
    /// change nothing and are not recorded.
    pub idempotency_key: Option<IdempotencyKey>,
}

impl Submission {
    /// Returns the idempotency key under which a grant is recorded, if it is recorded.
    #[must_use]
    pub fn recorded_idempotency_key(&self) -> Option<&IdempotencyKey> {
        self.idempotency_key.as_ref().filter(|_| !self.dry_run)
    }
}

#[cfg(test)]
impl Submission {
    /// Creates a submission of commands without conditions and without a reason.
    pub(crate) fn of(author: Actor, commands: impl IntoIterator<Item = Command>) -> Self {
        let change = |command| ConditionalCommand { command, condition: Condition::default() };
        Self {
            changes: commands.into_iter().map(change).collect(),
            author,
            reason: None,
            request_id: None,
            by_command: false,
            dry_run: false,
            idempotency_key: None,
        }
    }
}

/// A command and its condition.
#[derive(Debug, Clone)]
pub struct ConditionalCommand {
    /// What to do.
    pub command: Command,
    /// The state in which the caller believes the collection to be.
    pub condition: Condition,
}

/// The state in which the caller believes a collection to be (RFC 9110 section 13.1).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Condition {
    /// `If-Match`: the collection has one of these tags.
    pub if_match: Option<Tags>,
    /// `If-None-Match`: the collection has none of these tags.
    pub if_none_match: Option<Tags>,
    /// Whether an update of an older version that `if_match` names may be merged, if the same attributes were not
    /// changed by others since.
    pub merge_attributes: bool,
}

/// The entity tags that a condition lists: their opaque parts, without quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tags {
    /// `*`: any existing collection.
    Any,
    /// A collection with one of these entity tags.
    OneOf(Vec<String>),
}

impl Tags {
    fn hold(&self, entry: &Entry) -> bool {
        match self {
            Self::Any => true,
            Self::OneOf(tags) => tags.contains(&entry.tag()),
        }
    }

    /// Returns whether one of the tags identifies the content of the entry's file.
    fn name_content(&self, entry: &Entry) -> bool {
        match self {
            Self::Any => true,
            Self::OneOf(tags) => !entry.stale && tags.iter().any(|tag| entry.is_tagged(tag)),
        }
    }
}

impl Condition {
    /// Returns whether the condition is true of what is served now.
    ///
    /// `if_match` also holds if the content is the same and only the tag has changed: because the saved edit was
    /// committed as it was, or because of a problem beside it. A caller that has read that content has missed
    /// nothing. This does not apply if the file itself is broken, because then the tag is that of an older content.
    #[must_use]
    pub fn holds(&self, current: Option<&Entry>) -> bool {
        let found = |tags: &Tags| current.is_some_and(|entry| tags.hold(entry));
        let known = |tags: &Tags| current.is_some_and(|entry| tags.hold(entry) || tags.name_content(entry));
        self.if_match.as_ref().is_none_or(known) && !self.if_none_match.as_ref().is_some_and(found)
    }

    /// Returns the tags of older versions over which an update may be merged, if nothing else keeps the condition
    /// from being true.
    #[must_use]
    pub fn mergeable(&self, current: Option<&Entry>) -> Option<&[String]> {
        let known = |tags: &Tags| current.is_some_and(|entry| tags.hold(entry));
        match &self.if_match {
            Some(Tags::OneOf(tags))
                if self.merge_attributes
                    && current.is_some()
                    && !self.if_none_match.as_ref().is_some_and(known) =>
            {
                Some(tags)
            }
            Some(Tags::Any | Tags::OneOf(_)) | None => None,
        }
    }
}
