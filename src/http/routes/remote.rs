//! `/remote`: notices about the remote, and decisions of operators.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use warp::http::StatusCode;

use crate::domain::Revision;
use crate::engine::{Decision, Projection, Remote, RemoteError, SubmitError};
use crate::http::authorize::Action;
use crate::http::jsonapi::error::{ApiError, Code};
use crate::http::jsonapi::{document, query};
use crate::http::notice_secret::NoticeSecret;
use crate::http::reply::Reply;
use crate::http::request::body::Body;
use crate::http::request::call::Call;

/// Pauses before polling again for a revision that a notice names and the remote does not show yet.
const AGAIN_AFTER: [Duration; 3] =
    [Duration::from_millis(100), Duration::from_millis(400), Duration::from_millis(1_600)];

/// The members that name the revision in a notice, of a sibling or of a git host.
const REVISION_MEMBERS: [&str; 3] = ["revision", "after", "checkout_sha"];

/// `POST /remote/notices`: a notice that the remote has changed. It triggers a poll of the remote and nothing else.
pub(crate) async fn notice(call: &Call<'_>, body: &mut Body) -> Result<Reply, ApiError> {
    let shared = call.context.remote.as_ref();
    let secret = shared.and_then(|shared| shared.notice_secret.as_ref());
    let sent = match secret.filter(|_| NoticeSecret::is_claimed(call.headers())) {
        // The signature can be checked only when the whole body has arrived.
        Some(secret) => {
            let sent = call.collect_of(call.unknown_sender(), body).await?;
            if !secret.has_signed(call.headers(), &sent, call.context.clock.now()) {
                call.authorize(Action::Operate).await?;
            }
            sent
        }
        None => {
            call.authorize(Action::Operate).await?;
            call.collect_of(call.known_sender().await?, body).await?
        }
    };
    let Some(remote) = shared.map(|shared| &shared.remote) else { return Err(no_remote()) };
    remote.request_poll();
    if let Some(revision) = revision_in(&sent) {
        let (remote, projection) = (remote.clone(), call.context.projection.clone());
        call.context.shutdown.spawn(async move { poll_until_seen(&remote, &projection, revision).await });
    }
    Ok(Reply::document(StatusCode::ACCEPTED, document::meta(&json!({"status": "looking"}))))
}

/// `POST /remote/accept`: accepts a rewritten remote as it is.
pub(crate) async fn accept(call: &Call<'_>) -> Result<Reply, ApiError> {
    call.negotiate()?;
    call.authorize(Action::Operate).await?;
    query::none(&call.query()?)?;
    decide(call, Decision::Accept).await
}

/// `POST /remote/restore`: restores what a rewritten remote has lost. With `force=true` it replaces what the
/// remote has.
pub(crate) async fn restore(call: &Call<'_>) -> Result<Reply, ApiError> {
    call.negotiate()?;
    call.authorize(Action::Operate).await?;
    let force = query::force(&call.query()?)?;
    decide(call, Decision::Restore { force }).await
}

async fn decide(call: &Call<'_>, decision: Decision) -> Result<Reply, ApiError> {
    let Some(shared) = &call.context.remote else { return Err(no_remote()) };
    let revision = shared.remote.decide(decision).await.map_err(|error| match error {
        RemoteError::Unreachable(_)
        | RemoteError::Unsound(_)
        | RemoteError::Lagging
        | RemoteError::Pending => SubmitError::RemoteUnreachable.into(),
        RemoteError::Refused(why) => SubmitError::RemoteRefused { why }.into(),
        RemoteError::OutcomeUnknown => SubmitError::OutcomeUnknown { events: Vec::new() }.into(),
        RemoteError::LostRaces => ApiError::lost_races(error.to_string()),
        RemoteError::Stopped(_) | RemoteError::FarAhead { .. } => {
            ApiError::new(Code::CONFLICT, error.to_string())
        }
    })?;
    let meta = document::meta(&json!({"revision": revision.to_string()}));
    Ok(Reply::document(StatusCode::OK, meta).of_revision(Some(revision)))
}

/// 404 where the branch is not shared.
fn no_remote() -> ApiError {
    ApiError::new(Code::NOT_FOUND, "This instance shares its branch with no remote (--remote).")
}

/// Returns the revision that a notice names, if any. It is only a hint.
fn revision_in(sent: &Bytes) -> Option<Revision> {
    let document: Value = serde_json::from_slice(sent).ok()?;
    REVISION_MEMBERS.iter().find_map(|member| document[member].as_str()?.parse().ok())
}

/// Polls again for a revision that was not seen at once: a git host may send its notice before it shows the revision.
async fn poll_until_seen(remote: &Remote, projection: &Projection, revision: Revision) {
    for pause in AGAIN_AFTER {
        tokio::time::sleep(pause).await;
        let served = projection.snapshot().and_then(|snapshot| snapshot.revision);
        if served == Some(revision) || remote.latest().await == Ok(Some(revision)) {
            return;
        }
    }
}
