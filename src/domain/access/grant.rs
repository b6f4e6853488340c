//! What a caller may do.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::domain::{Actor, Expiry, Key, KeyPattern, SecretHash};

/// One right that a caller may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// List and read what is served, follow it, and learn what changed and what is wrong.
    Read,
    /// Create, update and delete collections. Answers and dry runs show the present of what is
    /// written, never the past.
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

/// Some rights for some keys; one without keys grants nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// What may be done.
    pub may: Vec<Right>,
    /// To which collections.
    pub keys: Vec<KeyPattern>,
}

impl Grant {
    /// Every right for every key.
    #[must_use]
    pub fn everything() -> Self {
        Self { may: Right::ALL.to_vec(), keys: vec![KeyPattern::every()] }
    }

    /// Whether anything is granted at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.may.is_empty() || self.keys.is_empty()
    }
}

/// A bearer token, by the hash of its secret, and all that it allows; what is not granted is
/// denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Whom the token stands for: the author of the commits.
    pub actor: Actor,
    /// What is kept of the secret.
    pub secret_hash: SecretHash,
    /// What it allows; the rights of all grants add up.
    pub grants: Arc<[Grant]>,
    /// When it was made, if that is known.
    pub created: Option<DateTime<Utc>>,
    /// Until when it is good; `None` for ever. After that it is as unknown as any.
    pub expires: Option<Expiry>,
}

impl Token {
    /// Whether this may be done to some key.
    #[must_use]
    pub fn may(&self, right: Right) -> bool {
        self.granting(right).next().is_some()
    }

    /// Whether this may be done to this key.
    #[must_use]
    pub fn may_to(&self, right: Right, key: &Key) -> bool {
        self.granting(right).any(|pattern| pattern.matches(key))
    }

    /// Whether this may be done to every key.
    #[must_use]
    pub fn may_to_all(&self, right: Right) -> bool {
        self.granting(right).any(KeyPattern::is_every)
    }

    /// The keys for which a right is granted.
    fn granting(&self, right: Right) -> impl Iterator<Item = &KeyPattern> {
        self.grants.iter().filter(move |grant| grant.may.contains(&right)).flat_map(|grant| &grant.keys)
    }
}
