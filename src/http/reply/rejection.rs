//! Whatever becomes of a request, the answer is a JSON:API document.
//!
//! The filter for other servers takes every request, so warp itself has nothing left to refuse; should it
//! ever, [`recovered`] gives its refusal the same form.

use std::convert::Infallible;

use warp::Rejection;
use warp::reply::Response;

use crate::http::Shared;
use crate::http::jsonapi::error::ApiError;
use crate::http::reply::Reply;

/// Answers what no filter took.
pub(crate) fn recovered(rejection: &Rejection, shared: &Shared) -> Result<Response, Infallible> {
    let error = if rejection.is_not_found() {
        ApiError::no_such_path("")
    } else {
        tracing::error!(?rejection, "BUG: warp refused a request that is ours to answer");
        ApiError::internal()
    };
    Ok(Reply::failure(&error, &shared.context.base_path).into_response(&shared.common, None))
}
