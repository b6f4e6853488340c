//! `/problems`: what is wrong in the repository right now.

use warp::http::StatusCode;

use crate::engine::{Problem, Rewritten};
use crate::http::authorize::{Action, Allowed};
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
    let seen = snapshot.problems.values().map(AsRef::as_ref).filter(|problem| sees(&allowed, problem));
    // They hold what everybody's collections were.
    let rewritten: &[Rewritten] = if allowed.visibility.is_none() { &snapshot.rewritten } else { &[] };
    let body = document::problems(seen, rewritten, &fields, &call.link());
    Ok(Reply::document(StatusCode::OK, body).of_snapshot(&snapshot))
}

/// Those who see some keys only see the problems of those, and none of files without a key.
fn sees(allowed: &Allowed, problem: &Problem) -> bool {
    match &problem.collection {
        Some(key) => allowed.sees(key),
        None => allowed.visibility.is_none(),
    }
}
