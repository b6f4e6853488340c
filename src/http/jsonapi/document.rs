//! Resources and documents as bytes, made once and sent many times.
//!
//! ```json
//! {"jsonapi": {"version": "1.1"},
//!  "data": {"type": "document-collection", "id": "posts",
//!   "attributes": {"type": "document", "name": "Posts"},
//!   "links": {"self": "/collections/posts"}},
//!  "links": {"self": "/collections/posts"}}
//! ```
//!
//! The document of one collection is written when somebody first asks for it, and stays in the
//! entry's slot together with its entity tag. The resource inside it is what lists are put
//! together from. `meta` is there only when something needs saying.

use bytes::Bytes;
use chrono::SecondsFormat;
use serde_json::json;
use warp::http::HeaderValue;

use super::error::{ApiError, ErrorObject, Source};
use super::json;
use super::query::{Fields, Wanted};
use crate::config::BasePath;
use crate::domain::{Attribute, Kind};
use crate::engine::{Entry, Preview, Problem, Snapshot};

/// How every document with data begins.
const HEAD: &[u8] = br#"{"jsonapi":{"version":"1.1"},"data":"#;

/// How many bytes a list sets aside for a collection before it knows better.
const RESOURCE_BYTES_TYPICAL: usize = 256;

/// The path of all collections, below the base path.
pub(in crate::http) const COLLECTIONS: &str = "/collections";

/// The resource type of a kind.
pub(in crate::http) const fn resource_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Document => "document-collection",
        Kind::Media => "media-collection",
    }
}

/// The kind that a resource type names.
pub(in crate::http) fn kind_of(resource_type: &str) -> Option<Kind> {
    match resource_type {
        "document-collection" => Some(Kind::Document),
        "media-collection" => Some(Kind::Media),
        _ => None,
    }
}

/// The path of one collection; a key needs no escape.
pub(in crate::http) fn path_of(entry: &Entry, base: &BasePath) -> String {
    format!("{}{COLLECTIONS}/{}", base.as_str(), entry.collection.key())
}

/// A document ready to be sent, with its entity tag in front: one allocation, shared by all who
/// send it.
///
/// Layout: one byte with the length of the quoted tag, the quoted tag, the document.
#[derive(Debug, Clone)]
pub(in crate::http) struct Ready(Bytes);

impl Ready {
    /// The document of one collection.
    pub(in crate::http) fn one(entry: &Entry, base: &BasePath) -> Self {
        let bytes = entry.answer.get_or_init(|| {
            let mut out = tagged(&entry.tag(), RESOURCE_BYTES_TYPICAL);
            out.extend_from_slice(HEAD);
            write_resource(entry, base, None, &mut out);
            write_tail(entry, base, &mut out);
            out.into()
        });
        Self(bytes.clone())
    }

    /// The document of all collections.
    pub(in crate::http) fn list(snapshot: &Snapshot, base: &BasePath) -> Self {
        let bytes = snapshot.list.get_or_init(|| {
            let size = snapshot.catalog().len() * RESOURCE_BYTES_TYPICAL;
            let mut list = List::new(tagged(&snapshot.list_tag(), size));
            for entry in snapshot.catalog().iter() {
                list.push(entry, base, None);
            }
            list.finish(&self_link(&format!("{}{COLLECTIONS}", base.as_str())), snapshot.uncommitted, None)
        });
        Self(bytes.clone())
    }

    /// The entity tag, in quotes.
    pub(in crate::http) fn tag(&self) -> &str {
        std::str::from_utf8(&self.0[1..self.body_start()]).expect("a tag is ASCII")
    }

    /// The entity tag as a header.
    pub(in crate::http) fn etag(&self) -> HeaderValue {
        HeaderValue::from_maybe_shared(self.0.slice(1..self.body_start())).expect("a tag is visible ASCII")
    }

    /// The document.
    pub(in crate::http) fn body(&self) -> Bytes {
        self.0.slice(self.body_start()..)
    }

    fn body_start(&self) -> usize {
        1 + usize::from(self.0[0])
    }

    /// The resource inside the document of this entry.
    fn resource(&self, entry: &Entry, base: &BasePath) -> &[u8] {
        let path = base.as_str().len() + COLLECTIONS.len() + 1 + entry.collection.key().as_str().len();
        &self.0[self.body_start() + HEAD.len()..self.0.len() - TAIL_BYTES_AROUND_PATH - path]
    }
}

