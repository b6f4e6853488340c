//! `/collections` and `/collections/:key`.

use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use warp::http::header::{CONTENT_ENCODING, LOCATION};
use warp::http::{HeaderValue, StatusCode};
use warp::reply::Response;

use super::super::authorize::{Action, Allowed};
use super::super::body::Body;
use super::super::call::Call;
use super::super::compress;
use super::super::jsonapi::document::{self, List, Ready};
use super::super::jsonapi::error::{ApiError, ErrorObject};
use super::super::jsonapi::etag;
use super::super::jsonapi::listing::Listing;
use super::super::jsonapi::negotiate::{self, Accepted, Dialect};
use super::super::jsonapi::query::{self, Fields, ListQuery, Query};
use super::super::jsonapi::request::{self, Change, Resource};
use super::super::prefer::Preferences;
use super::super::reply;
use super::past;
use super::submit::{self, Asked};
use crate::domain::{Command, Key};
use crate::engine::{Condition, Entry, Outcome, Problem, Snapshot, SubmitError, Wish, Written};

/// What a page of the cursor profile is written in.
const JSON_API_WITH_CURSOR: &str =
    "application/vnd.api+json;profile=\"https://jsonapi.org/profiles/ethanresnick/cursor-pagination\"";

/// `GET /collections`
pub(super) async fn list(call: &Call<'_>) -> Result<Response, ApiError> {
    let accepted = call.negotiate()?;
    let as_of = as_of(call);
    let action = if as_of.is_some() { Action::ListPast } else { Action::List };
    let allowed = call.authorize(action).await?;
    let snapshot = shown(call, as_of).await?;
    let condition = etag::condition(&call.headers)?;
    let query = call.query()?;
    if query.is_empty() && allowed.visibility.is_none() {
        let ready = Ready::list(&snapshot, &call.context.base_path);
        if call.context.compress
            && ready.body().len() >= compress::BYTES_MIN
            && compress::accepts_gzip(&call.headers)
        {
            return compressed(&snapshot, &ready, &condition).await;
        }
        let response = reply::document(StatusCode::OK, ready.body());
        return conditional(response, &snapshot, ready.tag(), ready.etag(), &condition, None);
    }
    let asked = query::list(&query, accepted.cursor_profile)?;
    let body = listed(call, &snapshot, &allowed, &query, &asked);
    let tag = format!("\"{}\"", digest(&body));
    let etag = HeaderValue::from_str(&tag).expect("digits in quotes can stand in a header");
    let response = reply::typed(StatusCode::OK, list_type(&asked, accepted), body);
    conditional(response, &snapshot, &tag, etag, &condition, None)
}

/// The whole list in its compressed form, which is made off the threads that answer.
async fn compressed(
    snapshot: &Arc<Snapshot>,
    ready: &Ready,
    condition: &Condition,
) -> Result<Response, ApiError> {
    let body = match snapshot.list_compressed.get() {
        Some(body) => body.clone(),
        None => {
            let (snapshot, plain) = (Arc::clone(snapshot), ready.body());
            let made = move || snapshot.list_compressed.get_or_init(|| compress::gzip(&plain)).clone();
            tokio::task::spawn_blocking(made).await.map_err(|_| ApiError::internal())?
        }
    };
    let tag = format!("\"{}{}\"", ready.tag().trim_matches('"'), compress::TAG_SUFFIX);
    let etag = HeaderValue::from_str(&tag).expect("a tag is visible ASCII");
    let mut response = reply::document(StatusCode::OK, body);
    response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    conditional(response, snapshot, &tag, etag, condition, None)
}

/// The revision that is asked for, if not what is served now.
fn as_of(call: &Call<'_>) -> Option<String> {
    // Most reads ask for nothing.
    if call.query.is_empty() {
        return None;
    }
    call.query().ok()?.first(query::AS_OF).map(str::to_owned)
}

/// What is served now, or was at the revision that is asked for.
async fn shown(call: &Call<'_>, as_of: Option<String>) -> Result<Arc<Snapshot>, ApiError> {
    match as_of {
        None => call.snapshot(),
        Some(text) => Box::pin(past::as_of(call, &text)).await,
    }
}

