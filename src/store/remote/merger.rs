//! What a merge asks of whoever knows what collections mean, and what it is answered.

use crate::domain::Revision;

/// What a side of a merge has under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SideFile {
    /// A regular file.
    File(Vec<u8>),
    /// Anything else, or a file that is too large for a collection.
    Special,
}

/// A file of the collections folder on the three sides of a merge; `None` where there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSides {
    /// The name inside the folder.
    pub name: String,
    /// Where the two set out.
    pub base: Option<SideFile>,
    /// What is here.
    pub ours: Option<SideFile>,
    /// What the remote has.
    pub theirs: Option<SideFile>,
}

/// What is to be merged.
#[derive(Debug, Clone)]
pub struct Sides {
    /// The files of the collections folder that were changed here, and where the remote has changed the other name of
    /// one (`.yml`, `.yaml`) that too.
    pub files: Vec<FileSides>,
    /// The names that the remote has and had not where the two set out.
    pub created: Vec<String>,
    /// The paths of other files that both have changed in different ways.
    pub conflicts: Vec<String>,
    /// Our side.
    pub joined: Revision,
    /// How many commits it brings.
    pub commits: usize,
    /// Whether the remote had had them.
    pub is_restored: bool,
}

/// What becomes of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolution {
    /// What the remote has stays.
    Theirs,
    /// What is here.
    Ours,
    /// This.
    Bytes(Vec<u8>),
}

/// What was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeDecision {
    /// What becomes of each file, in order.
    pub takes: Vec<Resolution>,
    /// The message of the commit.
    pub message: String,
    /// How many conflicts it tells of.
    pub conflicts: usize,
}

/// Knows what the files of the collections folder mean.
pub trait Merger: Send + Sync {
    /// Decides what becomes of files that both sides may have changed.
    fn merge(&self, sides: &Sides) -> MergeDecision;
}
