//! `/events`, `/events/:id` and `/collections/:key/events`: who changed what, when and why.

use bytes::Bytes;
use serde_json::json;
use warp::http::StatusCode;

use crate::domain::Key;
use crate::engine::history::{
    EventPage, EventPageQuery, EventTable, Filter, HistoryError, KeyVisibility, PageStart, TimeBound, View,
};
use crate::http::authorize::{Action, Allowed, Denied};
use crate::http::budgets::answers::AnswerReservation;
use crate::http::jsonapi::document::{history, self_link};
use crate::http::jsonapi::error::ApiError;
use crate::http::jsonapi::negotiate::Accepted;
use crate::http::jsonapi::page::links::Links;
use crate::http::jsonapi::page::{At, NAMES_OF_EVENTS};
use crate::http::jsonapi::query::{EventQuery, EventScope, listed};
use crate::http::jsonapi::{negotiate, query};
use crate::http::min_revision;
use crate::http::reply::Reply;
use crate::http::request::call::Call;
use crate::http::routes::path::EventId;
use crate::http::routes::stream;

/// The parameter that asks for the events of one collection.
const FILTER_COLLECTION: &str = "filter[collection]";

/// The media type of a table (RFC 4180).
const CSV: &str = "text/csv";

/// The content type of a table.
const CSV_UTF8: &str = "text/csv; charset=utf-8; header=present";

/// The parameters that name a position in the history.
const PLACES: [&str; 4] = ["filter[since]", "filter[until]", "page[after]", "page[before]"];

/// `GET /events`: a page of events, or the stream.
pub(crate) async fn list(call: &Call<'_>) -> Result<Reply, ApiError> {
    answer(call, EventSelection::of(call)).await
}

/// `GET /collections/:key/events`: the same for one collection.
pub(crate) async fn of_collection(call: &Call<'_>, key: Key) -> Result<Reply, ApiError> {
    answer(call, EventSelection::Following(key)).await
}

async fn answer(call: &Call<'_>, wanted: EventSelection) -> Result<Reply, ApiError> {
    let collection = !wanted.follows();
    if stream::is_wanted(call) {
        let scope = EventScope { collection, pages: false, cursor_profile: false };
        return stream::events(call, wanted, scope).await;
    }
    let Accepted { cursor_profile } = negotiated(call)?;
    let allowed = wanted.restricted_to(call.authorize(Action::ListEvents { key: wanted.key() }).await?)?;
    page(call, wanted, allowed, EventScope { collection, pages: true, cursor_profile }).await
}

/// Negotiates the media type. A table is not a JSON:API document.
fn negotiated(call: &Call<'_>) -> Result<Accepted, ApiError> {
    if !is_table(call) {
        return call.negotiate();
    }
    negotiate::content_type_without_body(call.headers())?;
    Ok(Accepted::default())
}

fn is_table(call: &Call<'_>) -> bool {
    negotiate::prefers(call.headers(), CSV)
}

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

async fn page(
    call: &Call<'_>,
    wanted: EventSelection,
    allowed: Allowed,
    scope: EventScope,
) -> Result<Reply, ApiError> {
    fetch_queried_revisions(call).await;
    let view = call.history_view().await?;
    let (collections, follow) = (wanted.known(call, &view)?, wanted.follows());
    let query = call.query()?;
    call.count_page(&query);
    let asked = query::events(&query, scope)?;
    let path = call.path().to_owned();
    let head = view.head();
    if is_table(call) {
        let is_whole = NAMES_OF_EVENTS.iter().all(|name| query.first(name).is_none());
        let reservation = call.answer_reservation();
        let body = call.query_history(move || {
            let filter = Filter { follow, ..filter(&view, &asked, collections, &allowed)? };
            table(&view, &filter, &allowed, &asked, is_whole, reservation)
        });
        return Ok(Reply::typed(StatusCode::OK, CSV_UTF8, body.await?).of_revision(head));
    }
    let media_type = if scope.cursor_profile { negotiate::JSON_API_WITH_CURSOR } else { negotiate::JSON_API };
    call.reply_from_history(move || {
        let filter = Filter { follow, ..filter(&view, &asked, collections, &allowed)? };
        let found = view.events_and_total(&filter, &page_query(&asked)?);
        let (events, total) = found.map_err(|error| of_cursor(error, &asked))?;
        let resources = events.events.iter().map(|event| history::event(event, &asked.fields, &allowed));
        let links = links(&events, total, &asked).json(&path, &query, &query);
        let body = history::list(resources, &links, Some(&json!({"page": {"total": total}})));
        Ok(Reply::typed(StatusCode::OK, media_type, body).of_revision(head))
    })
    .await
}

