//! `/remote`: what others tell of the remote that the branch is shared with.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use warp::http::StatusCode;

use crate::domain::Revision;
use crate::engine::{Projection, Remote};
use crate::http::authorize::Action;
use crate::http::jsonapi::document;
use crate::http::jsonapi::error::{ApiError, Code};
use crate::http::reply::Reply;
use crate::http::request::body::Body;
use crate::http::request::call::Call;

/// When a revision that a notice names, and that the remote does not show yet, is asked for again.
const AGAIN_AFTER: [Duration; 3] =
    [Duration::from_millis(100), Duration::from_millis(400), Duration::from_millis(1_600)];

/// Where a notice names the revision that its sender knows: a sibling's, and those of git hosts.
const REVISION_MEMBERS: [&str; 3] = ["revision", "after", "checkout_sha"];

/// `POST /remote/notices`: somebody says that the remote has changed. It is looked at, and nothing else comes of it.
pub(crate) async fn notice(call: &Call<'_>, body: &mut Body) -> Result<Reply, ApiError> {
    let sent = body.collect(&call.context.limits).await;
    let shared = call.context.remote.as_ref();
    let signed = match (shared.and_then(|shared| shared.notice_secret.as_ref()), &sent) {
        (Some(secret), Ok(sent)) => secret.has_signed(call.headers(), sent, call.context.clock.now()),
        (_, _) => false,
    };
    if !signed {
        call.authorize(Action::Operate).await?;
    }
    let sent = sent?;
    let Some(remote) = shared.map(|shared| &shared.remote) else { return Err(no_remote()) };
    remote.look();
    if let Some(revision) = named(&sent) {
        let (remote, projection) = (remote.clone(), call.context.projection.clone());
        call.context.shutdown.spawn(async move { look_for(&remote, &projection, revision).await });
    }
    Ok(Reply::document(StatusCode::ACCEPTED, document::meta(&json!({"status": "looking"}))))
}

/// The branch is shared with nobody.
fn no_remote() -> ApiError {
    ApiError::new(Code::NOT_FOUND, "This instance shares its branch with no remote (--remote).")
}

/// The revision that a notice names, if it does; it is no more than a hint.
fn named(sent: &Bytes) -> Option<Revision> {
    let document: Value = serde_json::from_slice(sent).ok()?;
    REVISION_MEMBERS.iter().find_map(|member| document[member].as_str()?.parse().ok())
}

/// Looks again for a revision that was not seen at once: a git host may tell of it before it shows it.
async fn look_for(remote: &Remote, projection: &Projection, revision: Revision) {
    for pause in AGAIN_AFTER {
        tokio::time::sleep(pause).await;
        let served = projection.snapshot().and_then(|snapshot| snapshot.revision);
        if served == Some(revision) || remote.latest().await == Ok(Some(revision)) {
            return;
        }
    }
}
