//! The two kinds of collections.

use std::fmt;

/// What a collection holds: documents or media.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Documents.
    Document,
    /// Media.
    Media,
}

impl Kind {
    /// Both kinds, documents first.
    pub const ALL: [Self; 2] = [Self::Document, Self::Media];

    /// Parses the value of the attribute `type`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }

    /// The value of the attribute `type`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Document => "document",
            Self::Media => "media",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
