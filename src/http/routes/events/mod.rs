//! `/events`, `/events/:id` and `/collections/:key/events`: who changed what, when and why.

pub(crate) mod selection;

use bytes::Bytes;
use serde_json::json;
use warp::http::StatusCode;

use crate::domain::Key;
use crate::engine::history::{EventPage, EventPageQuery, EventTable, Filter, HistoryError, PageStart, View};
use crate::http::authorize::{Action, Allowed};
use crate::http::budgets::answers::AnswerReservation;
use crate::http::jsonapi::document::{history, self_link};
use crate::http::jsonapi::error::ApiError;
use crate::http::jsonapi::negotiate::Accepted;
use crate::http::jsonapi::page::links::Links;
use crate::http::jsonapi::page::{At, NAMES_OF_EVENTS};
use crate::http::jsonapi::query::{EventQuery, EventScope};
use crate::http::jsonapi::{negotiate, query};
use crate::http::reply::Reply;
use crate::http::request::call::Call;
use crate::http::routes::events::selection::{EventSelection, fetch_queried_revisions, filter};
use crate::http::routes::path::EventId;
use crate::http::routes::stream;

/// The media type of a table (RFC 4180).
const CSV: &str = "text/csv";

/// The content type of a table.
const CSV_UTF8: &str = "text/csv; charset=utf-8; header=present";

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
