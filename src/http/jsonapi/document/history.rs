//! Resources of the past: events, differences, blame and changes.
//!
//! ```json
//! {"type": "collection-event", "id": "0197a6c2-6b0e-7c44-9d0e-0a4b6c1f2d3e",
//!  "attributes": {
//!    "action": "updated", "collection": "posts", "revision": "9fceb02d…", "at": "2026-03-01T09:30:00Z",
//!    "actor": {"name": "Mara", "email": "mara@example.org"}, "origin": "api", "reason": "Spring clean-up",
//!    "changes": [{"attribute": "name", "from": "Posts", "to": "All posts"}]}}
//! ```
//!
//! An event never changes, so its resource is written once and stored with it.

use bytes::Bytes;
use serde_json::json;

use crate::domain::{Actor, Change, Key, Reversal, to_the_second};
use crate::engine::history::{Action, Blame, CollectionDifference, Effect, EventRecord, PastFault};
use crate::engine::{self, Fault};
use crate::http::authorize::Allowed;
use crate::http::jsonapi::document::DATA_PREFIX;
use crate::http::jsonapi::json::{Members, write_list, write_object};
use crate::http::jsonapi::query::{Fields, Fieldset};

pub(crate) const EVENT: &str = "collection-event";

pub(crate) const DIFFERENCE: &str = "collection-difference";

pub(crate) const BLAME: &str = "attribute-blame";

pub(crate) const CHANGE: &str = "change-summary";

/// The resource type of the polling token.
pub(crate) const SYNC_TOKEN: &str = "sync-token";

/// The resource type of the service's capabilities.
pub(crate) const CAPABILITIES: &str = "collection-settings-capabilities";

/// Returns the resource of an event. It leaves out what names keys hidden from the caller: where the file was moved
/// to or from, and the message of a commit that concerns several collections.
pub(crate) fn event(record: &EventRecord, fields: &Fields, allowed: &Allowed) -> Bytes {
    let seen = Seen::of(record, allowed);
    match fields.wanted(EVENT) {
        None if seen.is_whole(record) => record.memo.get_or_make(|| written(record, &seen, None)),
        wanted => written(record, &seen, wanted),
    }
}

/// Whether the caller may see an event in full.
pub(crate) fn is_whole(record: &EventRecord, allowed: &Allowed) -> bool {
    Seen::of(record, allowed).is_whole(record)
}

/// Returns the reason of an event if the caller may read everything that its commit concerns.
pub(crate) fn reason<'a>(record: &'a EventRecord, allowed: &Allowed) -> Option<&'a str> {
    record.commit.message.reason.as_deref().filter(|_| Seen::of(record, allowed).message)
}

/// The parts of an event that the caller may see.
struct Seen<'a> {
    moved: Option<&'a Key>,
    message: bool,
}

impl<'a> Seen<'a> {
    fn of(record: &'a EventRecord, allowed: &Allowed) -> Self {
        let sees_all = |keys: &[Key]| keys.iter().all(|key| allowed.sees(key));
        Self {
            moved: record.moved.as_ref().filter(|key| allowed.sees(key)),
            message: allowed.sees_all() || record.together.as_deref().is_some_and(sees_all),
        }
    }

    fn is_whole(&self, record: &EventRecord) -> bool {
        self.message && self.moved.is_some() == record.moved.is_some()
    }
}

fn written(record: &EventRecord, seen: &Seen<'_>, wanted: Option<&Fieldset>) -> Bytes {
    resource(EVENT, &record.id.to_string(), wanted, |attributes| {
        attributes.text("action", record.action.as_str());
        attributes.text("collection", record.key.as_str());
        attributes.text("revision", &record.commit.revision.to_string());
        attributes.text("at", &to_the_second(record.commit.at));
        attributes.member("actor", |out| write_actor(&record.commit.actor, out));
        attributes.text("origin", record.commit.origin.as_str());
        if seen.message {
            attributes.text("subject", &record.commit.message.subject);
        }
        if let Some(reason) = record.commit.message.reason.as_deref().filter(|_| seen.message) {
            attributes.text("reason", reason);
        }
        match &record.commit.message.reverses {
            Some(Reversal::Event(id)) => attributes.text("undoes", id),
            Some(Reversal::Since(revision)) => attributes.text("restores", &revision.to_string()),
            None => {}
        }
        if let Some(other) = seen.moved {
            let name = if record.action == Action::Deleted { "movedTo" } else { "movedFrom" };
            attributes.text(name, other.as_str());
        }
        write_effect(&record.effect, attributes);
    })
}

