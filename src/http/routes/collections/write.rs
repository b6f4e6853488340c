//! Creating, updating and deleting.

use std::sync::Arc;

use bytes::Bytes;
use warp::http::header::LOCATION;
use warp::http::{HeaderValue, StatusCode};

use crate::domain::{Command, Key};
use crate::engine::{Condition, ConditionalCommand, Entry, Outcome, Problem, SubmitAnswer, SubmitError};
use crate::http::authorize::{Action, Allowed};
use crate::http::jsonapi::document::TaggedDocument;
use crate::http::jsonapi::error::{ApiError, ErrorObject};
use crate::http::jsonapi::negotiate::Dialect;
use crate::http::jsonapi::query::Fields;
use crate::http::jsonapi::request::{Resource, UpdateRequest};
use crate::http::jsonapi::{document, preconditions, query, request};
use crate::http::reply::Reply;
use crate::http::request::body::Body;
use crate::http::request::call::Call;
use crate::http::request::prefer::Preferences;
use crate::http::routes::collections::{fields, one};
use crate::http::routes::submit;
use crate::http::routes::submit::WriteTerms;

/// `POST /collections`
pub(crate) async fn create(call: &Call<'_>, body: &mut Body) -> Result<Reply, ApiError> {
    let (sent, resource) = resource(call, body).await?;
    let new = resource.map(Resource::into_new);
    let content = new.as_ref().ok();
    let action = Action::Create {
        key: content.and_then(|new| new.key.as_ref()),
        content: content.and_then(|new| new.collection.as_ref()),
    };
    let allowed = call.authorize(action).await?;
    let snapshot = call.snapshot()?;
    let condition = preconditions::condition(call.headers())?;
    let mut faults = Vec::new();
    let (fields, mut terms) = terms_of(call, &sent, &mut faults);
    let mut new = new?;
    terms.preferences.merge_attributes = false;
    if let Some(key) = &new.key
        && let Err(error) = check(&condition, snapshot.get(key.as_str()))
        && !terms.needs_writer(call, &allowed.actor, &error)
    {
        return Err(error);
    }
    new.faults.append(&mut faults);
    let Some(collection) = new.collection.filter(|_| new.faults.is_empty()) else {
        return Err(new.faults.into());
    };
    let change = ConditionalCommand { command: Command::Create(collection), condition };
    write(call, change, allowed, terms, &fields).await
}

/// `PATCH /collections/:key`
pub(crate) async fn update(call: &Call<'_>, key: Key, body: &mut Body) -> Result<Reply, ApiError> {
    let (sent, resource) = resource(call, body).await?;
    let change = resource.map(Resource::into_change);
    let content = change.as_ref().ok().and_then(UpdateRequest::content);
    let allowed = call.authorize(Action::Update { key: &key, content }).await?;
    let mut faults = Vec::new();
    let (fields, mut terms) = terms_of(call, &sent, &mut faults);
    let condition = preconditions::condition(call.headers())
        .map(|it| Condition { merge_attributes: terms.preferences.merge_attributes, ..it });
    if let Err(error) = examined(call, &key, &change, &faults, &condition) {
        // A recorded request gets its first answer, whatever has become of the collection since.
        let is_readable = change.as_ref().is_ok_and(|it| it.faults.is_empty()) && faults.is_empty();
        if !is_readable || !terms.needs_writer(call, &allowed.actor, &error) {
            return Err(error);
        }
    }
    let (condition, change) = (condition?, change?);
    terms.preferences.merge_attributes &= condition.if_match.is_some();
    let command = Command::Update { key, kind: change.kind, patch: change.patch };
    write(call, ConditionalCommand { command, condition }, allowed, terms, &fields).await
}

/// Checks a change as far as possible before the writer sees it, in the order of the checks.
fn examined(
    call: &Call<'_>,
    key: &Key,
    change: &Result<UpdateRequest, ApiError>,
    beside: &[ErrorObject],
    condition: &Result<Condition, ApiError>,
) -> Result<(), ApiError> {
    let found = checked_entry(call, key, condition)?;
    let change = change.as_ref().map_err(ApiError::clone)?;
    match found {
        Ok(entry) => change.check(&entry.collection, beside),
        Err(problem) => {
            let faults = [&change.faults, beside].concat();
            let broken = || SubmitError::Broken { index: 0, problem }.into();
            Err(if faults.is_empty() { broken() } else { faults.into() })
        }
    }
}

/// `DELETE /collections/:key`. Of the body, only the reason is used.
pub(crate) async fn delete(call: &Call<'_>, key: Key, body: &mut Body) -> Result<Reply, ApiError> {
    call.negotiate()?;
    let sent = call.collect(body).await?;
    let allowed = call.authorize(Action::Delete { key: &key }).await?;
    let mut faults = Vec::new();
    let mut terms = WriteTerms::of(call, sent.as_deref().unwrap_or_default(), &mut faults);
    terms.preferences.merge_attributes = false;
    let condition = preconditions::condition(call.headers());
    if let Err(error) = checked_entry(call, &key, &condition)
        && !terms.needs_writer(call, &allowed.actor, &error)
    {
        return Err(error);
    }
    // Most of what it says is ignored, but not that it has not arrived as a whole.
    sent?;
    let condition = condition?;
    query::none(&call.query()?)?;
    if !faults.is_empty() {
        return Err(faults.into());
    }
    let change = ConditionalCommand { command: Command::Delete { key, kind: None }, condition };
    write(call, change, allowed, terms, &Fields::default()).await
}

