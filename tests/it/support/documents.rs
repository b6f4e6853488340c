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
