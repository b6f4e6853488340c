//! The message of a commit: for people first, then trailers for machines.

use uuid::Uuid;

use crate::domain::{Event, Key};

/// What a commit message tells besides its events.
#[derive(Debug, Clone, Default)]
pub struct About<'a> {
    /// Why, in the caller's words; any text.
    pub reason: Option<&'a str>,
    /// The request that asked; any text.
    pub request_id: Option<&'a str>,
    /// The key whose saved edit a person left uncommitted (`Collectory-Origin: work-tree`).
    pub by_hand: Option<&'a Key>,
}

/// Composes the message of a commit that makes these events true (design.md section 5).
///
/// A hand edit that the service commits may have no events that it can read (a broken file): then
/// `subject_key` alone names it.
#[must_use]
pub fn compose(_events: &[(Uuid, &Event)], _about: &About<'_>) -> String {
    unimplemented!("by the format layer")
}