/// The part of the list that is asked for and may be seen.
fn listed(
    call: &Call<'_>,
    snapshot: &Snapshot,
    allowed: &Allowed,
    query: &Query,
    asked: &ListQuery,
) -> Bytes {
    let base = &call.context.base_path;
    let wanted =
        |entry: &Entry| asked.filter.matches(&entry.collection) && allowed.sees(entry.collection.key());
    let all_wanted = asked.filter.is_empty() && allowed.visibility.is_none();
    let listing = Listing::new(snapshot.catalog(), &asked.sort, &wanted, all_wanted);
    let mut list = List::new(Vec::new());
    // Those who see a part of the list are not told how much is going on in the rest.
    let uncommitted = match allowed.visibility {
        None => snapshot.uncommitted,
        Some(_) => listing.iter().filter(|entry| entry.uncommitted).count(),
    };
    let Some(page) = &asked.page else {
        listing.iter().for_each(|entry| list.push(entry, base, Some(&asked.fields)));
        return list.finish(&document::self_link(&call.link()), uncommitted, None);
    };
    let cut = listing.cut(page);
    cut.items.iter().for_each(|entry| list.push(entry, base, Some(&asked.fields)));
    list.finish(&cut.links(call.path.as_str(), query), uncommitted, Some(cut.total))
}

fn list_type(asked: &ListQuery, accepted: Accepted) -> &'static str {
    if accepted.cursor_profile && asked.page.as_ref().is_some_and(|page| page.is_cursor()) {
        JSON_API_WITH_CURSOR
    } else {
        negotiate::JSON_API
    }
}

