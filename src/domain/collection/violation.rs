//! What breaks a rule of a collection, and where.

use std::fmt;

use crate::domain::collection::ATTRIBUTES_MAX;
use crate::domain::collection::value::excerpt;

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
