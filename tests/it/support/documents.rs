//! Request documents, as a client writes them.

use serde_json::{Value, json};

/// A document collection.
pub(crate) fn document(id: &str, attributes: Value) -> Value {
    json!({"data": {"type": "document-collection", "id": id, "attributes": attributes}})
}

/// A media collection.
pub(crate) fn media(id: &str, attributes: Value) -> Value {
    json!({"data": {"type": "media-collection", "id": id, "attributes": attributes}})
}

/// A patch of a document collection; the same words as creating one.
pub(crate) fn patch_of(id: &str, attributes: Value) -> Value {
    document(id, attributes)
}
