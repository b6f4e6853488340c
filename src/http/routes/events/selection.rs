//! Which events a request asks for: of which collections, with which filters, between which revisions.

use crate::domain::Key;
use crate::engine::history::{Filter, KeyVisibility, TimeBound, View};
use crate::http::authorize::{Allowed, Denied};
use crate::http::jsonapi::error::ApiError;
use crate::http::jsonapi::query::{EventQuery, listed};
use crate::http::min_revision;
use crate::http::request::call::Call;

/// The parameter that asks for the events of one collection.
const FILTER_COLLECTION: &str = "filter[collection]";

/// The parameters that name a position in the history.
const PLACES: [&str; 4] = ["filter[since]", "filter[until]", "page[after]", "page[before]"];

/// Selects the collections whose events are requested.
pub(crate) enum EventSelection {
    All,
    /// Those of one or several collections.
    Of(Vec<Key>),
    /// Those of one collection, also from before its file was moved.
    Following(Key),
    /// Those of a text that can't be a key.
    OfNone(String),
}

impl EventSelection {
    /// Reads the parameter before the others are checked, because the hook needs it.
    pub(crate) fn of(call: &Call<'_>) -> Self {
        let query = call.query().unwrap_or_default();
        match query.first(FILTER_COLLECTION) {
            None => Self::All,
            Some(text) => match listed(text).map(|text| Key::parse(&text).map_err(|_| text)).collect() {
                Ok(keys) => Self::Of(keys),
                Err(text) => Self::OfNone(text),
            },
        }
    }

    /// The collection to ask the hook about, if it is only one. For several, the hook is asked as for all.
    pub(crate) fn key(&self) -> Option<&Key> {
        match self {
            Self::Following(key) => Some(key),
            Self::Of(keys) => keys.first().filter(|_| keys.len() == 1),
            Self::All | Self::OfNone(_) => None,
        }
    }

    /// Whether the events from before a file was moved here belong to the collection.
    pub(crate) const fn follows(&self) -> bool {
        matches!(self, Self::Following(_))
    }

    /// Refuses keys that the caller may not see.
    ///
    /// # Errors
    ///
    /// 403 if one of several keys is hidden from the caller, as for a single key.
    pub(crate) fn restricted_to(&self, allowed: Allowed) -> Result<Allowed, ApiError> {
        match self {
            Self::Of(keys) if !keys.iter().all(|key| allowed.sees(key)) => Err(Denied::forbidden().into()),
            Self::Of(_) | Self::Following(_) | Self::All | Self::OfNone(_) => Ok(allowed),
        }
    }

    /// Returns the collections to filter by, if any.
    ///
    /// # Errors
    ///
    /// 404 if the history has no such collection.
    pub(crate) fn known(&self, call: &Call<'_>, view: &View) -> Result<Vec<Key>, ApiError> {
        let keys = match self {
            Self::All => &[],
            Self::Of(keys) => &keys[..],
            Self::Following(key) => std::slice::from_ref(key),
            Self::OfNone(text) => {
                return Err(ApiError::no_such_collection(text).parameter(FILTER_COLLECTION));
            }
        };
        match (keys.iter().find(|key| !view.knows(key)), self) {
            (None, _) => Ok(keys.to_vec()),
            // The key is in the path, not in a parameter.
            (Some(unknown), Self::Following(_)) => Err(call.no_history_of(unknown)),
            (Some(unknown), _) => Err(call.no_history_of(unknown).parameter(FILTER_COLLECTION)),
        }
    }
}

/// Fetches the revisions of the positions in the query from the remote, because they may come from a sibling.
pub(crate) async fn fetch_queried_revisions(call: &Call<'_>) {
    let query = call.query().unwrap_or_default();
    for text in PLACES.into_iter().filter_map(|name| query.first(name)) {
        min_revision::fetch_for_cursor(call, text).await;
    }
}

/// Builds the engine's filter.
pub(crate) fn filter(
    view: &View,
    asked: &EventQuery,
    collections: Vec<Key>,
    allowed: &Allowed,
) -> Result<Filter, ApiError> {
    let bound = |name: &str, text: &Option<String>, side: TimeBound| {
        let text = text.as_deref().map(revision_text);
        let bound = text.map(|text| view.bound(&text, side)).transpose();
        bound.map_err(|error| ApiError::from(error).parameter(name))
    };
    Ok(Filter {
        collections,
        follow: false,
        attributes: asked.attributes.clone(),
        actions: asked.actions.clone(),
        actors: asked.actors.clone(),
        origins: asked.origins.clone(),
        since: bound("filter[since]", &asked.since, TimeBound::Since)?,
        until: bound("filter[until]", &asked.until, TimeBound::Until)?,
        seeing: allowed.visibility.clone().map(KeyVisibility),
    })
}

/// Restores a revision or time as it was meant. In an unencoded `2026-03-01T09:30:00+01:00` the `+` has become a
/// space, which no name of a revision contains.
pub(crate) fn revision_text(text: &str) -> String {
    match text.rsplit_once(' ') {
        Some((time, offset)) if time.contains(['T', 't', ' ']) => format!("{time}+{offset}"),
        Some(_) | None => text.to_owned(),
    }
}
