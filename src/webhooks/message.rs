//! The messages to receivers.

use chrono::{DateTime, Utc};
use serde_json::json;

use crate::domain::{Revision, to_the_second};
use crate::engine::history::EventRecord;
use crate::http::{Allowed, resources};

/// One delivery; a receiver recognizes a repeated one by its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    /// The id, the same for every attempt.
    pub(crate) id: String,
    pub(crate) body: String,
}

impl Message {
    /// Creates the message of an event, limited to the keys that the receiver may see.
    pub(crate) fn event(event: &EventRecord, allowed: &Allowed) -> Self {
        let resource = resources::event(event, allowed);
        let (action, at) = (event.action.as_str(), to_the_second(event.commit.at));
        let data = String::from_utf8_lossy(&resource);
        let body = format!(r#"{{"type":"collection.{action}","timestamp":"{at}","data":{data}}}"#);
        Self { id: event.id.to_string(), body }
    }

    /// Creates the message of a rewritten branch: what was delivered up to `from` is no longer part of its history,
    /// and the next events follow `to`.
    pub(crate) fn reset(from: &str, to: Option<Revision>, now: DateTime<Utc>) -> Self {
        let to = to.map(|revision| revision.to_string());
        let id = format!("{from}-{}", to.as_deref().unwrap_or_default());
        let body = json!({"type": "history.reset", "timestamp": to_the_second(now), "data": {"from": from, "to": to}});
        Self { id, body: body.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_has_the_same_id_however_often_it_is_told() {
        let to = Some(Revision::new([1; 20]));
        let at = |text: &str| Message::reset("00ff", to, text.parse().unwrap());
        assert_eq!(at("2026-01-01T00:00:00Z").id, at("2026-01-02T00:00:00Z").id);
        assert!(at("2026-01-01T00:00:00Z").body.contains(r#""from":"00ff""#));
    }
}
