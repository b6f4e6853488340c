//! The resource of one collection.

use serde_json::json;

use crate::config::BasePath;
use crate::domain::Revision;
use crate::engine::Entry;
use crate::http::jsonapi::document::COLLECTIONS;
use crate::http::jsonapi::json;
use crate::http::jsonapi::query::{AS_OF, Fieldset};
use crate::http::jsonapi::resource_type::resource_type;

/// Appends the resource piece by piece. A list with sparse fieldsets has thousands of resources, and took half as
/// long again with a [`Members`](json::Members) for each.
pub(crate) fn write_resource(
    entry: &Entry,
    base: &BasePath,
    as_of: Option<Revision>,
    wanted: Option<&Fieldset>,
    out: &mut Vec<u8>,
) {
    let collection = &entry.collection;
    out.extend_from_slice(br#"{"type":""#);
    out.extend_from_slice(resource_type(collection.kind()).as_bytes());
    out.extend_from_slice(br#"","id":""#);
    out.extend_from_slice(collection.key().as_str().as_bytes());
    out.extend_from_slice(br#"","attributes":{"#);
    let wants = |name: &str| wanted.is_none_or(|wanted| wanted.names(name));
    let mut separator: &[u8] = b"";
    if wants("type") {
        out.extend_from_slice(br#""type":""#);
        out.extend_from_slice(collection.kind().as_str().as_bytes());
        out.push(b'"');
        separator = b",";
    }
    for (attribute, value) in collection.attributes().iter().filter(|(name, _)| wants(name.as_str())) {
        out.extend_from_slice(separator);
        separator = b",";
        json::write_text(attribute.as_str(), out);
        out.push(b':');
        json::write(value, out);
    }
    out.push(b'}');
    write_links(entry, base, as_of, out);
    if let Some(meta) = meta(entry) {
        out.extend_from_slice(br#","meta":"#);
        serde_json::to_writer(&mut *out, &meta).expect("writing JSON to memory can't fail");
    }
    out.push(b'}');
}

pub(crate) fn write_links(entry: &Entry, base: &BasePath, as_of: Option<Revision>, out: &mut Vec<u8>) {
    out.extend_from_slice(br#","links":{"self":""#);
    out.extend_from_slice(base.as_str().as_bytes());
    out.extend_from_slice(COLLECTIONS.as_bytes());
    out.push(b'/');
    out.extend_from_slice(entry.collection.key().as_str().as_bytes());
    if let Some(revision) = as_of {
        out.extend_from_slice(format!("?{AS_OF}={revision}").as_bytes());
    }
    out.extend_from_slice(br#""}"#);
}

/// Returns the `meta` of a collection that is uncommitted or has a problem.
fn meta(entry: &Entry) -> Option<serde_json::Value> {
    if !entry.uncommitted && entry.problem.is_none() {
        return None;
    }
    let mut meta = json!({});
    if entry.uncommitted {
        meta["uncommitted"] = true.into();
    }
    if let Some(problem) = &entry.problem {
        let (path, first) = (&problem.path, problem.first());
        meta["problem"] =
            json!({"path": path, "line": first.line, "column": first.column, "message": first.message});
    }
    Some(meta)
}
