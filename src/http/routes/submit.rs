//! What all writes have in common on their way to the writer and back.

use std::time::{Duration, Instant};

use bytes::Bytes;
use warp::http::StatusCode;

use crate::domain::{Actor, Refusal, file_name};
use crate::engine::{
    Condition, ConditionalCommand, Fingerprint, IdempotencyKey, Preview, Submission, SubmitAnswer,
    SubmitError,
};
use crate::http::authorize::Action;
use crate::http::jsonapi::error::{ApiError, Code, ErrorObject};
use crate::http::jsonapi::{document, preconditions};
use crate::http::reply::Reply;
use crate::http::request::call::Call;
use crate::http::request::prefer::{PREFERENCE_APPLIED, Preferences};
use crate::http::request::{idempotency, reason};

/// How long a dry run may search for the shortest differences. After that, the rest is shown as replaced.
const PREVIEW_TIME_MAX: Duration = Duration::from_millis(200);

/// The 428 of a service that requires a precondition for every change.
pub(crate) fn if_match_required() -> ErrorObject {
    ErrorObject::new(
        Code::PRECONDITION_REQUIRED,
        "this service takes a change only together with the entity tag of what it changes",
    )
}

/// Submits changes to the writer, all or nothing, and waits until they are durable.
///
/// If the client hangs up, this future is dropped, but the submitted changes are still carried out.
pub(crate) async fn submit(
    call: &Call<'_>,
    changes: Vec<ConditionalCommand>,
    author: Actor,
    terms: WriteTerms,
) -> Result<SubmitAnswer, SubmitError> {
    match call.context.handle.submit(submission(call, changes, author, terms)).await {
        Err(error) => Err(redacted(call, error).await),
        Ok(mut written) => {
            hide_replaced_content(call, written.preview.as_deref_mut().unwrap_or_default()).await;
            Ok(written)
        }
    }
}

pub(crate) fn submission(
    call: &Call<'_>,
    changes: Vec<ConditionalCommand>,
    author: Actor,
    terms: WriteTerms,
) -> Submission {
    let WriteTerms { reason, preferences: Preferences { dry_run, .. }, idempotency_key } = terms;
    let request_id = Some(call.id.as_str().to_owned());
    Submission { changes, author, reason, request_id, by_command: false, dry_run, idempotency_key }
}

/// Hides what the hand edits in a preview have replaced. Everyone who may write sees the hand edits that a write
/// would commit first, but what they have replaced is the past, which requires a right of its own.
async fn hide_replaced_content(call: &Call<'_>, preview: &mut [Preview]) {
    let Some((_, by_hand)) = preview.split_last_mut() else { return };
    for commit in by_hand {
        let Preview { message, files, .. } = commit;
        for file in files {
            let name = file.path.rsplit('/').next().unwrap_or_default();
            let Some(key) = file_name::key_of(name) else { continue };
            if call.authorize(Action::ReadPast { key: &key }).await.is_err() {
                file.before.clone_from(&file.after);
                message.truncate(message.find('\n').unwrap_or(message.len()));
            }
        }
    }
}

/// Removes from a refusal what the caller may not read: the name of another collection, and the old value of an
/// attribute, which is the past and requires a right of its own.
pub(crate) async fn redacted(call: &Call<'_>, mut error: SubmitError) -> SubmitError {
    match &mut error {
        SubmitError::Refused { refusal, .. } => {
            if let Refusal::KeyTakenInOtherCase { key, existing } = refusal
                && call.authorize(Action::Read { key: existing }).await.is_err()
            {
                // To this caller the key is simply taken.
                *refusal = Refusal::KeyTaken(key.clone());
            }
        }
        SubmitError::Clash { current, clashes, .. } => {
            let key = current.collection.key();
            if call.authorize(Action::ReadPast { key }).await.is_err() {
                clashes.iter_mut().for_each(|clash| clash.base = None);
            }
        }
        SubmitError::ConditionFailed { .. }
        | SubmitError::Broken { .. }
        | SubmitError::NotAFile { .. }
        | SubmitError::EditedByHand { .. }
        | SubmitError::Converted { .. }
        | SubmitError::UnreadableEdit { .. }
        | SubmitError::BeingWritten { .. }
        | SubmitError::FilesTooLarge { .. }
        | SubmitError::KeyReused
        | SubmitError::Busy
        | SubmitError::Loading
        | SubmitError::ShuttingDown
        | SubmitError::RemoteRefused { .. }
        | SubmitError::RemoteUnreachable
        | SubmitError::OutcomeUnknown { .. }
        | SubmitError::Unavailable { .. } => {}
    }
    error
}

