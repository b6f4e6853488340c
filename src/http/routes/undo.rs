//! `POST /events/:id/undo` and `POST /collections/:key/restore`: bring back the past with a commit of their own.

use bytes::Bytes;
use warp::http::StatusCode;

use crate::domain::{Key, Value};
use crate::engine::UndoRequest;
use crate::engine::history::UndoRefusal;
use crate::engine::{Handle, Projection, SubmitAnswer};
use crate::http::authorize::{Action, Allowed};
use crate::http::jsonapi::error::{ApiError, ErrorObject};
use crate::http::jsonapi::negotiate::Dialect;
use crate::http::jsonapi::query::Fields;
use crate::http::jsonapi::request::ObjectMembers;
use crate::http::jsonapi::{preconditions, request};
use crate::http::min_revision;
use crate::http::reply::Reply;
use crate::http::request::body::Body;
use crate::http::request::call::Call;
use crate::http::request::prefer::Preferences;
use crate::http::routes::collections::{check_write, terms_of, written};
use crate::http::routes::path::EventId;
use crate::http::routes::submit;
use crate::http::routes::submit::submission;

/// The resource type of a restore request.
const RESTORE: &str = "restore";

/// Refusals by an instance that may lag behind, which the remote may contradict.
const REFUSED: [StatusCode; 3] =
    [StatusCode::NOT_FOUND, StatusCode::CONFLICT, StatusCode::PRECONDITION_FAILED];

/// The pointer to the revision in the body.
const REVISION: &str = "/data/attributes/revision";

/// `POST /events/:id/undo`. Of the document, only the reason is used.
pub(crate) async fn undo(call: &Call<'_>, id: EventId, body: &mut Body) -> Result<Reply, ApiError> {
    call.negotiate_write(Dialect::Plain, body)?;
    let sent = call.collect(body).await?;
    // While an event is unknown here, so is who may undo it.
    let history = call.live_history().await.ok();
    let is_blind = history.zip(id.uuid()).is_none_or(|((_, view), uuid)| view.key_of(uuid).is_none());
    let is_refused = |error: &ApiError| {
        REFUSED.contains(&error.status()) || is_blind && error.status() == StatusCode::FORBIDDEN
    };
    let id = &id;
    min_revision::retry_after_catching_up(call, is_refused, || undo_here(call, id, sent.clone())).await
}

async fn undo_here(call: &Call<'_>, id: &EventId, sent: Result<Bytes, ApiError>) -> Result<Reply, ApiError> {
    let history = call.live_history().await;
    let found = history.as_ref().ok().zip(id.uuid());
    let found = found.and_then(|((_, view), uuid)| Some((uuid, view.key_of(uuid)?.clone())));
    let key = found.as_ref().map(|(_, key)| key);
    let allowed = call.authorize(Action::UndoEvent { key }).await?;
    let (history, _) = history?;
    let (uuid, key) = found.ok_or_else(|| id.not_found())?;
    let request = Request::of(call, key, allowed, sent.as_deref().unwrap_or_default())?;
    let sent = sent?;
    if !sent.is_empty() {
        request::members_of(call.parse(&sent)?)?;
    }
    let done = request.undoer.undo(history, request.engine(), uuid).await;
    let done = request.refused(done).await;
    request.answer(done, StatusCode::CREATED).await
}

/// `POST /collections/:key/restore`
pub(crate) async fn restore(call: &Call<'_>, key: Key, body: &mut Body) -> Result<Reply, ApiError> {
    call.negotiate_write(Dialect::Plain, body)?;
    let bytes = call.collect(body).await?;
    let is_refused = |error: &ApiError| REFUSED.contains(&error.status());
    min_revision::retry_after_catching_up(call, is_refused, || restore_here(call, key.clone(), bytes.clone()))
        .await
}

async fn restore_here(call: &Call<'_>, key: Key, bytes: Result<Bytes, ApiError>) -> Result<Reply, ApiError> {
    let allowed = call.authorize(Action::Restore { key: &key }).await?;
    let (history, view) = call.live_history().await?;
    if !view.knows(&key) {
        return Err(call.no_history_of(&key));
    }
    let request = Request::of(call, key, allowed, bytes.as_deref().unwrap_or_default())?;
    let text = revision(call.parse(&bytes?)?)?;
    let resolve = move || view.resolve(&text).map_err(|error| ApiError::from(error).at(REVISION));
    let done = match call.query_history(resolve).await {
        Ok(revision) => {
            let done = request.undoer.restore(history, request.engine(), &request.key, revision).await;
            request.refused(done).await
        }
        Err(error) => Err(error),
    };
    request.answer(done, StatusCode::OK).await
}

