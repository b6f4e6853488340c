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

/// What brings a collection back to what it was at a revision.
pub(crate) fn restoring(revision: &str) -> Value {
    json!({"data": {"type": "restore", "attributes": {"revision": revision}}})
}

/// An operation of a batch that creates what a document asks for.
pub(crate) fn add(document: &Value) -> Value {
    json!({"op": "add", "data": document["data"]})
}

/// One that changes a document collection.
pub(crate) fn update(key: &str, attributes: Value) -> Value {
    json!({"op": "update", "data": document(key, attributes)["data"]})
}

/// One that deletes a document collection.
pub(crate) fn remove(key: &str) -> Value {
    json!({"op": "remove", "ref": {"type": "document-collection", "id": key}})
}
