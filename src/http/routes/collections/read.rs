//! Reading collections as they are and as they were.

use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use tokio::sync::OwnedSemaphorePermit;
use warp::http::header::{CONTENT_ENCODING, ETAG};
use warp::http::{HeaderValue, StatusCode};

use crate::config::BasePath;
use crate::domain::{Key, Revision};
use crate::engine::{Condition, Entry, Snapshot, Tags};
use crate::http::authorize::{Action, Allowed};
use crate::http::budgets::answers::AnswerReservation;
use crate::http::jsonapi::document::{List, TaggedDocument};
use crate::http::jsonapi::error::ApiError;
use crate::http::jsonapi::negotiate::Accepted;
use crate::http::jsonapi::page::PageQuery;
use crate::http::jsonapi::page::listing::Listing;
use crate::http::jsonapi::query::{ListQuery, Query};
use crate::http::jsonapi::{document, negotiate, preconditions, query};
use crate::http::reply::{Reply, compress};
use crate::http::request::call::Call;
use crate::http::routes::collections::{fields, one};
use crate::http::routes::{past, stream};

/// Maximum length of a list that is built on a thread that answers requests. A longer one is built on another thread.
const LIST_LEN_AT_ONCE: usize = 1_000;

/// `GET /collections`
pub(crate) async fn list(call: &Call<'_>) -> Result<Reply, ApiError> {
    if stream::is_wanted(call) {
        return Box::pin(stream::served(call, None)).await;
    }
    let accepted = call.negotiate()?;
    let as_of = as_of(call);
    let action = if as_of.is_some() { Action::ListPast } else { Action::List };
    let allowed = call.authorize(action).await?;
    let is_past = as_of.is_some();
    let (snapshot, _place) = shown(call, as_of).await?;
    let condition = preconditions::condition(call.headers())?;
    let query = call.query()?;
    if query.is_empty() && allowed.sees_all() {
        let ready = whole_list(call, &snapshot).await?;
        if call.context.settings.compress
            && ready.body().len() >= compress::BYTES_MIN
            && compress::accepts_gzip(call.headers())
        {
            return compressed(call, &snapshot, &ready, &condition).await;
        }
        let reply = Reply::document(StatusCode::OK, ready.body());
        return conditional(reply, snapshot.revision, ready.etag(), &condition, None);
    }
    call.count_page(&query);
    let asked = query::list(&query, accepted.cursor_profile)?;
    let (media_type, revision) = (list_type(&asked, accepted), snapshot.revision);
    let is_long = snapshot.catalog().len() > LIST_LEN_AT_ONCE;
    let request = ListRequest {
        base: call.context.settings.base_path.clone(),
        path: call.path().to_owned(),
        link: call.link(),
        as_of: revision.filter(|_| is_past),
        snapshot,
        allowed,
        query,
        asked,
    };
    let reservation = call.answer_reservation();
    let made = if is_long {
        call.build_off_thread(move || request.document_and_tag(reservation)).await?
    } else {
        request.document_and_tag(reservation)
    };
    let (body, etag) = made?;
    conditional(Reply::typed(StatusCode::OK, media_type, body), revision, etag, &condition, None)
}

/// The whole list. A long one is built off the threads that answer requests.
async fn whole_list(call: &Call<'_>, snapshot: &Arc<Snapshot>) -> Result<TaggedDocument, ApiError> {
    let base = &call.context.settings.base_path;
    if snapshot.memo.get().is_some() || snapshot.catalog().len() <= LIST_LEN_AT_ONCE {
        return Ok(document::whole_list(snapshot, base));
    }
    let (snapshot, base) = (Arc::clone(snapshot), base.clone());
    call.build_off_thread(move || document::whole_list(&snapshot, &base)).await
}

