//! Whatever becomes of a request, the answer is a JSON:API document.
//!
//! The one filter of the service takes every request, so warp itself has nothing left to refuse;
//! should it ever, [`recovered`] gives its refusal the same form.

use std::convert::Infallible;

use warp::Rejection;
use warp::reply::Response;

use super::context::Context;
use super::jsonapi::error::ApiError;
use super::reply;

/// Answers what no filter took.
pub(super) fn recovered(rejection: &Rejection, context: &Context) -> Result<Response, Infallible> {
    let error = if rejection.is_not_found() {
        ApiError::no_such_path("")
    } else {
        tracing::error!(?rejection, "BUG: warp refused a request that is ours to answer");
        ApiError::internal()
    };
    let mut response = reply::failure(&error, &context.base_path);
    reply::add_common(response.headers_mut(), &context.cors, context.compress);
    Ok(response)
}
