//! Read-your-writes: `Collectory-Min-Revision` names a revision that the answer must contain, or `latest`.

use std::time::Duration;

use warp::http::HeaderName;

use crate::domain::Revision;
use crate::engine::{Projection, PublishedHead, Remote, SubmitError};
use crate::http::header::field;
use crate::http::jsonapi::error::{ApiError, Code, ErrorObject};
use crate::http::reply::Reply;
use crate::http::request::call::Call;
use crate::telemetry::Limit;

const MIN_REVISION: HeaderName = HeaderName::from_static("collectory-min-revision");

/// The number of hexadecimal digits of a full revision.
const REVISION_DIGITS: usize = 40;

/// What an answer must contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MinRevision {
    /// The newest revision anywhere, the remote included, at the time of the request.
    Latest,
    Revision(Revision),
}

/// Waits until the served snapshot contains what the request asks for.
///
/// # Errors
///
/// 404 for a revision that is not on the branch; 503 when it does not arrive in time; the authorizer's error for an
/// unknown caller.
pub(crate) async fn wait(call: &Call<'_>, wanted: MinRevision) -> Result<(), ApiError> {
    call.identity().await?;
    reach_in_time(call, wanted).await
}

/// Returns what the request's answer must contain, if the request has the header.
///
/// # Errors
///
/// 400 when the value is neither a revision nor `latest`.
pub(crate) fn wanted(call: &Call<'_>) -> Result<Option<MinRevision>, ApiError> {
    let Some(value) = field(call.headers(), &MIN_REVISION) else { return Ok(None) };
    let text = value.to_str().unwrap_or_default();
    if text == "latest" {
        return Ok(Some(MinRevision::Latest));
    }
    let revision = text.parse().map_err(|_| {
        let detail = "it names a revision by all its 40 digits, or says `latest`";
        ErrorObject::new(Code::INVALID_DATA, detail).at_header("Collectory-Min-Revision")
    })?;
    Ok(Some(MinRevision::Revision(revision)))
}

/// Polls the remote for a revision that a client got from another instance and that is unknown here, and waits for it
/// for a limited time. The outcome shows in the caller's next lookup.
pub(crate) async fn fetch_for(call: &Call<'_>, revision: Revision) {
    if call.context.remote.is_none() || call.identity().await.is_err() {
        return;
    }
    drop(reach_in_time(call, MinRevision::Revision(revision)).await);
}

/// Does the same as [`fetch_for`] for the revision at the start of a sibling's cursor or token.
pub(crate) async fn fetch_for_cursor(call: &Call<'_>, cursor: &str) {
    if let Some(revision) = cursor.get(..REVISION_DIGITS).and_then(|digits| digits.parse().ok()) {
        Box::pin(fetch_for(call, revision)).await;
    }
}

/// Makes an attempt that may be refused only because this instance lags behind the remote. Where a write is
/// acknowledged once the remote has it, the refusal is final only if a poll that started after the request finds the
/// remote still at the revision that was decided on. Otherwise the attempt is repeated.
///
/// # Errors
///
/// As the attempt; 503 when it is refused and the remote does not answer.
pub(crate) async fn retry_after_catching_up<F: Future<Output = Result<Reply, ApiError>> + Send>(
    call: &Call<'_>,
    is_refused: impl Fn(&ApiError) -> bool,
    attempt: impl Fn() -> F,
) -> Result<Reply, ApiError> {
    let before = served(&call.context.projection);
    let refusal = match attempt().await {
        Err(refusal) if is_refused(&refusal) => refusal,
        done => return done,
    };
    let remote = call.context.remote.as_ref().map(|shared| &shared.remote);
    if remote.is_none_or(|remote| remote.ahead().is_some()) {
        return Err(refusal);
    }
    if reach_in_time(call, MinRevision::Latest).await.is_err() {
        return Err(SubmitError::RemoteUnreachable.into());
    }
    if served(&call.context.projection) == before { Err(refusal) } else { attempt().await }
}

/// Waits as [`reach`] does, but no longer than a read waits for a revision.
async fn reach_in_time(call: &Call<'_>, wanted: MinRevision) -> Result<(), ApiError> {
    let most = Duration::from_millis(call.context.settings.limits.answers.min_revision_wait_ms);
    tokio::time::timeout(most, reach(call, wanted)).await.unwrap_or_else(|_| Err(late()))
}

async fn reach(call: &Call<'_>, wanted: MinRevision) -> Result<(), ApiError> {
    let remote = call.context.remote.as_ref().map(|shared| &shared.remote);
    match (wanted, remote) {
        (MinRevision::Revision(revision), remote) => reach_revision(call, remote, revision).await,
        (MinRevision::Latest, Some(remote)) => reach_latest(call, remote).await,
        (MinRevision::Latest, None) => Ok(()),
    }
}

/// Waits until the served snapshot contains a revision, at most until it has everything that the remote has now.
async fn reach_revision(
    call: &Call<'_>,
    remote: Option<&Remote>,
    revision: Revision,
) -> Result<(), ApiError> {
    if is_served(call, revision).await? {
        return Ok(());
    }
    let Some(remote) = remote else { return Err(not_there(revision)) };
    if let Some(head) = remote.latest().await.map_err(|_| late())? {
        reach_head(call, head).await?;
    }
    if is_served(call, revision).await? { Ok(()) } else { Err(not_there(revision)) }
}

/// Waits until the served snapshot contains a head of the remote.
async fn reach_head(call: &Call<'_>, head: Revision) -> Result<(), ApiError> {
    let mut heads = call.context.projection.heads();
    while !is_served(call, head).await? {
        heads.changed().await.map_err(|_| late())?;
    }
    Ok(())
}

/// Waits until the served snapshot is at the remote's head or contains it.
async fn reach_latest(call: &Call<'_>, remote: &Remote) -> Result<(), ApiError> {
    let since = remote.since_now();
    let mut heads = call.context.projection.heads();
    let mut seen = remote.latest().await.map_err(|_| late())?;
    while let Some(head) = seen {
        heads.mark_unchanged();
        // Commits that wait to be pushed exist only here, so the remote never has the served head.
        if remote.ahead().is_some_and(|ahead| ahead > 0) {
            return reach_head(call, head).await;
        }
        // Containing the head is not enough: a remote that was rewound may have lost the served revision.
        if served(&call.context.projection).is_some_and(|now| remote.has_been_at(now, since)) {
            break;
        }
        if remote.has_moved_from(head) {
            seen = remote.latest().await.map_err(|_| late())?;
        } else {
            heads.changed().await.map_err(|_| late())?;
        }
    }
    Ok(())
}

/// Whether the served snapshot contains a revision.
async fn is_served(call: &Call<'_>, revision: Revision) -> Result<bool, ApiError> {
    if served(&call.context.projection) == Some(revision) {
        return Ok(true);
    }
    let view = call.history_view().await?;
    call.query_history(move || Ok(view.reaches(revision)?)).await
}

fn served(projection: &Projection) -> Option<Revision> {
    match *projection.heads().borrow() {
        PublishedHead::At(head) => head,
        PublishedHead::Unread | PublishedHead::Ended => None,
    }
}

fn late() -> ApiError {
    ApiError::unavailable("What the answer is to contain has not come in time; try again.")
        .with_limit(Limit::MinRevisionWait)
}

fn not_there(revision: Revision) -> ApiError {
    let detail = format!("There is no revision {revision} on the branch.");
    ErrorObject::new(Code::NOT_FOUND, detail).at_header("Collectory-Min-Revision").into()
}