/// Fetches the revisions of the positions in the query from the remote, because they may come from a sibling.
pub(crate) async fn fetch_queried_revisions(call: &Call<'_>) {
    let query = call.query().unwrap_or_default();
    for text in PLACES.into_iter().filter_map(|name| query.first(name)) {
        min_revision::fetch_for_cursor(call, text).await;
    }
}

/// Builds a table of one page of events, or of all events from there on.
fn table(
    view: &View,
    filter: &Filter,
    allowed: &Allowed,
    asked: &EventQuery,
    is_whole: bool,
    mut reservation: AnswerReservation,
) -> Result<Bytes, ApiError> {
    let unwritten = |_| HistoryError::Unreadable("the table could not be written".into());
    let mut page = page_query(asked)?;
    let mut table = EventTable::new().map_err(unwritten)?;
    loop {
        let found = view.events(filter, &page).map_err(|error| of_cursor(error, asked))?;
        for event in &found.events {
            table.push(event, history::reason(event, allowed)).map_err(unwritten)?;
        }
        reservation.grow_to(table.len())?;
        match found.cursors.last() {
            Some(last) if is_whole && found.has_older => page.at = PageStart::After(*last),
            Some(_) | None => return reservation.counted(table.take().map_err(unwritten)?.into()),
        }
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

fn page_query(asked: &EventQuery) -> Result<EventPageQuery, ApiError> {
    let cursor = |text: &str| text.parse().map_err(|error| of_cursor(error, asked));
    let at = match &asked.page.at {
        At::After(None) => PageStart::Newest,
        At::After(Some(text)) => PageStart::After(cursor(text)?),
        At::Before(None) => PageStart::Oldest,
        At::Before(Some(text)) => PageStart::Before(cursor(text)?),
    };
    Ok(EventPageQuery { size: asked.page.size, at })
}

fn of_cursor(error: HistoryError, asked: &EventQuery) -> ApiError {
    ApiError::from(error).parameter(asked.page.at.name())
}

fn links(page: &EventPage, total: usize, asked: &EventQuery) -> Links {
    let ends = page.cursors.first().zip(page.cursors.last()).map(|(first, last)| {
        [page.has_newer.then(|| first.to_string()), page.has_older.then(|| last.to_string())]
    });
    Links::beside(&asked.page.at, String::clone, asked.page.size, total, ends)
}

/// `GET /events/:id`
pub(crate) async fn read(call: &Call<'_>, id: EventId) -> Result<Reply, ApiError> {
    call.negotiate()?;
    let view = call.history_view().await;
    let found = view.as_ref().ok().zip(id.uuid());
    let key = found.and_then(|(view, uuid)| view.key_of(uuid));
    let allowed = call.authorize(Action::ReadEvent { key }).await?;
    let is_known = key.is_some();
    let view = view?;
    let uuid = id.uuid().filter(|_| is_known).ok_or_else(|| id.not_found())?;
    let fields = query::fields(&call.query()?, &[history::EVENT])?;
    let (links, head) = (self_link(&call.link()), view.head());
    let body = call
        .query_history(move || {
            let event = history::event(&*view.event(uuid)?, &fields, &allowed);
            Ok(history::one(&event, &links))
        })
        .await?;
    Ok(Reply::document(StatusCode::OK, body).of_revision(head))
}
