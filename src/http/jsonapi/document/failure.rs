//! Error documents.

use bytes::Bytes;
use serde_json::json;

use crate::config::BasePath;
use crate::engine::Clash;
use crate::http::jsonapi::document::tagged::push_resource;
use crate::http::jsonapi::error::{ApiError, ErrorExtras, ErrorObject, ErrorSource};
use crate::http::jsonapi::json;

/// Returns the document of a failure.
pub(crate) fn errors(error: &ApiError, base: &BasePath) -> Bytes {
    let mut out = br#"{"jsonapi":{"version":"1.1"},"errors":"#.to_vec();
    json::write_list(&error.errors, &mut out, |error, out| write_error(error, base, out));
    out.push(b'}');
    out.into()
}

fn write_error(error: &ErrorObject, base: &BasePath, out: &mut Vec<u8>) {
    let more = error.more.as_deref();
    json::write_object(out, None, |object| {
        object.text("code", &error.code);
        object.text("detail", &error.detail);
        if let Some(link) = more.and_then(|more| more.kind_link) {
            object.json("links", json!({"type": link}));
        }
        match &error.source {
            None => {}
            Some(ErrorSource::Pointer(pointer)) => object.json("source", json!({"pointer": pointer})),
            Some(ErrorSource::Parameter(name)) => object.json("source", json!({"parameter": name})),
            Some(ErrorSource::Header(name)) => object.json("source", json!({"header": name})),
        }
        object.text("status", error.status.as_str());
        object.text("title", &error.title);
        if let Some(meta) = more.map(|more| meta(more, base)).filter(|meta| meta != b"{}") {
            object.member("meta", |out| out.extend_from_slice(&meta));
        }
    });
}

/// Returns the `meta` object of an error, which may be empty.
fn meta(more: &ErrorExtras, base: &BasePath) -> Vec<u8> {
    let mut out = Vec::new();
    json::write_object(&mut out, None, |meta| {
        if !more.clashes.is_empty() {
            meta.member("attributes", |out| write_clashes(&more.clashes, out));
        }
        if let Some(current) = &more.current {
            meta.member("current", |out| push_resource(current, base, None, None, out));
        }
        if !more.events.is_empty() {
            meta.json("events", more.events.iter().map(ToString::to_string).collect::<Vec<_>>());
        }
        if let Some(size) = more.page_size_max {
            meta.json("page", json!({"maxSize": size}));
        }
        if let Some(remote) = &more.remote {
            meta.json("remote", remote.clone());
        }
    });
    out
}

/// Writes the three versions of each attribute that both sides changed; an absent version is left out.
fn write_clashes(clashes: &[Clash], out: &mut Vec<u8>) {
    json::write_object(out, None, |attributes| {
        for Clash { attribute, base, yours, theirs } in clashes {
            attributes.member(attribute, |out| {
                json::write_object(out, None, |versions| {
                    versions.value("base", base.as_ref());
                    versions.value("yours", yours.as_ref());
                    versions.value("theirs", theirs.as_ref());
                });
            });
        }
    });
}
