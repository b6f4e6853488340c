//! What a repository is opened for.

/// What a repository is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// To read and write, alone: a second one is refused.
    Serve,
    /// To read, beside whoever serves; nothing is written, not even a note.
    Read,
    /// To read the files as they stand, on whatever branch or none; nothing is written either.
    Survey,
}
