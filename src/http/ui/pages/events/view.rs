//! An event as it is shown.

use crate::domain::Value;
use crate::http::ui::words::{ShownTime, items, member, short, text};

pub(crate) struct EventView {
    pub(crate) id: String,
    pub(crate) action: String,
    pub(crate) key: String,
    pub(crate) commit: CommitView,
    pub(crate) undoes: String,
    pub(crate) restores: String,
    pub(crate) moved_to: String,
    pub(crate) moved_from: String,
    /// The attributes that it changed.
    pub(crate) changed: Vec<String>,
    pub(crate) problem: Option<(String, String)>,
}

pub(crate) struct CommitView {
    pub(crate) revision: String,
    pub(crate) at: ShownTime,
    pub(crate) actor: String,
    pub(crate) email: String,
    pub(crate) origin: String,
    pub(crate) subject: String,
    pub(crate) reason: String,
}

impl EventView {
    /// Reads a resource of the API.
    pub(crate) fn of(resource: &Value) -> Self {
        let attributes = member(resource, "attributes");
        let actor = member(attributes, "actor");
        let own = |name: &str| text(attributes, name).to_owned();
        let problem = attributes.get("problem").map(|fault| {
            let place = ["path", "line", "column"].map(|name| match fault.get(name) {
                Some(Value::Text(text)) => text.to_string(),
                Some(other) => other.to_string(),
                None => String::new(),
            });
            (place.join(":"), text(fault, "message").to_owned())
        });
        Self {
            id: text(resource, "id").to_owned(),
            action: own("action"),
            key: own("collection"),
            commit: CommitView {
                revision: own("revision"),
                at: ShownTime::parse(text(attributes, "at"))
                    .unwrap_or(ShownTime(chrono::DateTime::UNIX_EPOCH)),
                actor: text(actor, "name").to_owned(),
                email: text(actor, "email").to_owned(),
                origin: own("origin"),
                subject: own("subject"),
                reason: own("reason"),
            },
            undoes: own("undoes"),
            restores: own("restores"),
            moved_to: own("movedTo"),
            moved_from: own("movedFrom"),
            changed: items(attributes, "changes")
                .iter()
                .map(|change| text(change, "attribute").to_owned())
                .collect(),
            problem,
        }
    }

    pub(crate) fn short(&self) -> &str {
        short(&self.commit.revision)
    }

    /// The reason without its first line, if that is the commit's subject.
    pub(crate) fn why(&self) -> &str {
        let CommitView { subject, reason, .. } = &self.commit;
        reason.strip_prefix(subject.as_str()).unwrap_or(reason).trim()
    }

    /// Summarizes the event in a few words.
    pub(crate) fn summary(&self) -> String {
        if self.problem.is_some() {
            return "its file can't be read".to_owned();
        }
        if self.action != "updated" {
            return String::new();
        }
        if self.changed.is_empty() { "comments or order only".to_owned() } else { self.changed.join(", ") }
    }
}
