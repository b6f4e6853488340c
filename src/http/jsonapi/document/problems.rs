//! The problems of the repository as resources.

use bytes::Bytes;
use chrono::SecondsFormat;
use serde_json::json;

use super::super::query::{Fields, Wanted};
use crate::engine::Problem;

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
