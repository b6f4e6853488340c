//! Refusals: why the domain rejects a command.

use std::fmt;

use crate::domain::{ATTRIBUTES_MAX, Attribute, Key, Kind, excerpt};

/// The reason why a command is rejected.
///
/// A refusal is always about the command; disk errors are
/// [`StoreError`](crate::store::StoreError)s.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No collection has this key.
    #[error("there is no collection with the key `{0}`")]
    UnknownKey(Key),
    /// A collection of either kind with this key exists.
    #[error("a collection with the key `{0}` exists already")]
    KeyTaken(Key),
    /// A collection exists whose key differs in letter case only.
    #[error(
        "the key `{key}` differs from the existing `{existing}` in letter case only, and some disks can't hold both"
    )]
    KeyTakenInOtherCase {
        /// The requested key.
        key: Key,
        /// The key that exists.
        existing: Key,
    },
    /// A collection keeps the kind that it was created with.
    #[error(
        "`{key}` is a {stored} collection and can't become a {asked} collection; delete and create it instead"
    )]
    KindFixed {
        /// The collection.
        key: Key,
        /// Its kind.
        stored: Kind,
        /// The requested kind.
        asked: Kind,
    },
    /// Attributes violate their rules.
    #[error("{}", listed(.0))]
    Invalid(Vec<Violation>),
    /// The collection would not fit into a file.
    #[error("the settings of `{key}` would take {bytes} bytes as a file, at most {bytes_max} are read")]
    TooLarge {
        /// The collection.
        key: Key,
        /// The size that the file would have, in bytes.
        bytes: usize,
        /// The maximum size of a file, in bytes.
        bytes_max: usize,
    },
}

/// One rule that one value breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The path to the value, starting at its attribute; empty for the attributes as a whole.
    pub path: Vec<Segment>,
    /// What was found and what is expected: one sentence without a full stop.
    pub message: String,
}

/// One step of the path to a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// A member of a map.
    Name(String),
    /// An item of a list, from 0.
    Index(usize),
}

impl Violation {
    /// A violation at an attribute.
    #[must_use]
    pub fn at(attribute: &str, message: impl Into<String>) -> Self {
        Self { path: vec![Segment::Name(attribute.to_owned())], message: message.into() }
    }

    /// Returns the violation with this name prepended to its path, as the enclosing map reports it.
    #[must_use]
    pub(crate) fn within(mut self, name: &str) -> Self {
        self.path.insert(0, Segment::Name(name.to_owned()));
        self
    }

    /// The violation of a collection that has more attributes than allowed.
    pub(crate) fn too_many_attributes(count: usize) -> Self {
        let message = format!(
            "{}, these are {count}; put some of them into one map",
            Self::too_many_attributes_prefix()
        );
        Self { path: Vec::new(), message }
    }

    /// The start of the message for too many attributes. No other message starts like this.
    pub(crate) fn too_many_attributes_prefix() -> String {
        format!("a collection has at most {ATTRIBUTES_MAX} attributes")
    }

    /// Whether this is the violation for too many attributes.
    pub(crate) fn is_too_many_attributes(&self) -> bool {
        self.message.starts_with(&Self::too_many_attributes_prefix())
    }

    /// The violation of a name that is not an attribute of this kind.
    #[must_use]
    pub fn unknown(kind: Kind, name: &str) -> Self {
        Self::at(name, Attribute::unknown_message(kind, name))
    }
}

/// Formats path and message: `unpublishedStatuses.draft.directory: …`, `accept[1]: …`.
impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, segment) in self.path.iter().enumerate() {
            match segment {
                Segment::Name(name) if index == 0 => f.write_str(&excerpt(name))?,
                Segment::Name(name) => write!(f, ".{}", excerpt(name))?,
                Segment::Index(at) => write!(f, "[{at}]")?,
            }
        }
        let colon = if self.path.is_empty() { "" } else { ": " };
        write!(f, "{colon}{}", self.message)
    }
}

fn listed(violations: &[Violation]) -> String {
    violations.iter().map(Violation::to_string).collect::<Vec<_>>().join("; ")
}
