//! The document of a failure.

use bytes::Bytes;
use serde_json::json;

use crate::config::BasePath;
use crate::engine::Clash;
use crate::http::jsonapi::document::resource::push_resource;
use crate::http::jsonapi::error::{ApiError, ErrorObject, Source};
use crate::http::jsonapi::json;
use crate::http::jsonapi::json::Members;

/// The document of a failure.
pub(crate) fn errors(error: &ApiError, base: &BasePath) -> Bytes {
    let mut out = br#"{"jsonapi":{"version":"1.1"},"errors":"#.to_vec();
    json::write_list(&error.errors, &mut out, |error, out| write_error(error, base, out));
    out.push(b'}');
    out.into()
}

fn write_error(error: &ErrorObject, base: &BasePath, out: &mut Vec<u8>) {
    let mut object = json!({
        "status": error.status.as_str(),
        "code": error.code,
        "title": error.title,
        "detail": error.detail,
    });
    match &error.source {
        None => {}
        Some(Source::Pointer(pointer)) => object["source"] = json!({"pointer": pointer}),
        Some(Source::Parameter(name)) => object["source"] = json!({"parameter": name}),
        Some(Source::Header(name)) => object["source"] = json!({"header": name}),
    }
    let more = error.more.as_deref();
    if let Some(link) = more.and_then(|more| more.kind_link) {
        object["links"] = json!({"type": link});
    }
    if let Some(size) = more.and_then(|more| more.page_size_max) {
        object["meta"] = json!({"page": {"maxSize": size}});
    }
    if let Some(remote) = more.and_then(|more| more.remote.as_ref()) {
        object["meta"] = json!({"remote": remote});
    }
    if let Some(events) = more.map(|more| &more.events).filter(|events| !events.is_empty()) {
        object["meta"] = json!({"events": events.iter().map(ToString::to_string).collect::<Vec<_>>()});
    }
    serde_json::to_writer(&mut *out, &object).expect("writing JSON to memory can't fail");
    if let Some(current) = more.and_then(|more| more.current.as_ref()) {
        // The resource is there as bytes: the object is opened again to take it in.
        out.pop();
        out.extend_from_slice(br#","meta":{"#);
        if let Some(clashes) = more.map(|more| &more.clashes).filter(|clashes| !clashes.is_empty()) {
            out.extend_from_slice(br#""attributes":"#);
            write_clashes(clashes, out);
            out.push(b',');
        }
        out.extend_from_slice(br#""current":"#);
        push_resource(current, base, None, out);
        out.extend_from_slice(b"}}");
    }
}

/// Three versions of each attribute that two people changed; one that was absent is left out.
fn write_clashes(clashes: &[Clash], out: &mut Vec<u8>) {
    let mut attributes = Members::begin(out, None);
    for Clash { attribute, base, yours, theirs } in clashes {
        attributes.member(attribute, |out| {
            let mut versions = Members::begin(out, None);
            for (name, value) in [("base", base), ("yours", yours), ("theirs", theirs)] {
                if let Some(value) = value {
                    versions.member(name, |out| json::write(value, out));
                }
            }
            versions.end();
        });
    }
    attributes.end();
}
