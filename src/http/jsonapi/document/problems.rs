//! The problems of the repository as resources.

use bytes::Bytes;
use chrono::SecondsFormat;
use serde_json::json;

use super::super::query::{Fields, Wanted};
use crate::engine::{Problem, Rewritten};

/// The document of the problems that are there now.
pub(in crate::http) fn problems<'a>(
    files: impl IntoIterator<Item = &'a Problem>,
    rewritten: &[Rewritten],
    fields: &Fields,
    path: &str,
) -> Bytes {
    let wanted = fields.wanted("problem");
    let files = files.into_iter().map(|problem| problem_resource(problem, wanted));
    let data: Vec<_> = files.chain(rewritten.iter().map(|it| rewritten_resource(it, wanted))).collect();
    json!({"jsonapi": {"version": "1.1"}, "data": data, "links": {"self": path}}).to_string().into()
}

fn problem_resource(problem: &Problem, wanted: Option<&Wanted>) -> serde_json::Value {
    let mut attributes = json!({
        "kind": "file",
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

fn rewritten_resource(rewritten: &Rewritten, wanted: Option<&Wanted>) -> serde_json::Value {
    let mut attributes = json!({
        "kind": "rewritten",
        "message": rewritten.message,
        "since": rewritten.since.to_rfc3339_opts(SecondsFormat::Secs, true),
        "revision": rewritten.revision.to_string(),
    });
    let members = attributes.as_object_mut().expect("it was written as an object above");
    members.retain(|name, _| wanted.is_none_or(|wanted| wanted.names(name)));
    json!({"type": "problem", "id": format!("rewritten:{}", rewritten.name), "attributes": attributes})
}
