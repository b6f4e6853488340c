//! The interface through which a merge delegates collection files to the engine.

use crate::domain::Revision;

/// The entry at a path on one side of a merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SideFile {
    /// A regular file.
    File(Vec<u8>),
    /// Any other entry, or a file that is too large for a collection.
    Special,
}

/// A file of the collections folder on the three sides of a merge; `None` where a side has no entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSides {
    /// The name relative to the folder.
    pub name: String,
    /// The entry at the merge base.
    pub base: Option<SideFile>,
    /// The local entry.
    pub ours: Option<SideFile>,
    /// The remote's entry.
    pub theirs: Option<SideFile>,
}

/// The input of a merge.
#[derive(Debug, Clone)]
pub struct Sides {
    /// The files of the collections folder that changed here, and their twins (`.yml` for `.yaml` and the reverse)
    /// that the remote has changed.
    pub files: Vec<FileSides>,
    /// The names that the remote has added since the merge base.
    pub created: Vec<String>,
    /// The paths of other files that both sides have changed in different ways.
    pub conflicts: Vec<String>,
    /// The local head.
    pub ours: Revision,
    /// The number of commits that `ours` brings.
    pub commits: usize,
    /// Whether the remote once had these commits and lost them.
    pub is_restored: bool,
}

/// The resolution of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolution {
    /// Keep the remote's version.
    Theirs,
    /// Take the local version.
    Ours,
    /// Write these bytes.
    Bytes(Vec<u8>),
}

/// The outcome of a merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeDecision {
    /// The resolution of each file, in the order of [`Sides::files`].
    pub resolutions: Vec<Resolution>,
    /// The message of the merge commit.
    pub message: String,
    /// The number of conflicts that the message lists.
    pub conflicts: usize,
}

/// Resolves the files of the collections folder by what they mean.
pub trait Merger: Send + Sync {
    /// Resolves the files that both sides may have changed.
    fn merge(&self, sides: &Sides) -> MergeDecision;
}