/// The tag of a list that was put together for one caller: what was sent, in short.
fn digest(body: &[u8]) -> String {
    Sha256::digest(body).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// `GET /collections/:key`
pub(super) async fn read(call: &Call<'_>, key: &Key) -> Result<Response, ApiError> {
    call.negotiate()?;
    let as_of = as_of(call);
    call.authorize(if as_of.is_some() { Action::ReadPast { key } } else { Action::Read { key } }).await?;
    let is_past = as_of.is_some();
    let snapshot = shown(call, as_of).await?;
    let entry = snapshot.get(key.as_str()).ok_or_else(|| ApiError::no_such_collection(key.as_str()))?;
    let condition = etag::condition(&call.headers)?;
    let fields = read_fields(call)?;
    let ready = Ready::one(entry, &call.context.base_path);
    let body = if is_past {
        document::one(entry, &call.context.base_path, &fields, &call.query)
    } else {
        one(call, entry, &ready, &fields)
    };
    let response = reply::document(StatusCode::OK, body);
    conditional(response, &snapshot, ready.tag(), ready.etag(), &condition, Some(entry))
}

/// The answer to a read: the document, nothing new, or a precondition that does not hold.
fn conditional(
    response: Response,
    snapshot: &Snapshot,
    tag: &str,
    etag: HeaderValue,
    condition: &Condition,
    entry: Option<&Arc<Entry>>,
) -> Result<Response, ApiError> {
    let tag = tag.trim_matches('"');
    if condition.if_match.as_ref().is_some_and(|tags| !etag::lists(tags, tag)) {
        return Err(ApiError::precondition("If-Match", entry.cloned()));
    }
    let known = condition.if_none_match.as_ref().is_some_and(|tags| etag::lists(tags, tag));
    let response = if known { reply::empty(StatusCode::NOT_MODIFIED) } else { response };
    Ok(reply::of_snapshot(response, snapshot, Some(etag)))
}

/// The fields of a read, which may be of the past.
fn read_fields(call: &Call<'_>) -> Result<Fields, ApiError> {
    if call.query.is_empty() {
        return Ok(Fields::default());
    }
    query::fields_beside(&call.query()?, query::COLLECTION_TYPES, &[query::AS_OF])
}

fn fields(call: &Call<'_>) -> Result<Fields, ApiError> {
    if call.query.is_empty() {
        return Ok(Fields::default());
    }
    query::fields(&call.query()?, query::COLLECTION_TYPES)
}

/// The document of one collection, the ready-made one unless fields are left out.
fn one(call: &Call<'_>, entry: &Entry, ready: &Ready, fields: &Fields) -> Bytes {
    if fields.is_empty() {
        ready.body()
    } else {
        document::one(entry, &call.context.base_path, fields, &call.query)
    }
}

/// `POST /collections`
pub(super) async fn create(call: &Call<'_>, body: &mut Body) -> Result<Response, ApiError> {
    let (sent, resource) = resource(call, body).await?;
    let new = resource.map(Resource::into_new);
    let content = new.as_ref().ok();
    let action = Action::Create {
        key: content.and_then(|new| new.key.as_ref()),
        content: content.and_then(|new| new.collection.as_ref()),
    };
    let allowed = call.authorize(action).await?;
    let snapshot = call.snapshot()?;
    let condition = etag::condition(&call.headers)?;
    let mut faults = Vec::new();
    let (fields, mut asked) = asked(call, &sent, &mut faults);
    let mut new = new?;
    asked.preferences.merge_attributes = false;
    if let Some(key) = &new.key
        && let Err(error) = check(&condition, snapshot.get(key.as_str()))
        && !asked.is_recorded(call, &allowed.actor)
    {
        return Err(error);
    }
    new.faults.append(&mut faults);
    let Some(collection) = new.collection.filter(|_| new.faults.is_empty()) else {
        return Err(new.faults.into());
    };
    let wish = Wish { command: Command::Create(collection), condition };
    write(call, wish, allowed, asked, &fields).await
}

/// `PATCH /collections/:key`
pub(super) async fn update(call: &Call<'_>, key: Key, body: &mut Body) -> Result<Response, ApiError> {
    let (sent, resource) = resource(call, body).await?;
    let change = resource.map(Resource::into_change);
    let content = change.as_ref().ok().and_then(Change::content);
    let allowed = call.authorize(Action::Update { key: &key, content }).await?;
    let mut faults = Vec::new();
    let (fields, mut asked) = asked(call, &sent, &mut faults);
    let condition = match examined(call, &key, change.clone(), faults.clone(), asked.preferences) {
        Ok(condition) => condition,
        // The first answer counts, not what has become of the collection since.
        Err(error) => match (&change, asked.is_recorded(call, &allowed.actor)) {
            (Ok(change), true) if change.faults.is_empty() && faults.is_empty() => {
                etag::condition(&call.headers)?
            }
            _ => return Err(error),
        },
    };
    let change = change?;
    asked.preferences.merge_attributes &= condition.if_match.is_some();
    let command = Command::Update { key, kind: change.kind, patch: change.patch };
    write(call, Wish { command, condition }, allowed, asked, &fields).await
}

/// What can be said of a change before the writer sees it, in the order of the checks.
fn examined(
    call: &Call<'_>,
    key: &Key,
    change: Result<Change, ApiError>,
    faults: Vec<ErrorObject>,
    preferences: Preferences,
) -> Result<Condition, ApiError> {
    let (found, condition) = existing(call, key, preferences.merge_attributes)?;
    let mut change = change?;
    change.faults.extend(faults);
    match found {
        Ok(entry) => change.check(&entry.collection)?,
        Err(_) if !change.faults.is_empty() => return Err(change.faults.into()),
        Err(problem) => return Err(SubmitError::Broken { index: 0, problem }.into()),
    }
    Ok(condition)
}

/// `DELETE /collections/:key`; a body is of no interest.
pub(super) async fn delete(call: &Call<'_>, key: Key) -> Result<Response, ApiError> {
    call.negotiate()?;
    let allowed = call.authorize(Action::Delete { key: &key }).await?;
    let mut faults = Vec::new();
    let mut asked = Asked::of(call, &[], &mut faults);
    asked.preferences.merge_attributes = false;
    let condition = match existing(call, &key, false) {
        Ok((_, condition)) => condition,
        Err(_) if asked.is_recorded(call, &allowed.actor) => etag::condition(&call.headers)?,
        Err(error) => return Err(error),
    };
    query::none(&call.query()?)?;
    if !faults.is_empty() {
        return Err(faults.into());
    }
    let wish = Wish { command: Command::Delete { key, kind: None }, condition };
    write(call, wish, allowed, asked, &Fields::default()).await
}

/// Checks the media types and reads the body, as it was sent and as what it says; what is wrong inside is told after authorization.
async fn resource(call: &Call<'_>, body: &mut Body) -> Result<(Bytes, Result<Resource, ApiError>), ApiError> {
    negotiate::content_type(&call.headers, Dialect::Plain, body.is_there())?;
    negotiate::accept(&call.headers, Dialect::Plain)?;
    let limits = &call.context.limits;
    let bytes = body.collect(limits).await;
    let sent = bytes.clone().unwrap_or_default();
    let resource = bytes.map(|bytes| {
        let data = request::parse(&bytes, limits.json_depth_max).and_then(request::data_of);
        data.map_or_else(Resource::unreadable, Resource::read)
    });
    Ok((sent, resource))
}

/// What there is under a key: a collection, or a file that never was valid and is served by
/// nothing, but does exist.
type Found = Result<Arc<Entry>, Arc<Problem>>;

/// Existence and preconditions, in this order. What can be merged is for the writer to see.
fn existing(call: &Call<'_>, key: &Key, merge_attributes: bool) -> Result<(Found, Condition), ApiError> {
    let snapshot = call.snapshot()?;
    let found = match (snapshot.get(key.as_str()), snapshot.problem_of(key.as_str())) {
        (Some(entry), _) => Ok(Arc::clone(entry)),
        (None, Some(problem)) => Err(Arc::clone(problem)),
        (None, None) => return Err(ApiError::no_such_collection(key.as_str())),
    };
    let condition = Condition { merge_attributes, ..etag::condition(&call.headers)? };
    if call.context.require_if_match && condition.if_match.is_none() && found.is_ok() {
        return Err(submit::if_match_required().header("If-Match").into());
    }
    let current = found.as_ref().ok();
    if condition.mergeable(current.map(AsRef::as_ref)).is_none() {
        check(&condition, current)?;
    }
    Ok((found, condition))
}

fn check(condition: &Condition, entry: Option<&Arc<Entry>>) -> Result<(), ApiError> {
    if condition.holds(entry.map(AsRef::as_ref)) {
        return Ok(());
    }
    Err(ApiError::precondition(etag::failed(condition, entry.map(AsRef::as_ref)), entry.cloned()))
}

/// Preconditions of a write to a collection that need not exist.
pub(super) fn check_write(call: &Call<'_>, key: &Key) -> Result<Condition, ApiError> {
    let snapshot = call.snapshot()?;
    let found = snapshot.get(key.as_str());
    let condition = etag::condition(&call.headers)?;
    if call.context.require_if_match && condition.if_match.is_none() && found.is_some() {
        return Err(submit::if_match_required().header("If-Match").into());
    }
    check(&condition, found)?;
    Ok(condition)
}

/// What else a write is asked with; faults are added to those of the body.
pub(super) fn asked(call: &Call<'_>, sent: &[u8], faults: &mut Vec<ErrorObject>) -> (Fields, Asked) {
    let fields = fields(call).unwrap_or_else(|error| {
        faults.extend(error.into_errors());
        Fields::default()
    });
    (fields, Asked::of(call, sent, faults))
}

/// Carries out one wish and shows what became of it.
async fn write(
    call: &Call<'_>,
    wish: Wish,
    allowed: Allowed,
    asked: Asked,
    fields: &Fields,
) -> Result<Response, ApiError> {
    let condition = wish.condition.clone();
    let preferences = asked.preferences;
    let written = submit::submit(call, vec![wish], allowed.actor, asked)
        .await
        .map_err(|error| submit::told(error, &condition))?;
    Ok(self::written(call, &written, preferences, fields, StatusCode::OK))
}

/// Shows what became of one wish; `updated` is the status of a change that makes nothing new.
pub(super) fn written(
    call: &Call<'_>,
    written: &Written,
    preferences: Preferences,
    fields: &Fields,
    updated: StatusCode,
) -> Response {
    let base = &call.context.base_path;
    let outcome = written.outcomes.first().expect("one wish has one outcome");
    let (status, entry) = match outcome {
        Outcome::Created(entry) => (StatusCode::CREATED, entry),
        Outcome::Updated(entry) => (updated, entry),
        Outcome::Unchanged(entry) => (StatusCode::OK, entry),
        Outcome::Deleted => {
            let response = reply::of_revision(reply::empty(StatusCode::NO_CONTENT), written.revision, None);
            return submit::told_as_asked(response, Bytes::new(), written, preferences);
        }
    };
    let ready = Ready::one(entry, base);
    let body = one(call, entry, &ready, fields);
    let mut response = reply::document(status, body.clone());
    if status == StatusCode::CREATED {
        let path = HeaderValue::try_from(document::path_of(entry, base)).expect("a path is visible ASCII");
        response.headers_mut().insert(LOCATION, path);
    }
    let response = reply::of_revision(response, written.revision, Some(ready.etag()));
    submit::told_as_asked(response, body, written, preferences)
}
