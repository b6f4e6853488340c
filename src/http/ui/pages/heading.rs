//! The heading of all pages about one collection.

use std::sync::Arc;

use crate::domain::{Attribute, Key};
use crate::engine::history::LastChange;
use crate::engine::{Entry, Problem};
use crate::http::authorize::Action;
use crate::http::ui::frame::Visit;
use crate::http::ui::words::ShownTime;

/// The heading: which collection it is, what is wrong with it, and who changed it last.
pub(crate) struct Head {
    pub(crate) key: String,
    pub(crate) kind: Option<&'static str>,
    pub(crate) name: String,
    pub(crate) uncommitted: bool,
    pub(crate) problem: Option<Arc<Problem>>,
    pub(crate) last: Option<Last>,
    /// The current one of its pages.
    pub(crate) tab: &'static str,
    /// Whether the visitor may see its past.
    pub(crate) can_audit: bool,
}

impl Head {
    /// Collects the heading for a collection, which may no longer exist.
    pub(crate) async fn of(visit: &Visit<'_>, key: &Key, entry: Option<&Entry>, tab: &'static str) -> Self {
        let action = Action::ListEvents { key: Some(key) };
        let can_audit = visit.call.authorize(action).await.is_ok();
        let view = if can_audit { visit.history_at_hand().await } else { None };
        let until = visit.as_of.as_ref().map(|it| it.revision);
        let last = view.and_then(|view| view.last_change(key, until));
        let served = visit.call.snapshot().ok().filter(|_| visit.as_of.is_none());
        let problem = entry.and_then(|it| it.problem.clone());
        let problem = problem.or_else(|| served.and_then(|it| it.problem_of(key.as_str()).cloned()));
        let name = entry.and_then(|it| it.collection.text(&Attribute::Name));
        Self {
            key: key.to_string(),
            kind: entry.map(|it| it.collection.kind().as_str()),
            name: name.unwrap_or_default().to_owned(),
            uncommitted: entry.is_some_and(|it| it.uncommitted),
            problem,
            last: last.as_ref().map(Last::of),
            tab,
            can_audit,
        }
    }
}

pub(crate) struct Last {
    pub(crate) event: String,
    pub(crate) at: ShownTime,
    pub(crate) actor: String,
}

impl Last {
    pub(crate) fn of(change: &LastChange) -> Self {
        Self { event: change.id.to_string(), at: ShownTime(change.at), actor: change.actor.name().to_owned() }
    }
}