fn write_effect(effect: &Effect, attributes: &mut Members<'_>) {
    match effect {
        Effect::Changes(changes) => attributes.member("changes", |out| write_changes(changes, out)),
        Effect::Problem(PastFault { path, fault: Fault { line, column, message } }) => {
            let fault = json!({"path": path, "line": line, "column": column, "message": message});
            attributes.json("problem", fault);
        }
    }
}

pub(crate) fn write_actor(actor: &Actor, out: &mut Vec<u8>) {
    write_object(out, None, |members| {
        members.text("name", actor.name());
        members.text("email", actor.email());
    });
}

fn write_changes(changes: &[Change], out: &mut Vec<u8>) {
    write_list(changes, out, |change, out| {
        write_object(out, None, |members| {
            members.text("attribute", &change.attribute);
            members.value("from", change.from.as_ref());
            members.value("to", change.to.as_ref());
        });
    });
}

/// Returns the resource of the differences in a collection.
pub(crate) fn difference(difference: &CollectionDifference, fields: &Fields) -> Bytes {
    let CollectionDifference { key, action, effect } = difference;
    resource(DIFFERENCE, key.as_str(), fields.wanted(DIFFERENCE), |attributes| {
        attributes.text("action", action.as_str());
        write_effect(effect, attributes);
    })
}

/// Returns the resource of an attribute and the event that gave it its value.
pub(crate) fn blame(key: &Key, blame: &Blame, fields: &Fields, allowed: &Allowed) -> Bytes {
    let Blame { attribute, value, event } = blame;
    resource(BLAME, &format!("{key}/{attribute}"), fields.wanted(BLAME), |attributes| {
        attributes.text("attribute", attribute);
        attributes.value("value", Some(value));
        attributes.member("event", |out| out.extend_from_slice(&self::event(event, fields, allowed)));
    })
}

/// Returns the resource of a changed collection.
pub(crate) fn change(change: &engine::ServedChange, fields: &Fields) -> Bytes {
    resource(CHANGE, change.key.as_str(), fields.wanted(CHANGE), |attributes| {
        attributes.json("version", change.now.as_ref().map(|entry| entry.tag()));
        attributes.json("deleted", change.now.is_none());
    })
}

/// Returns a singleton resource with which the service describes itself.
pub(crate) fn about_itself(resource_type: &str, attributes: &serde_json::Value, fields: &Fields) -> Bytes {
    resource(resource_type, "self", fields.wanted(resource_type), |members| {
        for (name, value) in attributes.as_object().expect("attributes are an object") {
            members.json(name, value.clone());
        }
    })
}

