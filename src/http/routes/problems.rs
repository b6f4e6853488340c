//! `/problems`: what is wrong in the repository right now.

use warp::http::StatusCode;

use crate::engine::{Conflict, Conflicted, Rewritten};
use crate::http::authorize::Action;
use crate::http::jsonapi::error::ApiError;
use crate::http::jsonapi::{document, query};
use crate::http::reply::Reply;
use crate::http::request::call::Call;

/// `GET /problems`
pub(crate) async fn list(call: &Call<'_>) -> Result<Reply, ApiError> {
    call.negotiate()?;
    let allowed = call.authorize(Action::ReadProblems).await?;
    let snapshot = call.snapshot()?;
    let fields = query::fields(&call.query()?, &["problem"])?;
    let seen = snapshot.problems.values().map(AsRef::as_ref).filter(|problem| allowed.sees_problem(problem));
    // They hold what everybody's collections were.
    let rewritten: &[Rewritten] = if allowed.visibility.is_none() { &snapshot.rewritten } else { &[] };
    let is_seen = |conflicted: &&Conflicted| match &conflicted.conflict {
        Conflict::Attribute { key, .. } => allowed.sees(key),
        Conflict::File(_) => allowed.visibility.is_none(),
    };
    let conflicts = snapshot.conflicts.iter().filter(is_seen);
    let body = document::problems(seen, rewritten, conflicts, &fields, &call.link());
    Ok(Reply::document(StatusCode::OK, body).of_snapshot(&snapshot))
}
