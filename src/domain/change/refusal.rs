//! Refusals: why the domain rejects a command.

use crate::domain::{Key, Kind, Violation};

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

fn listed(violations: &[Violation]) -> String {
    violations.iter().map(Violation::to_string).collect::<Vec<_>>().join("; ")
}
