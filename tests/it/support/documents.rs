//! Request documents, as a client writes them.

use serde_json::{Value, json};

pub(crate) fn document(id: &str, attributes: Value) -> Value {
    json!({"data": {"type": "document-collection", "id": id, "attributes": attributes}})
}

pub(crate) fn media(id: &str, attributes: Value) -> Value {
    json!({"data": {"type": "media-collection", "id": id, "attributes": attributes}})
}

/// The body that restores a collection to a revision.
pub(crate) fn restore_document(revision: &str) -> Value {
    json!({"data": {"type": "restore", "attributes": {"revision": revision}}})
}

/// A batch operation that creates the collection in a document.
pub(crate) fn add_operation(document: &Value) -> Value {
    json!({"op": "add", "data": document["data"]})
}

/// A batch operation that updates a document collection.
pub(crate) fn update_operation(key: &str, attributes: Value) -> Value {
    json!({"op": "update", "data": document(key, attributes)["data"]})
}

/// A batch operation that deletes a document collection.
pub(crate) fn remove_operation(key: &str) -> Value {
    json!({"op": "remove", "ref": {"type": "document-collection", "id": key}})
}
