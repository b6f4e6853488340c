//! The resource of one collection.

use serde_json::json;

use crate::config::BasePath;
use crate::engine::Entry;
use crate::http::jsonapi::document::{Ready, path_of, resource_type, self_link};
use crate::http::jsonapi::json;
use crate::http::jsonapi::json::Members;
use crate::http::jsonapi::query::{Fields, Fieldset};

/// Appends the resource, from the ready-made bytes if all its attributes are wanted.
pub(crate) fn push_resource(entry: &Entry, base: &BasePath, fields: Option<&Fields>, out: &mut Vec<u8>) {
    let kind = resource_type(entry.collection.kind());
    match fields.and_then(|fields| fields.wanted(kind)) {
        None => out.extend_from_slice(Ready::one(entry, base).resource(entry, base)),
        some @ Some(_) => write_resource(entry, base, some, out),
    }
}

pub(crate) fn write_resource(entry: &Entry, base: &BasePath, wanted: Option<&Fieldset>, out: &mut Vec<u8>) {
    let collection = &entry.collection;
    let mut resource = Members::begin(out, None);
    resource.text("type", resource_type(collection.kind()));
    resource.text("id", collection.key().as_str());
    resource.member("attributes", |out| {
        let mut attributes = Members::begin(out, wanted);
        attributes.text("type", collection.kind().as_str());
        for (attribute, value) in collection.attributes().iter() {
            attributes.member(attribute.as_str(), |out| json::write(value, out));
        }
        attributes.end();
    });
    resource.member("links", |out| out.extend_from_slice(&self_link(&path_of(entry, base))));
    if let Some(meta) = meta(entry) {
        resource.json("meta", meta);
    }
    resource.end();
}

/// What needs saying of a collection, if anything does.
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