fn tagged(tag: &str, size: usize) -> Vec<u8> {
    let length = u8::try_from(tag.len() + 2).expect("a tag is two digests at most");
    let mut out = Vec::with_capacity(1 + usize::from(length) + HEAD.len() + size);
    out.push(length);
    out.push(b'"');
    out.extend_from_slice(tag.as_bytes());
    out.push(b'"');
    out
}

/// What [`write_tail`] writes beside the path.
const TAIL_BYTES_AROUND_PATH: usize = br#","links":{"self":""}}"#.len();

/// How the document of one collection ends.
fn write_tail(entry: &Entry, base: &BasePath, out: &mut Vec<u8>) {
    write_links(entry, base, out);
    out.push(b'}');
}

fn write_links(entry: &Entry, base: &BasePath, out: &mut Vec<u8>) {
    out.extend_from_slice(br#","links":{"self":""#);
    out.extend_from_slice(base.as_str().as_bytes());
    out.extend_from_slice(COLLECTIONS.as_bytes());
    out.push(b'/');
    out.extend_from_slice(entry.collection.key().as_str().as_bytes());
    out.extend_from_slice(br#""}"#);
}

/// The document of one collection with the asked-for attributes only.
pub(in crate::http) fn one(entry: &Entry, base: &BasePath, fields: &Fields, query: &str) -> Bytes {
    let mut out = HEAD.to_vec();
    push_resource(entry, base, Some(fields), &mut out);
    out.extend_from_slice(br#","links":"#);
    out.extend_from_slice(&self_link(&format!("{}?{query}", path_of(entry, base))));
    out.push(b'}');
    out.into()
}

/// A list of collections under construction.
#[derive(Debug)]
pub(in crate::http) struct List {
    out: Vec<u8>,
    first: bool,
}

impl List {
    /// Begins a list after whatever stands in `out` already.
    pub(in crate::http) fn new(mut out: Vec<u8>) -> Self {
        out.extend_from_slice(HEAD);
        out.push(b'[');
        Self { out, first: true }
    }

    /// Adds a collection.
    pub(in crate::http) fn push(&mut self, entry: &Entry, base: &BasePath, fields: Option<&Fields>) {
        if !std::mem::take(&mut self.first) {
            self.out.push(b',');
        }
        push_resource(entry, base, fields, &mut self.out);
    }

    /// Ends the list with its links (a JSON object) and what needs saying.
    pub(in crate::http) fn finish(
        mut self,
        links: &[u8],
        uncommitted: usize,
        page_total: Option<usize>,
    ) -> Bytes {
        self.out.extend_from_slice(br#"],"links":"#);
        self.out.extend_from_slice(links);
        let page = page_total.map(|total| format!(r#""page":{{"total":{total}}}"#));
        let edits = (uncommitted > 0).then(|| format!(r#""uncommitted":{uncommitted}"#));
        let meta: Vec<String> = [page, edits].into_iter().flatten().collect();
        if !meta.is_empty() {
            self.out.extend_from_slice(format!(r#","meta":{{{}}}"#, meta.join(",")).as_bytes());
        }
        self.out.push(b'}');
        self.out.into()
    }
}

/// The links of a document that has only itself to name.
pub(in crate::http) fn self_link(path: &str) -> Vec<u8> {
    let mut links = br#"{"self":"#.to_vec();
    json::write_text(path, &mut links);
    links.push(b'}');
    links
}

/// Appends the resource, from the ready-made bytes if all its attributes are wanted.
fn push_resource(entry: &Entry, base: &BasePath, fields: Option<&Fields>, out: &mut Vec<u8>) {
    let kind = resource_type(entry.collection.kind());
    match fields.and_then(|fields| fields.wanted(kind)) {
        None => out.extend_from_slice(Ready::one(entry, base).resource(entry, base)),
        some @ Some(_) => write_resource(entry, base, some, out),
    }
}

fn write_resource(entry: &Entry, base: &BasePath, wanted: Option<&Wanted>, out: &mut Vec<u8>) {
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
        write_attribute_name(attribute, out);
        json::write(value, out);
    }
    out.push(b'}');
    write_links(entry, base, out);
    write_meta(entry, out);
    out.push(b'}');
}

fn write_attribute_name(attribute: &Attribute, out: &mut Vec<u8>) {
    json::write_text(attribute.as_str(), out);
    out.push(b':');
}

fn write_meta(entry: &Entry, out: &mut Vec<u8>) {
    if !entry.uncommitted && entry.problem.is_none() {
        return;
    }
    let mut meta = serde_json::Map::new();
    if entry.uncommitted {
        meta.insert("uncommitted".into(), true.into());
    }
    if let Some(problem) = &entry.problem {
        let Problem { path, line, column, message, .. } = &**problem;
        let told = json!({"path": path, "line": line, "column": column, "message": message});
        meta.insert("problem".into(), told);
    }
    out.extend_from_slice(br#","meta":"#);
    serde_json::to_writer(out, &meta).expect("writing JSON to memory can't fail");
}

/// The document of an atomic batch: one result an operation, empty for a delete.
pub(in crate::http) fn results<'a>(
    entries: impl IntoIterator<Item = Option<&'a Entry>>,
    base: &BasePath,
) -> Bytes {
    let mut out = br#"{"jsonapi":{"version":"1.1"},"atomic:results":["#.to_vec();
    for (index, entry) in entries.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        match entry {
            None => out.extend_from_slice(b"{}"),
            Some(entry) => {
                out.extend_from_slice(br#"{"data":"#);
                push_resource(entry, base, None, &mut out);
                out.push(b'}');
            }
        }
    }
    out.extend_from_slice(b"]}");
    out.into()
}

/// The document of the problems that are there now.
pub(in crate::http) fn problems<'a>(
    problems: impl IntoIterator<Item = &'a Problem>,
    fields: &Fields,
    path: &str,
) -> Bytes {
    let wanted = fields.wanted("problem");
    let data: Vec<_> = problems.into_iter().map(|problem| problem_resource(problem, wanted)).collect();
    json!({"jsonapi": {"version": "1.1"}, "data": data, "links": {"self": path}}).to_string().into()
}

fn problem_resource(problem: &Problem, wanted: Option<&Wanted>) -> serde_json::Value {
    let mut attributes = json!({
        "path": problem.path,
        "line": problem.line,
        "column": problem.column,
        "message": problem.message,
        "serving": problem.serving.as_str(),
        "since": problem.since.to_rfc3339_opts(SecondsFormat::Secs, true),
    });
    let members = attributes.as_object_mut().expect("it was written as an object above");
    if let Some(key) = &problem.collection {
        members.insert("collection".into(), key.as_str().into());
    }
    if let Some((revision, author)) = &problem.committed {
        members.insert("revision".into(), revision.to_string().into());
        members.insert("author".into(), json!({"name": author.name(), "email": author.email()}));
    }
    members.retain(|name, _| wanted.is_none_or(|wanted| wanted.names(name)));
    json!({"type": "problem", "id": problem.path, "attributes": attributes})
}

/// A document that only says something about the service.
pub(in crate::http) fn meta(meta: &serde_json::Value) -> Bytes {
    json!({"jsonapi": {"version": "1.1"}, "meta": meta}).to_string().into()
}

/// The document of a write that was not carried out, with what it would commit in `meta`; an empty
/// one becomes a document that only tells that.
pub(in crate::http) fn with_preview(document: &[u8], preview: &[Preview]) -> Bytes {
    let commits: Vec<_> = preview.iter().map(previewed).collect();
    let told = json!({ "commits": commits });
    let Some(open) = document.strip_suffix(b"}") else { return meta(&told) };
    [open, br#","meta":"#, told.to_string().as_bytes(), b"}"].concat().into()
}

fn previewed(preview: &Preview) -> serde_json::Value {
    let Preview { message, author, files } = preview;
    let files = files.iter().map(|(path, difference)| json!({"path": path, "difference": difference}));
    json!({
        "message": message,
        "author": {"name": author.name(), "email": author.email()},
        "files": files.collect::<Vec<_>>(),
    })
}

/// The document of a failure.
pub(in crate::http) fn errors(error: &ApiError, base: &BasePath) -> Bytes {
    let mut out = br#"{"jsonapi":{"version":"1.1"},"errors":["#.to_vec();
    for (index, error) in error.errors.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_error(error, base, &mut out);
    }
    out.extend_from_slice(b"]}");
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
    serde_json::to_writer(&mut *out, &object).expect("writing JSON to memory can't fail");
    if let Some(current) = more.and_then(|more| more.current.as_ref()) {
        // The resource is there as bytes: the object is opened again to take it in.
        out.pop();
        out.extend_from_slice(br#","meta":{"current":"#);
        push_resource(current, base, None, out);
        out.extend_from_slice(b"}}");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use chrono::DateTime;

    use super::super::super::testing::{entry, key};
    use super::*;
    use crate::engine::Serving;

    fn text(bytes: &[u8]) -> &str {
        std::str::from_utf8(bytes).unwrap()
    }

    fn problem() -> Problem {
        Problem {
            path: "collections/posts.yaml".into(),
            line: 3,
            column: 7,
            message: "there is no such attribute".into(),
            collection: Some(key("posts")),
            serving: Serving::LastGood,
            since: DateTime::UNIX_EPOCH,
            committed: None,
        }
    }

    #[test]
    fn one_collection_is_shown_exactly_so() {
        let entry =
            entry("posts", Kind::Document, &[("name", "Posts \"1\""), ("directory", "content/posts")]);
        let ready = Ready::one(&entry, &BasePath::default());
        assert_eq!(
            text(&ready.body()),
            r#"{"jsonapi":{"version":"1.1"},"data":{"type":"document-collection","id":"posts","attributes":{"type":"document","name":"Posts \"1\"","directory":"content/posts"},"links":{"self":"/collections/posts"}},"links":{"self":"/collections/posts"}}"#
        );
        assert_eq!(ready.etag(), format!("\"{}\"", entry.tag()).as_str());
        assert_eq!(ready.tag(), format!("\"{}\"", entry.tag()));
    }

    #[test]
    fn meta_appears_only_when_something_needs_saying() {
        let mut entry = Arc::into_inner(entry("posts", Kind::Media, &[])).unwrap();
        entry.uncommitted = true;
        entry.problem = Some(Arc::new(problem()));
        let body = Ready::one(&entry, &"/api".parse::<BasePath>().unwrap()).body();
        assert_eq!(
            text(&body),
            r#"{"jsonapi":{"version":"1.1"},"data":{"type":"media-collection","id":"posts","attributes":{"type":"media"},"links":{"self":"/api/collections/posts"},"meta":{"problem":{"column":7,"line":3,"message":"there is no such attribute","path":"collections/posts.yaml"},"uncommitted":true}},"links":{"self":"/api/collections/posts"}}"#
        );
    }

    #[test]
    fn a_list_is_made_of_the_same_resources() {
        let mut snapshot = Snapshot::default();
        let base = "/api".parse::<BasePath>().unwrap();
        let list = |snapshot: &Snapshot| text(&Ready::list(snapshot, &base).body()).to_owned();
        assert_eq!(
            list(&snapshot),
            r#"{"jsonapi":{"version":"1.1"},"data":[],"links":{"self":"/api/collections"}}"#
        );
        snapshot = snapshot.next();
        snapshot.insert(entry("b", Kind::Media, &[]));
        snapshot.insert(entry("a", Kind::Document, &[]));
        snapshot.uncommitted = 2;
        assert_eq!(
            list(&snapshot),
            r#"{"jsonapi":{"version":"1.1"},"data":[{"type":"document-collection","id":"a","attributes":{"type":"document"},"links":{"self":"/api/collections/a"}},{"type":"media-collection","id":"b","attributes":{"type":"media"},"links":{"self":"/api/collections/b"}}],"links":{"self":"/api/collections"},"meta":{"uncommitted":2}}"#
        );
    }

    #[test]
    fn an_error_that_meets_a_collection_shows_it() {
        let error = ApiError::precondition("If-Match", Some(entry("posts", Kind::Media, &[])));
        assert_eq!(
            text(&errors(&error, &BasePath::default())),
            r#"{"jsonapi":{"version":"1.1"},"errors":[{"code":"precondition_failed","detail":"The collection is not in the state that the precondition asks for.","source":{"header":"If-Match"},"status":"412","title":"Precondition Failed","meta":{"current":{"type":"media-collection","id":"posts","attributes":{"type":"media"},"links":{"self":"/collections/posts"}}}}]}"#
        );
    }

    #[test]
    fn a_problem_is_a_resource() {
        let shown = problems([&problem()], &Fields::default(), "/problems");
        let shown: serde_json::Value = serde_json::from_slice(&shown).unwrap();
        assert_eq!(
            shown["data"][0],
            json!({"type": "problem", "id": "collections/posts.yaml", "attributes": {
                "path": "collections/posts.yaml", "line": 3, "column": 7, "message": "there is no such attribute",
                "collection": "posts", "serving": "last-good", "since": "1970-01-01T00:00:00Z"}})
        );
    }
}
