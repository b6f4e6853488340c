//! What can be asked of the writer, and what it answers: values, of which nothing here knows how they come about.

pub(crate) mod answer;
pub(crate) mod error;
pub(crate) mod once;

use crate::domain::{Actor, Command};
use crate::engine::projection::Entry;
use crate::engine::submission::once::Once;

/// A request to change collections, with everything that its commit has to say.
#[derive(Debug, Clone)]
pub struct Submission {
    /// What to do, in order: all of it in one commit, or nothing.
    pub changes: Vec<ConditionalCommand>,
    /// The author of the commit.
    pub author: Actor,
    /// Why, in the caller's words.
    pub reason: Option<String>,
    /// The request that asks, for the commit's `Request-Id` trailer.
    pub request_id: Option<String>,
    /// Whether the command line asks, for the commit's `Collectory-Origin` trailer.
    pub by_command: bool,
    /// Whether to do everything short of the commit, and tell what it would be.
    pub dry_run: bool,
    /// The name under which the caller asks, to have it done once however often it asks. Dry runs
    /// do nothing and are not recorded.
    pub once: Option<Once>,
}

impl Submission {
    /// The name under which it is recorded what was granted, if it is.
    #[must_use]
    pub fn recorded_once(&self) -> Option<&Once> {
        self.once.as_ref().filter(|_| !self.dry_run)
    }
}

#[cfg(test)]
impl Submission {
    /// Commands without conditions, asked for by an author who says no more.
    pub(crate) fn of(author: Actor, commands: impl IntoIterator<Item = Command>) -> Self {
        let change = |command| ConditionalCommand { command, condition: Condition::default() };
        Self {
            changes: commands.into_iter().map(change).collect(),
            author,
            reason: None,
            request_id: None,
            by_command: false,
            dry_run: false,
            once: None,
        }
    }
}

/// A command and what must be true for it.
#[derive(Debug, Clone)]
pub struct ConditionalCommand {
    /// What to do.
    pub command: Command,
    /// What the caller believes the collection to be.
    pub condition: Condition,
}

/// What the caller believes a collection to be (RFC 9110 section 13.1).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Condition {
    /// `If-Match`: the collection has one of these tags.
    pub if_match: Option<Tags>,
    /// `If-None-Match`: the collection has none of these tags.
    pub if_none_match: Option<Tags>,
    /// Whether an update of an older version that `if_match` names is fine where nobody else
    /// changed the same attributes since.
    pub merge_attributes: bool,
}

/// The entity tags that a condition lists: the opaque parts, without quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tags {
    /// `*`: whatever exists.
    Any,
    /// What has one of these entity tags.
    OneOf(Vec<String>),
}

impl Tags {
    fn hold(&self, entry: &Entry) -> bool {
        match self {
            Self::Any => true,
            Self::OneOf(tags) => tags.contains(&entry.tag()),
        }
    }

    /// Whether one of them is of the content of the entry's file.
    fn name_content(&self, entry: &Entry) -> bool {
        match self {
            Self::Any => true,
            Self::OneOf(tags) => !entry.stale && tags.iter().any(|tag| entry.is_tagged(tag)),
        }
    }
}

impl Condition {
    /// Whether the condition is true of what is served now.
    ///
    /// `if_match` holds of the same content too whose tag has changed since: because somebody committed
    /// just what was saved, or for a problem beside it. Whoever read it has missed nothing. It does not
    /// where the file itself is broken, for there the tag is of an older content.
    #[must_use]
    pub fn holds(&self, current: Option<&Entry>) -> bool {
        let found = |tags: &Tags| current.is_some_and(|entry| tags.hold(entry));
        let known = |tags: &Tags| current.is_some_and(|entry| tags.hold(entry) || tags.name_content(entry));
        self.if_match.as_ref().is_none_or(known) && !self.if_none_match.as_ref().is_some_and(found)
    }

    /// The tags of older versions that an update may be merged over, if that is all that keeps the
    /// condition from being true.
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
