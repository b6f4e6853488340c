//! `/problems`: what is wrong in the repository right now.

use std::sync::Arc;

use bytes::Bytes;
use warp::http::StatusCode;

use crate::engine::{BranchRewrite, Conflict, MergeConflict, Snapshot};
use crate::http::authorize::{Action, Allowed};
use crate::http::jsonapi::error::ApiError;
use crate::http::jsonapi::query::Fields;
use crate::http::jsonapi::{document, query};
use crate::http::reply::Reply;
use crate::http::request::call::Call;

/// Maximum number of problems for which the document is built on a thread that answers requests.
const PROBLEMS_AT_ONCE: usize = 100;

/// `GET /problems`
pub(crate) async fn list(call: &Call<'_>) -> Result<Reply, ApiError> {
    call.negotiate()?;
    let allowed = call.authorize(Action::ReadProblems).await?;
    let snapshot = call.snapshot()?;
    let fields = query::fields(&call.query()?, &["problem"])?;
    let (link, shown) = (call.link(), Arc::clone(&snapshot));
    let reservation = call.answer_reservation();
    let make = move || reservation.counted(all(&shown, &allowed, &fields, &link));
    let is_long = snapshot.problems.len() > PROBLEMS_AT_ONCE;
    let body = if is_long { call.build_off_thread(make).await? } else { make() }?;
    Ok(Reply::document(StatusCode::OK, body).of_snapshot(&snapshot))
}

/// The document of everything that the caller may see.
fn all(snapshot: &Snapshot, allowed: &Allowed, fields: &Fields, link: &str) -> Bytes {
    let seen = snapshot
        .problems
        .values()
        .map(AsRef::as_ref)
        .filter(|problem| allowed.sees_file(problem.collection.as_ref()));
    // These reveal past states of all collections.
    let rewritten: &[BranchRewrite] = if allowed.sees_all() { &snapshot.rewritten } else { &[] };
    let is_seen = |conflicted: &&MergeConflict| match &conflicted.conflict {
        Conflict::Attribute { key, .. } => allowed.sees(key),
        Conflict::File(_) => allowed.sees_all(),
    };
    let conflicts = snapshot.conflicts.iter().filter(is_seen);
    document::problems(seen, rewritten, conflicts, fields, link)
}
