//! The types of the resources of collections.

use crate::domain::Kind;

/// Returns the type of the resources of a kind.
pub(crate) const fn resource_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Document => "document-collection",
        Kind::Media => "media-collection",
    }
}

/// Returns the kind of a type.
pub(crate) fn kind_of(resource_type: &str) -> Option<Kind> {
    match resource_type {
        "document-collection" => Some(Kind::Document),
        "media-collection" => Some(Kind::Media),
        _ => None,
    }
}