/// The terms of a write beside its content, from headers and from the `meta` of its document.
#[derive(Debug, Default)]
pub(crate) struct WriteTerms {
    /// The reason, in the caller's words.
    pub(crate) reason: Option<String>,
    /// The caller's preferences (`Prefer`).
    pub(crate) preferences: Preferences,
    /// The caller's idempotency key and the fingerprint of the request.
    pub(crate) idempotency_key: Option<IdempotencyKey>,
}

impl WriteTerms {
    /// Reads the headers and the reason in the body, and adds what is wrong with them to `faults`. The fingerprint
    /// of the request includes the body.
    pub(crate) fn of(call: &Call<'_>, body: &[u8], faults: &mut Vec<ErrorObject>) -> Self {
        let headers = call.headers();
        let reason = reason::of(headers, call.parse(body).ok().as_ref(), faults);
        let mut keep = |fault| faults.push(fault);
        let preferences = Preferences::of(headers).unwrap_or_else(|fault| {
            keep(fault);
            Preferences::default()
        });
        let key = idempotency::key(headers).unwrap_or_else(|fault| {
            keep(fault);
            None
        });
        let idempotency_key = key.map(|key| {
            let (method, path) = (call.method().as_str().as_bytes(), call.path().as_bytes());
            IdempotencyKey { key, fingerprint: Fingerprint::of(&[method, path, body]) }
        });
        Self { reason, preferences, idempotency_key }
    }

    /// Reports whether a write with this idempotency key is recorded. If so, the writer answers, whatever the
    /// collections look like by now.
    pub(crate) fn is_recorded(&self, call: &Call<'_>, author: &Actor) -> bool {
        let idempotency_key = self.idempotency_key.as_ref().filter(|_| !self.preferences.dry_run);
        idempotency_key
            .is_some_and(|idempotency_key| call.context.handle.is_recorded(author, idempotency_key))
    }

    /// Reports whether the writer has to answer what would be refused here: because a write with this idempotency
    /// key is recorded, or because other instances may have changed the state on which the refusal rests.
    pub(super) fn needs_writer(&self, call: &Call<'_>, author: &Actor, refusal: &ApiError) -> bool {
        let rests_on_the_head = || {
            matches!(
                refusal.status(),
                StatusCode::NOT_FOUND | StatusCode::CONFLICT | StatusCode::PRECONDITION_FAILED
            )
        };
        self.is_recorded(call, author)
            || call.context.remote.is_some() && !self.preferences.dry_run && rests_on_the_head()
    }
}

/// Finishes the answer to a write. That to a dry run lists the commits that were not made, and has no header that
/// claims that something exists.
///
/// # Errors
///
/// 503 when there is no room to compute what would change.
pub(crate) async fn with_preferences(
    call: &Call<'_>,
    reply: Reply,
    body: Bytes,
    written: SubmitAnswer,
    preferences: Preferences,
) -> Result<Reply, ApiError> {
    let reply = match written.preview {
        None => reply,
        Some(preview) => {
            let until = Instant::now() + PREVIEW_TIME_MAX;
            let preview = move || Ok(reply.previewed(document::with_preview(&body, &preview, until)));
            call.reply_from_history(preview).await?.of_revision(written.revision)
        }
    };
    Ok(match preferences.applied() {
        None => reply,
        Some(applied) => reply.with(PREFERENCE_APPLIED, applied),
    })
}

/// Converts a refusal of the writer, naming the header whose condition no longer holds.
pub(crate) fn refused(error: SubmitError, condition: &Condition) -> ApiError {
    if let SubmitError::ConditionFailed { current, .. } = error {
        return ApiError::precondition(preconditions::failed(condition, current.as_deref()), current);
    }
    error.into()
}
