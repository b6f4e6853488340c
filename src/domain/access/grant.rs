//! Rights, grants and tokens: what a caller may do.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::domain::{Actor, Expiry, Key, KeyPattern, SecretHash};

/// One right that a caller may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// List, read and follow what is served, and see changes and problems.
    Read,
    /// Create, update and delete collections. Responses and dry runs show the current state of a
    /// collection, never its past.
    Write,
    /// Read the history: events and their streams, past states, differences, blame. Together with
    /// [`Write`](Self::Write): undo and restore, which show the past.
    Audit,
    /// Operate the service itself: its remote and its webhooks.
    Operate,
}

impl Right {
    /// Every right.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Audit, Self::Operate];

    /// Finds the right with this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|right| right.as_str() == name)
    }

    /// The name in a policy file.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Audit => "audit",
            Self::Operate => "operate",
        }
    }
}

/// Some rights for some keys; a grant without keys grants nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The granted rights.
    pub rights: Vec<Right>,
    /// The keys for which they are granted.
    pub keys: Vec<KeyPattern>,
}

impl Grant {
    /// Every right for every key.
    #[must_use]
    pub fn everything() -> Self {
        Self { rights: Right::ALL.to_vec(), keys: vec![KeyPattern::every()] }
    }

    /// Whether nothing is granted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rights.is_empty() || self.keys.is_empty()
    }
}

/// A bearer token: the hash of its secret, and its grants. What is not granted is denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// The actor behind the token: the author of the commits.
    pub actor: Actor,
    /// The hash of the secret, which itself is not stored.
    pub secret_hash: SecretHash,
    /// The grants of the token; their rights add up.
    pub grants: Arc<[Grant]>,
    /// When the token was created, if known.
    pub created: Option<DateTime<Utc>>,
    /// When the token expires; `None` for never. An expired token is treated like an unknown one.
    pub expires: Option<Expiry>,
}

impl Token {
    /// Whether the token has this right for any key.
    #[must_use]
    pub fn has_right(&self, right: Right) -> bool {
        self.granting(right).next().is_some()
    }

    /// Whether the token has this right for this key.
    #[must_use]
    pub fn has_right_for(&self, right: Right, key: &Key) -> bool {
        self.granting(right).any(|pattern| pattern.matches(key))
    }

    /// Whether the token has this right for every key.
    #[must_use]
    pub fn has_right_for_all(&self, right: Right) -> bool {
        self.granting(right).any(KeyPattern::is_every)
    }

    /// The patterns of keys for which a right is granted.
    fn granting(&self, right: Right) -> impl Iterator<Item = &KeyPattern> {
        self.grants.iter().filter(move |grant| grant.rights.contains(&right)).flat_map(|grant| &grant.keys)
    }
}
