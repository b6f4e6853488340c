//! Serialized resources and documents, written once and sent many times.
//!
//! ```json
//! {"jsonapi": {"version": "1.1"},
//!  "data": {"type": "document-collection", "id": "posts",
//!   "attributes": {"type": "document", "name": "Posts"},
//!   "links": {"self": "/collections/posts"}},
//!  "links": {"self": "/collections/posts"}}
//! ```
//!
//! The document of a collection is written at its first request and stored in the entry with its entity tag. Lists
//! are assembled from the resource inside it. `meta` is present only if there is something to report.

mod failure;
pub(crate) mod history;
mod list;
mod problems;
mod resource;
mod tagged;
#[cfg(test)]
mod tests;

use std::time::Instant;

use bytes::Bytes;
use serde_json::json;

use crate::config::BasePath;
use crate::domain::Revision;
use crate::engine::{Entry, Preview};
pub(crate) use crate::http::jsonapi::document::failure::errors;
pub(crate) use crate::http::jsonapi::document::list::{List, whole_list};
pub(crate) use crate::http::jsonapi::document::problems::problems;
pub(crate) use crate::http::jsonapi::document::tagged::{TaggedDocument, push_resource};
use crate::http::jsonapi::json;
use crate::http::jsonapi::query::{Fields, in_uri};

/// The beginning of every document with data.
const DATA_PREFIX: &[u8] = br#"{"jsonapi":{"version":"1.1"},"data":"#;

/// The path of the collection list, below the base path.
pub(crate) const COLLECTIONS: &str = "/collections";

/// Returns the path of a collection; a key needs no escaping.
pub(crate) fn path_of(entry: &Entry, base: &BasePath) -> String {
    format!("{}{COLLECTIONS}/{}", base.as_str(), entry.collection.key())
}

/// Returns the document of a collection, as it was at a revision if one is given, with the requested attributes only.
/// `query` is the one that asked for it, as it was sent.
pub(crate) fn one(
    entry: &Entry,
    base: &BasePath,
    as_of: Option<Revision>,
    fields: &Fields,
    query: &str,
) -> Bytes {
    let mut resource = Vec::new();
    push_resource(entry, base, as_of, Some(fields), &mut resource);
    history::one(&resource, &self_link(&format!("{}?{}", path_of(entry, base), in_uri(query))))
}

/// Returns the links of a document that has only a link to itself.
pub(crate) fn self_link(path: &str) -> Vec<u8> {
    let mut links = br#"{"self":"#.to_vec();
    json::write_text(path, &mut links);
    links.push(b'}');
    links
}

/// Returns the document of an atomic batch: one result per operation, empty for a delete.
pub(crate) fn results<'a>(entries: impl IntoIterator<Item = Option<&'a Entry>>, base: &BasePath) -> Bytes {
    let mut out = br#"{"jsonapi":{"version":"1.1"},"atomic:results":"#.to_vec();
    json::write_list(entries, &mut out, |entry, out| {
        json::write_object(out, None, |result| {
            if let Some(entry) = entry {
                result.member("data", |out| push_resource(entry, base, None, None, out));
            }
        });
    });
    out.push(b'}');
    out.into()
}

/// Returns a document that has only `meta`.
pub(crate) fn meta(meta: &serde_json::Value) -> Bytes {
    json!({"jsonapi": {"version": "1.1"}, "meta": meta}).to_string().into()
}

/// Adds what a dry run would commit, in `meta`, to the document of the write; an empty document becomes only `meta`.
pub(crate) fn with_preview(document: &[u8], preview: &[Preview], until: Instant) -> Bytes {
    let commits: Vec<_> = preview.iter().map(|commit| previewed(commit, until)).collect();
    let previews = json!({ "commits": commits });
    let Some(open) = document.strip_suffix(b"}") else { return meta(&previews) };
    [open, br#","meta":"#, previews.to_string().as_bytes(), b"}"].concat().into()
}

fn previewed(preview: &Preview, until: Instant) -> serde_json::Value {
    let Preview { message, author, files } = preview;
    let files = files.iter().map(|file| json!({"path": file.path, "difference": file.difference(until)}));
    json!({
        "message": message,
        "author": {"name": author.name(), "email": author.email()},
        "files": files.collect::<Vec<_>>(),
    })
}
