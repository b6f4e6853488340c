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
    /// Parses the value of the attribute `type`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "document" => Some(Self::Document),
            "media" => Some(Self::Media),
            _ => None,
        }
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