/// Checks the media types and reads the body. Returns its bytes and its resource, whose faults are reported after
/// authorization.
async fn resource(call: &Call<'_>, body: &mut Body) -> Result<(Bytes, Result<Resource, ApiError>), ApiError> {
    call.negotiate_write(Dialect::Plain, body)?;
    let bytes = call.collect(body).await?;
    let sent = bytes.clone().unwrap_or_default();
    let resource = bytes.map(|bytes| {
        let data = call.parse(&bytes).and_then(request::data_of);
        data.map_or_else(Resource::unreadable, Resource::read)
    });
    Ok((sent, resource))
}

/// What exists under a key: a collection, or a file that was never valid, so nothing is served for it.
type Found = Result<Arc<Entry>, Arc<Problem>>;

/// Checks existence and then preconditions, even if the latter can't be read. What can be merged is left to the
/// writer.
fn checked_entry(
    call: &Call<'_>,
    key: &Key,
    condition: &Result<Condition, ApiError>,
) -> Result<Found, ApiError> {
    let snapshot = call.snapshot()?;
    let found = match (snapshot.get(key.as_str()), snapshot.problem_of(key.as_str())) {
        (Some(entry), _) => Ok(Arc::clone(entry)),
        (None, Some(problem)) => Err(Arc::clone(problem)),
        (None, None) => return Err(ApiError::no_such_collection(key.as_str())),
    };
    let condition = condition.as_ref().map_err(ApiError::clone)?;
    if let Ok(entry) = &found {
        require_if_match(call, condition, entry)?;
    }
    let current = found.as_ref().ok();
    if condition.mergeable(current.map(AsRef::as_ref)).is_none() {
        check(condition, current)?;
    }
    Ok(found)
}

/// 428 where the service requires a precondition, with the current entity tag.
fn require_if_match(call: &Call<'_>, condition: &Condition, entry: &Entry) -> Result<(), ApiError> {
    if call.context.settings.require_if_match && condition.if_match.is_none() {
        let required = submit::if_match_required().at_header("If-Match");
        return Err(ApiError::from(required).with_etag(entry));
    }
    Ok(())
}

fn check(condition: &Condition, entry: Option<&Arc<Entry>>) -> Result<(), ApiError> {
    if condition.holds(entry.map(AsRef::as_ref)) {
        return Ok(());
    }
    Err(ApiError::precondition(preconditions::failed(condition, entry.map(AsRef::as_ref)), entry.cloned()))
}

/// Checks the preconditions of a write to a collection that need not exist.
pub(crate) fn check_write(call: &Call<'_>, key: &Key) -> Result<Condition, ApiError> {
    let snapshot = call.snapshot()?;
    let found = snapshot.get(key.as_str());
    let condition = preconditions::condition(call.headers())?;
    if let Some(entry) = found {
        require_if_match(call, &condition, entry)?;
    }
    check(&condition, found)?;
    Ok(condition)
}

/// Reads the terms of a write beside its content, and adds their faults to those of the body.
pub(crate) fn terms_of(call: &Call<'_>, sent: &[u8], faults: &mut Vec<ErrorObject>) -> (Fields, WriteTerms) {
    let fields = fields(call, &[]).unwrap_or_else(|error| {
        faults.extend(error.errors);
        Fields::default()
    });
    (fields, WriteTerms::of(call, sent, faults))
}

/// Submits one change and shows its outcome.
async fn write(
    call: &Call<'_>,
    change: ConditionalCommand,
    allowed: Allowed,
    terms: WriteTerms,
    fields: &Fields,
) -> Result<Reply, ApiError> {
    let condition = change.condition.clone();
    let preferences = terms.preferences;
    let has_body = !matches!(change.command, Command::Delete { .. });
    let written = submit::submit(call, vec![change], allowed.actor, terms).await.map_err(|error| {
        let error = submit::refused(error, &condition);
        if has_body { error } else { error.without_pointers() }
    })?;
    self::written(call, written, preferences, fields, StatusCode::OK).await
}

/// Shows the outcome of one change. `updated` is the status if it created nothing.
///
/// # Errors
///
/// As [`submit::with_preferences`].
pub(crate) async fn written(
    call: &Call<'_>,
    written: SubmitAnswer,
    preferences: Preferences,
    fields: &Fields,
    updated: StatusCode,
) -> Result<Reply, ApiError> {
    let base = &call.context.settings.base_path;
    let outcome = written.outcomes.first().expect("one change has one outcome");
    let (status, entry) = match outcome {
        Outcome::Created(entry) => (StatusCode::CREATED, entry),
        Outcome::Updated(entry) | Outcome::Unchanged(entry) => (updated, entry),
        Outcome::Deleted => {
            let reply = Reply::empty(StatusCode::NO_CONTENT).of_revision(written.revision);
            return submit::with_preferences(call, reply, Bytes::new(), written, preferences).await;
        }
    };
    let ready = TaggedDocument::one(entry, base);
    let body = one(call, entry, &ready, fields);
    let mut reply = Reply::document(status, body.clone());
    if status == StatusCode::CREATED {
        let path = HeaderValue::try_from(document::path_of(entry, base)).expect("a path is visible ASCII");
        reply = reply.with(LOCATION, path);
    }
    let reply = reply.of_revision(written.revision).with_etag(ready.etag());
    submit::with_preferences(call, reply, body, written, preferences).await
}