/// An undo or restore request, with what its headers and query say.
struct Request<'a> {
    call: &'a Call<'a>,
    key: Key,
    undoer: UndoRequest,
    preferences: Preferences,
    fields: Fields,
}

impl<'a> Request<'a> {
    fn of(call: &'a Call<'a>, key: Key, allowed: Allowed, sent: &[u8]) -> Result<Self, ApiError> {
        let mut faults = Vec::new();
        let (fields, terms) = terms_of(call, sent, &mut faults);
        let condition = match check_write(call, &key) {
            Ok(condition) => condition,
            // A recorded request gets its first answer, whatever has become of the collection since.
            Err(_) if faults.is_empty() && terms.is_recorded(call, &allowed.actor) => {
                preconditions::condition(call.headers())?
            }
            Err(error) => return Err(error),
        };
        if !faults.is_empty() {
            return Err(faults.into());
        }
        // The past is brought back exactly as it was, so there is nothing to merge.
        let preferences = Preferences { merge_attributes: false, ..terms.preferences };
        let asked = submission(call, Vec::new(), allowed.actor, terms);
        Ok(Self { call, key, undoer: UndoRequest { template: asked, condition }, preferences, fields })
    }

    fn engine(&self) -> (&'a Handle, &'a Projection) {
        (&self.call.context.handle, &self.call.context.projection)
    }

    async fn refused(&self, done: Result<SubmitAnswer, UndoRefusal>) -> Result<SubmitAnswer, ApiError> {
        match done {
            Err(UndoRefusal::Submit(error)) => {
                let error = submit::redacted(self.call, error).await;
                Err(submit::refused(error, &self.undoer.condition).without_pointers())
            }
            done => Ok(done?),
        }
    }

    /// Shows the result. A request that is refused now because it was carried out before gets its recorded result.
    async fn answer(
        &self,
        done: Result<SubmitAnswer, ApiError>,
        updated: StatusCode,
    ) -> Result<Reply, ApiError> {
        let done = match done {
            Ok(done) => done,
            Err(refusal) => self.replayed().await?.ok_or(refusal)?,
        };
        written(self.call, done, self.preferences, &self.fields, updated).await
    }

    async fn replayed(&self) -> Result<Option<SubmitAnswer>, ApiError> {
        let UndoRequest { template: asked, condition } = &self.undoer;
        let Some(idempotency_key) = asked.recorded_idempotency_key() else { return Ok(None) };
        let replayed = self.call.context.handle.replay(&asked.author, idempotency_key, &self.key).await;
        replayed.map_err(|error| submit::refused(error, condition))
    }
}

/// Returns the revision in the document of a restore request.
fn revision(document: Value) -> Result<String, ApiError> {
    let wrong = |pointer: &str, detail: String| Err(ErrorObject::invalid(pointer, detail).into());
    let data = request::data_of(document)?;
    match request::find(&data, "type") {
        Some(value) if value.as_text() == Some(RESTORE) => {}
        Some(_) => return wrong("/data/type", format!("expected \"{RESTORE}\"")),
        None => return wrong("/data", format!("the type is missing; it is \"{RESTORE}\"")),
    }
    if let Some(id) = request::find(&data, "id").filter(|id| id.as_text().is_none()) {
        return wrong("/data/id", format!("expected a string, found {}", request::type_with_article(id)));
    }
    match request::take(data, "attributes") {
        Some(Value::Map(attributes)) => only_revision(attributes),
        Some(_) => wrong("/data/attributes", "expected an object".to_owned()),
        None => wrong("/data", "the attributes are missing, `revision` among them".to_owned()),
    }
}

fn only_revision(attributes: ObjectMembers) -> Result<String, ApiError> {
    let mut revision = None;
    let mut faults = Vec::new();
    for (name, value) in attributes {
        match (name.as_str(), value.as_text()) {
            ("revision", Some(text)) => revision = Some(text.to_owned()),
            ("revision", None) => {
                let found = request::type_with_article(&value);
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
