//! `/collection.schema.json`: the schema of collection files, for editors and programs.

use std::sync::LazyLock;

use bytes::Bytes;
use warp::http::StatusCode;

use crate::domain;
use crate::http::authorize::Action;
use crate::http::jsonapi::error::ApiError;
use crate::http::jsonapi::{negotiate, query};
use crate::http::reply::Reply;
use crate::http::request::call::Call;

/// The media type of a JSON Schema (draft 2020-12, section 14.1).
const JSON_SCHEMA: &str = "application/schema+json";

/// Built once, because the rules do not change while the program runs.
static SCHEMA: LazyLock<Bytes> = LazyLock::new(|| domain::schema().to_string().into());

/// `GET /collection.schema.json`
pub(crate) async fn read(call: &Call<'_>) -> Result<Reply, ApiError> {
    negotiate::content_type_without_body(call.headers())?;
    call.authorize(Action::ReadCapabilities).await?;
    query::none(&call.query()?)?;
    Ok(Reply::typed(StatusCode::OK, JSON_SCHEMA, SCHEMA.clone()))
}
