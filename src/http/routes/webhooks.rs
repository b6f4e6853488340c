//! `/webhooks`: the progress of each webhook receiver.

use bytes::Bytes;
use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use warp::http::StatusCode;

use crate::domain::to_the_second;
use crate::http::authorize::Action;
use crate::http::context::webhooks::ReceiverStatus;
use crate::http::jsonapi::document::{history, self_link};
use crate::http::jsonapi::error::ApiError;
use crate::http::jsonapi::query;
use crate::http::jsonapi::query::Fields;
use crate::http::reply::Reply;
use crate::http::request::call::Call;

/// The resource type of webhook receivers.
const WEBHOOK: &str = "webhook";

/// `GET /webhooks`
pub(crate) async fn list(call: &Call<'_>) -> Result<Reply, ApiError> {
    call.negotiate()?;
    call.authorize(Action::Operate).await?;
    let fields = query::fields(&call.query()?, &[WEBHOOK])?;
    let read_states = call.context.webhooks.0.clone();
    // Counting the events still to be delivered reads the history, which takes time.
    let receivers = call
        .build_off_thread(move || read_states.map(|read_states| read_states()).unwrap_or_default())
        .await?;
    let resources = receivers.iter().map(|receiver| resource(receiver, &fields));
    Ok(Reply::document(StatusCode::OK, history::list(resources, &self_link(&call.link()), None)))
}

fn resource(receiver: &ReceiverStatus, fields: &Fields) -> Bytes {
    let state = match (receiver.ended, &receiver.failure) {
        (true, _) => "ended",
        (false, Some(_)) => "failing",
        (false, None) => "delivering",
    };
    history::resource(WEBHOOK, &receiver.name, fields.wanted(WEBHOOK), |attributes| {
        attributes.text("url", &receiver.url);
        attributes.text("state", state);
        attributes.json("revision", receiver.revision.map(|revision| revision.to_string()));
        attributes.json("lag", receiver.lag);
        attributes.json("lastError", receiver.failure.as_ref().map(failure));
    })
}

fn failure((at, why): &(DateTime<Utc>, String)) -> Value {
    json!({"at": to_the_second(*at), "message": why})
}
