//! The filter of a list of events.

use std::fmt;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::domain::{Actor, Key, Revision};
use crate::engine::history::View;
use crate::engine::history::event::{Action, Effect, Origin};
use crate::engine::history::index::row::CommitRow;

/// Selects events. An event must satisfy every field; it satisfies a list that is empty or has a fitting item.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Filter {
    /// Of these collections.
    pub collections: Vec<Key>,
    /// Whether to follow a moved file to its former names.
    pub follow: bool,
    /// That changed one of these attributes.
    pub attributes: Vec<String>,
    /// With these actions.
    pub actions: Vec<Action>,
    /// By an author of one of these names or e-mail addresses.
    pub actors: Vec<String>,
    /// With these origins.
    pub origins: Vec<Origin>,
    /// From this bound on.
    pub since: Option<Bound>,
    /// Up to this bound.
    pub until: Option<Bound>,
    /// Of collections that the reader may see.
    pub seeing: Option<KeyVisibility>,
}

/// Decides which keys the reader may see.
#[derive(Clone)]
pub struct KeyVisibility(pub Arc<dyn Fn(&Key) -> bool + Send + Sync>);

impl fmt::Debug for KeyVisibility {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyVisibility(..)")
    }
}

impl PartialEq for KeyVisibility {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// A bound in time, or along the branch.
#[derive(Debug, Clone, PartialEq)]
pub enum Bound {
    /// A committer time, inclusive. Times need not increase along a branch, so each event is compared by its own.
    Time(DateTime<Utc>),
    /// A revision: `since` selects the events that it does not reach, `until` those that it does.
    Revision {
        /// The text that named it, so that a cursor stays valid for its list when a branch has moved.
        asked: String,
        revision: Revision,
    },
}

impl Filter {
    /// Returns a checksum that distinguishes lists.
    pub(super) fn list(&self) -> u32 {
        let bound = |bound: &Option<Bound>| match bound {
            None => String::new(),
            Some(Bound::Time(time)) => time.to_rfc3339(),
            Some(Bound::Revision { asked, .. }) => format!("r{asked}"),
        };
        let words = |words: &mut dyn Iterator<Item = &str>| words.map(|word| format!("{word},")).collect();
        let parts: [String; 8] = [
            words(&mut self.collections.iter().map(Key::as_str)),
            self.follow.to_string(),
            words(&mut self.attributes.iter().map(String::as_str)),
            words(&mut self.actions.iter().map(|action| action.as_str())),
            words(&mut self.actors.iter().map(String::as_str)),
            words(&mut self.origins.iter().map(|origin| origin.as_str())),
            bound(&self.since),
            bound(&self.until),
        ];
        crc32fast::hash(parts.join("\0").as_bytes())
    }

    /// Returns which commits match the conditions that are the same for all their events; `None` where all do.
    pub(super) fn fitting_commits(&self, view: &View) -> Option<Vec<bool>> {
        let (since, until) = (self.first_second(), self.last_second());
        if self.actors.is_empty() && self.origins.is_empty() && since.is_none() && until.is_none() {
            return None;
        }
        let actors: Vec<bool> = view.index.actors().map(|actor| self.matches_actor(actor)).collect();
        let times = since.unwrap_or(i64::MIN)..=until.unwrap_or(i64::MAX);
        let fits = |row: &CommitRow| {
            times.contains(&row.at) && actors[row.actor as usize] && is_among(&self.origins, &row.origin)
        };
        Some(view.index.commits().map(fits).collect())
    }

    /// Returns the first second that is late enough; commit times are whole seconds.
    fn first_second(&self) -> Option<i64> {
        let Some(Bound::Time(time)) = self.since else { return None };
        Some(time.timestamp() + i64::from(time.timestamp_subsec_nanos() > 0))
    }

    /// Returns the last second that is early enough.
    fn last_second(&self) -> Option<i64> {
        let Some(Bound::Time(time)) = self.until else { return None };
        Some(time.timestamp())
    }

    fn matches_actor(&self, actor: &Actor) -> bool {
        let is = |wanted: &String| actor.name() == wanted || actor.email() == wanted;
        self.actors.is_empty() || self.actors.iter().any(is)
    }

    /// Reports whether an event changed one of the attributes.
    pub(super) fn matches_effect(&self, effect: &Effect) -> bool {
        match effect {
            _ if self.attributes.is_empty() => true,
            Effect::Changes(changes) => changes.iter().any(|it| self.attributes.contains(&it.attribute)),
            Effect::Problem(_) => false,
        }
    }

    /// Reports whether a file was moved from another key to one of the collections, whose events are wanted too then.
    pub(crate) fn spans_moves(&self, view: &View) -> bool {
        let number_of = |key: &Key| view.index.find_key(key.as_str());
        self.follow && self.collections.iter().filter_map(number_of).any(|key| view.was_moved_here(key))
    }

    /// Reports whether an event matches, from memory alone; `None` where that needs the disk.
    pub(crate) fn matches_in_memory(&self, view: &View, event: u32) -> Option<bool> {
        if view.index.is_suppressed(event) {
            return Some(false);
        }
        let row = view.index.event(event);
        let commit = view.index.commit(row.commit);
        let (key, actor) = (view.index.key(row.key), view.index.actor(commit.actor));
        let since = match &self.since {
            None => true,
            Some(Bound::Time(time)) => commit.time() >= *time,
            Some(Bound::Revision { revision, .. }) => row.commit > main(view, *revision)?,
        };
        let until = match &self.until {
            None => true,
            Some(Bound::Time(time)) => commit.time() <= *time,
            Some(Bound::Revision { revision, .. }) => row.commit <= main(view, *revision)?,
        };
        Some(
            since
                && until
                && is_among(&self.collections, key)
                && is_among(&self.actions, &row.action)
                && is_among(&self.origins, &commit.origin)
                && self.matches_actor(actor)
                && self.seeing.as_ref().is_none_or(|KeyVisibility(sees)| sees(key))
                && (self.attributes.is_empty() || self.matches_effect(&view.cached_record(event)?.effect)),
        )
    }
}

/// Returns the number of a commit along first parents.
fn main(view: &View, revision: Revision) -> Option<u32> {
    view.index.find(revision).filter(|commit| view.index.forks().is_main(*commit))
}

/// Reports whether a list contains an item; an empty list allows every item.
pub(super) fn is_among<T: PartialEq>(wanted: &[T], it: &T) -> bool {
    wanted.is_empty() || wanted.contains(it)
}
