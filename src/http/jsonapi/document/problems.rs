//! The problems of the repository as resources.

use bytes::Bytes;
use serde_json::json;

use crate::domain::to_the_second;
use crate::engine::{BranchRewrite, Conflict, MergeConflict, Problem, RemovedEvent};
use crate::http::jsonapi::document::history::{list, resource, write_actor};
use crate::http::jsonapi::document::self_link;
use crate::http::jsonapi::query::{Fields, Fieldset};

/// Returns the document of the current problems, with one resource for each fault of a file.
pub(crate) fn problems<'a>(
    files: impl IntoIterator<Item = &'a Problem>,
    rewritten: &[BranchRewrite],
    conflicts: impl IntoIterator<Item = &'a MergeConflict>,
    fields: &Fields,
    path: &str,
) -> Bytes {
    let wanted = fields.wanted("problem");
    let faults = files
        .into_iter()
        .flat_map(|problem| (0..problem.faults.len()).map(move |number| fault(problem, number, wanted)));
    let resources = faults.chain(rewritten.iter().map(|it| rewritten_branch(it, wanted)));
    let resources = resources.chain(conflicts.into_iter().map(|it| conflicted(it, wanted)));
    list(resources, &self_link(path), None)
}

fn fault(problem: &Problem, number: usize, wanted: Option<&Fieldset>) -> Bytes {
    let fault = &problem.faults[number];
    resource("problem", &problem.id(number), wanted, |attributes| {
        attributes.text("kind", "file");
        attributes.text("path", &problem.path);
        attributes.json("line", fault.line);
        attributes.json("column", fault.column);
        attributes.text("message", &fault.message);
        if let Some(key) = &problem.collection {
            attributes.text("collection", key.as_str());
        }
        attributes.text("serving", problem.serving.as_str());
        attributes.text("since", &to_the_second(problem.since));
        if let Some((revision, author)) = &problem.committed {
            attributes.text("revision", &revision.to_string());
            attributes.member("author", |out| write_actor(author, out));
        }
    })
}

fn rewritten_branch(rewritten: &BranchRewrite, wanted: Option<&Fieldset>) -> Bytes {
    let gone =
        |it: &RemovedEvent| json!({"collection": it.key.as_str(), "revision": it.revision.to_string()});
    let events: Vec<_> = rewritten.events.iter().map(gone).collect();
    resource("problem", &format!("rewritten:{}", rewritten.name), wanted, |attributes| {
        attributes.text("kind", "rewritten");
        attributes.text("message", &rewritten.message);
        attributes.text("since", &to_the_second(rewritten.since));
        attributes.text("revision", &rewritten.revision.to_string());
        attributes.json("events", events);
    })
}

fn conflicted(conflicted: &MergeConflict, wanted: Option<&Fieldset>) -> Bytes {
    let id = match &conflicted.conflict {
        Conflict::Attribute { key, attribute } => format!("conflict:{key}/{attribute}"),
        Conflict::File(path) => format!("conflict:{path}"),
    };
    resource("problem", &id, wanted, |attributes| {
        attributes.text("kind", "conflict");
        match &conflicted.conflict {
            Conflict::Attribute { key, attribute } => {
                attributes.text("collection", key.as_str());
                attributes.text("attribute", attribute);
            }
            Conflict::File(path) => attributes.text("path", path),
        }
        attributes.text("message", &conflicted.message);
        attributes.text("since", &to_the_second(conflicted.since));
        attributes.text("revision", &conflicted.revision.to_string());
    })
}