/// Returns a resource with the wanted attributes.
pub(crate) fn resource(
    resource_type: &str,
    id: &str,
    wanted: Option<&Fieldset>,
    attributes: impl FnOnce(&mut Members<'_>),
) -> Bytes {
    let mut out = Vec::new();
    write_object(&mut out, None, |members| {
        members.text("type", resource_type);
        members.text("id", id);
        members.member("attributes", |out| write_object(out, wanted, attributes));
    });
    out.into()
}

/// Returns a document of several resources with its links (a JSON object) and its `meta`, if any.
pub(crate) fn list(
    resources: impl IntoIterator<Item = Bytes>,
    links: &[u8],
    meta: Option<&serde_json::Value>,
) -> Bytes {
    let mut out = DATA_PREFIX.to_vec();
    let resources: Vec<Bytes> = resources.into_iter().collect();
    write_list(&resources, &mut out, |resource, out| out.extend_from_slice(resource));
    finish(out, links, meta)
}

/// Returns a document of one resource.
pub(crate) fn one(resource: &[u8], links: &[u8]) -> Bytes {
    let mut out = DATA_PREFIX.to_vec();
    out.extend_from_slice(resource);
    finish(out, links, None)
}

/// Completes a document after its data.
pub(super) fn finish(mut out: Vec<u8>, links: &[u8], meta: Option<&serde_json::Value>) -> Bytes {
    out.extend_from_slice(br#","links":"#);
    out.extend_from_slice(links);
    if let Some(meta) = meta {
        out.extend_from_slice(format!(r#","meta":{meta}"#).as_bytes());
    }
    out.push(b'}');
    out.into()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use chrono::DateTime;
    use uuid::Uuid;

    use super::*;
    use crate::domain::{Revision, Value};
    use crate::engine::history::{EventCommit, EventMessage, Origin};
    use crate::engine::memo::Memo;
    use crate::http::jsonapi::query;
    use crate::http::jsonapi::query::Query;
    use crate::http::testing::key;

    fn record(effect: Effect) -> EventRecord {
        let revision = Revision::new([0xab; 20]);
        EventRecord {
            id: Uuid::nil(),
            action: Action::Updated,
            key: key("posts"),
            commit: EventCommit {
                revision,
                at: DateTime::UNIX_EPOCH,
                actor: Arc::new(Actor::new("Mara", "mara@example.org")),
                origin: Origin::Api,
                message: EventMessage {
                    subject: "Update posts".into(),
                    reason: Some("\"Why\"".into()),
                    request_id: Some("1".into()),
                    reverses: Some(Reversal::Since(revision)),
                },
            },
            position: revision.into(),
            effect,
            moved: None,
            together: Some([key("posts"), key("pages")].into()),
            memo: Memo::default(),
            memo_streamed: Memo::default(),
        }
    }

    fn shown(bytes: &[u8]) -> serde_json::Value {
        serde_json::from_slice(bytes).unwrap()
    }

    #[test]
    fn an_event_is_shown_exactly_so() {
        let change = |attribute: &str, from: Option<Value>, to: Option<Value>| Change {
            attribute: attribute.to_owned(),
            from,
            to,
        };
        let changes = vec![
            change("name", Some("Posts".into()), Some("All posts".into())),
            change("recursive", None, Some(Value::Bool(true))),
            change("format", Some("md".into()), None),
        ];
        assert_eq!(
            shown(&event(&record(Effect::Changes(changes)), &Fields::default(), &Allowed::anonymous())),
            json!({"type": "collection-event", "id": "00000000-0000-0000-0000-000000000000", "attributes": {
                "action": "updated", "collection": "posts", "revision": "ab".repeat(20),
                "at": "1970-01-01T00:00:00Z", "actor": {"name": "Mara", "email": "mara@example.org"},
                "origin": "api", "subject": "Update posts", "reason": "\"Why\"", "restores": "ab".repeat(20),
                "changes": [{"attribute": "name", "from": "Posts", "to": "All posts"},
                            {"attribute": "recursive", "to": true}, {"attribute": "format", "from": "md"}],
            }})
        );
    }

    #[test]
    fn a_broken_file_has_a_problem_in_place_of_changes() {
        let fault = Fault { line: 2, column: 3, message: "is wrong".into() };
        let fault = PastFault { path: "c/a.yaml".into(), fault };
        let attributes = shown(&event(
            &record(Effect::Problem(fault)),
            &Fields::default(),
            &Allowed::anonymous(),
        ))["attributes"]
            .clone();
        assert_eq!(
            attributes["problem"],
            json!({"path": "c/a.yaml", "line": 2, "column": 3, "message": "is wrong"})
        );
        assert_eq!(attributes.get("changes"), None);
    }

    #[test]
    fn the_message_of_a_commit_is_for_those_who_see_all_that_it_is_about() {
        let record = record(Effect::Changes(Vec::new()));
        let shows = |allowed: &Allowed| {
            let attributes = shown(&event(&record, &Fields::default(), allowed))["attributes"].clone();
            (attributes.get("subject").is_some(), attributes.get("reason").is_some())
        };
        assert_eq!(shows(&Allowed::anonymous()), (true, true));
        assert_eq!(
            shows(&Allowed::anonymous().with_visibility(|key| key.as_str() == "posts")),
            (false, false)
        );
        assert_eq!(
            shows(&Allowed::anonymous().with_visibility(|key| key.as_str().starts_with('p'))),
            (true, true)
        );
    }

    #[test]
    fn only_the_wanted_attributes_are_shown() {
        let query = Query::parse("fields[collection-event]=at,nope").unwrap();
        let fields = query::fields(&query, &[EVENT]).unwrap();
        let record = record(Effect::Changes(Vec::new()));
        assert_eq!(
            shown(&event(&record, &fields, &Allowed::anonymous()))["attributes"],
            json!({"at": "1970-01-01T00:00:00Z"})
        );
        assert_eq!(
            shown(&event(&record, &Fields::default(), &Allowed::anonymous()))["attributes"]["changes"],
            json!([])
        );
    }
}