/// The whole list in its compressed form, which is built off the threads that answer requests.
async fn compressed(
    call: &Call<'_>,
    snapshot: &Arc<Snapshot>,
    ready: &TaggedDocument,
    condition: &Condition,
) -> Result<Reply, ApiError> {
    let body = match snapshot.memo_compressed.get() {
        Some(body) => body,
        None => {
            let (snapshot, plain) = (Arc::clone(snapshot), ready.body());
            let made = move || snapshot.memo_compressed.get_or_make(|| compress::gzip(&plain));
            call.build_off_thread(made).await?
        }
    };
    let tag = format!("\"{}{}\"", ready.tag().trim_matches('"'), compress::TAG_SUFFIX);
    let etag = HeaderValue::from_str(&tag).expect("a tag is visible ASCII");
    let reply =
        Reply::document(StatusCode::OK, body).with(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    conditional(reply, snapshot.revision, etag, condition, None)
}

/// The revision of `asOf`, if given.
fn as_of(call: &Call<'_>) -> Option<String> {
    // Most reads have no query.
    if call.raw_query().is_empty() {
        return None;
    }
    call.query().ok()?.first(query::AS_OF).map(str::to_owned)
}

/// The current snapshot, or that of the requested revision. The latter is built for this request and holds a permit.
async fn shown(
    call: &Call<'_>,
    as_of: Option<String>,
) -> Result<(Arc<Snapshot>, Option<OwnedSemaphorePermit>), ApiError> {
    match as_of {
        None => Ok((call.snapshot()?, None)),
        Some(text) => {
            let (snapshot, place) = Box::pin(past::as_of(call, &text)).await?;
            Ok((snapshot, Some(place)))
        }
    }
}

/// A request for a part of the list, and what its caller may see.
struct ListRequest {
    snapshot: Arc<Snapshot>,
    /// The revision of the snapshot, if it is of the past.
    as_of: Option<Revision>,
    allowed: Allowed,
    query: Query,
    asked: ListQuery,
    base: BasePath,
    path: String,
    link: String,
}

impl ListRequest {
    /// Builds the document and its entity tag.
    ///
    /// # Errors
    ///
    /// 503 when there is no room for it.
    fn document_and_tag(&self, mut reservation: AnswerReservation) -> Result<(Bytes, HeaderValue), ApiError> {
        let body = self.document(&mut reservation)?;
        let body = reservation.counted(body)?;
        // A list that is built for one caller has a shortened hash of its bytes as its tag.
        let tag = format!("\"{:.32x}\"", Sha256::digest(&body));
        Ok((body, HeaderValue::from_str(&tag).expect("digits in quotes can stand in a header")))
    }

    fn document(&self, reservation: &mut AnswerReservation) -> Result<Bytes, ApiError> {
        let Self { snapshot, as_of, allowed, query, asked, base, path, link } = self;
        let wanted =
            |entry: &Entry| asked.filter.matches(&entry.collection) && allowed.sees(entry.collection.key());
        let all_wanted = asked.filter.is_empty() && allowed.sees_all();
        let listing = Listing::new(snapshot.catalog(), &asked.sort, &wanted, all_wanted);
        let mut list = List::new(Vec::new());
        // A caller who sees only a part of the list must not learn how many edits the rest has.
        let uncommitted = match allowed.visibility {
            None => snapshot.hand_edits.served,
            Some(_) => listing.iter().filter(|entry| entry.uncommitted).count(),
        };
        let mut push = |entry: &Entry| {
            list.push(entry, base, *as_of, Some(&asked.fields));
            reservation.grow_to(list.len())
        };
        let Some(page) = &asked.page else {
            listing.iter().try_for_each(|entry| push(entry))?;
            return Ok(list.finish(&document::self_link(link), uncommitted, None));
        };
        let cut = listing.select_page(page);
        cut.items.iter().try_for_each(|entry| push(entry))?;
        // Where a name such as `HEAD` comes to mean another revision, the other pages stay of this one.
        let pinned = as_of.map(|revision| query.at_revision(revision));
        let links = cut.links.json(path, query, pinned.as_ref().unwrap_or(query));
        Ok(list.finish(&links, uncommitted, Some(cut.total)))
    }
}

fn list_type(asked: &ListQuery, accepted: Accepted) -> &'static str {
    if accepted.cursor_profile && matches!(asked.page, Some(PageQuery::Cursor { .. })) {
        negotiate::JSON_API_WITH_CURSOR
    } else {
        negotiate::JSON_API
    }
}

/// `GET /collections/:key`
pub(crate) async fn read(call: &Call<'_>, key: &Key) -> Result<Reply, ApiError> {
    if stream::is_wanted(call) {
        return Box::pin(stream::served(call, Some(key.clone()))).await;
    }
    call.negotiate()?;
    if let Some(text) = as_of(call) {
        return Box::pin(read_past(call, key, &text)).await;
    }
    call.authorize(Action::Read { key }).await?;
    let snapshot = call.snapshot()?;
    let entry = snapshot.get(key.as_str()).ok_or_else(|| ApiError::no_such_collection(key.as_str()))?;
    let condition = preconditions::condition(call.headers())?;
    let fields = fields(call, &[query::AS_OF])?;
    let ready = TaggedDocument::one(entry, &call.context.settings.base_path);
    let reply = Reply::document(StatusCode::OK, one(call, entry, &ready, &fields));
    conditional(reply, snapshot.revision, ready.etag(), &condition, Some(entry))
}

/// Answers with the collection as it was at the revision that `text` names.
async fn read_past(call: &Call<'_>, key: &Key, text: &str) -> Result<Reply, ApiError> {
    call.authorize(Action::ReadPast { key }).await?;
    let (entry, revision) = past::one_as_of(call, key, text).await?;
    let condition = preconditions::condition(call.headers())?;
    let fields = fields(call, &[query::AS_OF])?;
    let body =
        document::one(&entry, &call.context.settings.base_path, Some(revision), &fields, call.raw_query());
    let etag = TaggedDocument::one(&entry, &call.context.settings.base_path).etag();
    conditional(Reply::document(StatusCode::OK, body), Some(revision), etag, &condition, Some(&entry))
}

/// The answer to a conditional read: the document, 304, or 412.
fn conditional(
    reply: Reply,
    revision: Option<Revision>,
    etag: HeaderValue,
    condition: &Condition,
    entry: Option<&Arc<Entry>>,
) -> Result<Reply, ApiError> {
    let names = |tags: &Tags| {
        let tag = etag.to_str().expect("a tag is visible ASCII");
        preconditions::lists(tags, tag.trim_matches('"'))
    };
    if condition.if_match.as_ref().is_some_and(|tags| !names(tags)) {
        return Err(ApiError::precondition("If-Match", entry.cloned()).with_header(ETAG, etag.clone()));
    }
    let known = condition.if_none_match.as_ref().is_some_and(names);
    let reply = if known { Reply::empty(StatusCode::NOT_MODIFIED) } else { reply };
    Ok(reply.of_revision(revision).with_etag(etag))
}
