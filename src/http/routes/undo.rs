//! `POST /events/:id/undo` and `POST /collections/:key/restore`: taking back, by a commit of its own.

use warp::http::StatusCode;
use warp::reply::Response;

use super::super::authorize::{Action, Allowed};
use super::super::body::Body;
use super::super::call::{Call, looking};
use super::super::jsonapi::error::{ApiError, Code, ErrorObject};
use super::super::jsonapi::negotiate::{self, Dialect};
use super::super::jsonapi::query;
use super::super::jsonapi::request;
use super::super::prefer::Preferences;
use super::collections::{check_write, written};
use super::{EventId, submit};
use crate::domain::{Key, Value};
use crate::engine::history::{UndoRefusal, Undoer};
use crate::engine::{Condition, Written};

/// The resource type that a restoration is asked for with.
const RESTORE: &str = "restore";

/// Where the revision stands in the body.
const REVISION: &str = "/data/attributes/revision";

/// `POST /events/:id/undo`; a body is of no interest.
pub(super) async fn undo(call: &Call<'_>, id: &EventId) -> Result<Response, ApiError> {
    call.negotiate()?;
    let history = call.history().await;
    let found = history.as_ref().ok().zip(id.uuid());
    let found = found.and_then(|((_, view), uuid)| Some((uuid, view.key_of(uuid)?.clone())));
    let key = found.as_ref().map(|(_, key)| key);
    let allowed = call.authorize(Action::UndoEvent { key }).await?;
    let (history, _) = history?;
    let (uuid, key) = found.ok_or_else(|| id.not_found())?;
    let condition = check_write(call, &key)?;
    query::none(&call.query()?)?;
    let undoer = undoer(call, allowed, &condition)?;
    let engine = (&call.context.handle, &call.context.projection);
    let done = history.undo(engine, uuid, &undoer).await;
    answer(call, done, &condition, StatusCode::CREATED)
}

/// `POST /collections/:key/restore`
pub(super) async fn restore(call: &Call<'_>, key: Key, body: &mut Body) -> Result<Response, ApiError> {
    negotiate::content_type(&call.headers, Dialect::Plain, body.is_there())?;
    negotiate::accept(&call.headers, Dialect::Plain)?;
    let bytes = body.collect(&call.context.limits).await;
    let allowed = call.authorize(Action::Restore { key: &key }).await?;
    let (history, view) = call.history().await?;
    if !view.knows(&key) {
        return Err(ApiError::no_such_collection(key.as_str()));
    }
    let condition = check_write(call, &key)?;
    query::none(&call.query()?)?;
    let undoer = undoer(call, allowed, &condition)?;
    let text = revision(&bytes?, call.context.limits.json_depth_max)?;
    let revision = looking(move || view.resolve(&text).map_err(|error| ApiError::from(error).at(REVISION)));
    let engine = (&call.context.handle, &call.context.projection);
    let done = history.restore(engine, &key, revision.await?, &undoer).await;
    answer(call, done, &condition, StatusCode::OK)
}

fn undoer(call: &Call<'_>, allowed: Allowed, condition: &Condition) -> Result<Undoer, ApiError> {
    // Whoever asks for a dry run must never get the real thing.
    if Preferences::of(&call.headers)?.dry_run {
        let detail = "taking back has no dry run; ask /diff what would change";
        return Err(ErrorObject::new(Code::BAD_REQUEST, detail).header("Prefer").into());
    }
    Ok(Undoer {
        author: allowed.actor,
        reason: submit::reason(&call.headers)?,
        request_id: Some(call.id.as_str().to_owned()),
        condition: condition.clone(),
    })
}

fn answer(
    call: &Call<'_>,
    done: Result<Written, UndoRefusal>,
    condition: &Condition,
    updated: StatusCode,
) -> Result<Response, ApiError> {
    match done {
        Ok(done) => Ok(written(call, &done, Preferences::default(), &query::Fields::default(), updated)),
        Err(UndoRefusal::Submit(error)) => Err(submit::told(error, condition)),
        Err(refusal) => Err(refusal.into()),
    }
}

/// The revision that the body of a restoration names.
fn revision(bytes: &[u8], depth_max: usize) -> Result<String, ApiError> {
    let data = request::parse(bytes, depth_max).and_then(request::data_of)?;
    let Value::Map(members) = data else {
        return Err(ErrorObject::new(Code::BAD_REQUEST, "`data` is a resource object").at("/data").into());
    };
    let mut attributes = None;
    let mut has_type = false;
    for (name, value) in members {
        match (name.as_str(), value) {
            ("type", value) if value.as_text() == Some(RESTORE) => has_type = true,
            ("type", _) => {
                return Err(ErrorObject::invalid("/data/type", format!("expected \"{RESTORE}\"")).into());
            }
            ("attributes", Value::Map(members)) => attributes = Some(members),
            ("attributes", _) => {
                return Err(ErrorObject::invalid("/data/attributes", "expected an object").into());
            }
            _ => {}
        }
    }
    if !has_type {
        return Err(ErrorObject::invalid("/data", format!("the type is missing; it is \"{RESTORE}\"")).into());
    }
    let Some(attributes) = attributes else {
        return Err(ErrorObject::invalid("/data", "the attributes are missing, `revision` among them").into());
    };
    named(attributes)
}

fn named(attributes: Box<[(String, Value)]>) -> Result<String, ApiError> {
    let mut revision = None;
    let mut faults = Vec::new();
    for (name, value) in attributes {
        match (name.as_str(), value.as_text()) {
            ("revision", Some(text)) => revision = Some(text.to_owned()),
            ("revision", None) => {
                let found = request::article(&value);
                faults.push(ErrorObject::invalid(REVISION, format!("expected a string, found {found}")));
                revision = Some(String::new());
            }
            _ if name.starts_with('@') => {}
            _ => faults.push(ErrorObject::unknown_attribute(&name)),
        }
    }
    if revision.is_none() {
        faults.push(ErrorObject::invalid("/data/attributes", "the attribute `revision` is missing"));
    }
    if faults.is_empty() { Ok(revision.unwrap_or_default()) } else { Err(faults.into()) }
}
