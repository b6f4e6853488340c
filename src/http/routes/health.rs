//! `/livez` and `/readyz`, for whatever keeps the service running. Neither requires authorization.
//!
//! These two paths ignore unknown parameters, which all others refuse: a load balancer that adds one still has to
//! learn the status of the service, rather than take it out of use.

use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Value, json};
use warp::http::StatusCode;

use crate::engine::Remote;
use crate::http::context::SharedBranch;
use crate::http::jsonapi::document;
use crate::http::jsonapi::error::ApiError;
use crate::http::reply::Reply;
use crate::http::request::call::Call;
use crate::telemetry::Limit;

/// `GET /livez`: reports that the process answers, and nothing else.
pub(crate) fn live() -> Reply {
    Reply::document(StatusCode::OK, document::meta(&json!({"status": "live"})))
}

/// `GET /readyz`: reports whether requests can be answered, and if not, why.
///
/// Answers 200 while the repository can be read and the remote was seen recently enough. Broken files and failed
/// writes do not make the service unready; they are only reported. On the public listener of a guarded service
/// details are left out: it reports that writes fail or wait, that something is wrong with the policy, and the
/// state of the remote, but no revision and no counts.
pub(crate) fn ready(call: &Call<'_>, is_for_operators: bool) -> Result<Reply, ApiError> {
    let is_detailed = is_for_operators || call.context.access.guard.is_open();
    let remote =
        call.context.remote.as_ref().map(|SharedBranch { remote, .. }| remote_status(remote, is_detailed));
    readiness(call, is_detailed, remote.as_ref()).map_err(|error| match remote {
        Some(remote) => error.with_remote(remote),
        None => error,
    })
}

fn readiness(call: &Call<'_>, is_detailed: bool, remote: Option<&Value>) -> Result<Reply, ApiError> {
    let snapshot = call.snapshot()?;
    if let Some(trouble) = call.context.projection.read_error() {
        let detail = format!("What was read last is served, but {trouble}.");
        return Err(ApiError::unavailable(detail));
    }
    if let Some(shared) = call.context.remote.as_ref().filter(|shared| is_stale(call, shared)) {
        // Also when asked on the operators' listener.
        call.context.telemetry.reached.count(Limit::Staleness);
        let most = shared.max_staleness.unwrap_or_default().as_millis();
        let detail =
            format!("What was read last is served, but the remote was not seen for more than {most} ms.");
        return Err(ApiError::unavailable(detail));
    }
    let mut meta = json!({"status": "ready"});
    if let Some(trouble) = call.context.access.guard.rules_error() {
        meta["policy"] = trouble.into();
    }
    if let Some(trouble) = write_trouble(call, is_detailed) {
        meta["writes"] = trouble.into();
    }
    if let Some(remote) = remote {
        meta["remote"] = remote.clone();
    }
    if !is_detailed {
        return Ok(Reply::document(StatusCode::OK, document::meta(&meta)));
    }
    meta["revision"] = snapshot.revision.map(|revision| revision.to_string()).into();
    meta["collections"] = snapshot.catalog().len().into();
    meta["problems"] = snapshot.problems_len().into();
    meta["uncommitted"] = snapshot.hand_edits.served.into();
    if let Some(note) = &snapshot.work_tree {
        meta["workTree"] = (&**note).into();
    }
    Ok(Reply::document(StatusCode::OK, document::meta(&meta)).of_snapshot(&snapshot))
}

/// Why writes wait or fail, if they do. The cause of a failed write is given only with `is_detailed`.
fn write_trouble(call: &Call<'_>, is_detailed: bool) -> Option<String> {
    let most = Duration::from_millis(call.context.settings.limits.writes.writer_busy_ms_max);
    let overdue = call.context.projection.overdue(most, &call.context.telemetry.reached);
    let waits =
        overdue.map(|busy| format!("writes wait: the writer has been at one thing for {} s", busy.as_secs()));
    let fails = call.context.projection.write_error().map(|trouble| match is_detailed {
        true => format!("the last write could not be made: {trouble}"),
        false => "the last write could not be made".to_owned(),
    });
    let troubles: Vec<String> = waits.into_iter().chain(fails).collect();
    (!troubles.is_empty()).then(|| troubles.join("; "))
}

/// Reports whether the remote was not seen for too long.
fn is_stale(call: &Call<'_>, shared: &SharedBranch) -> bool {
    let age = |at: DateTime<Utc>| (call.context.clock.now() - at).to_std().unwrap_or_default();
    let seen = shared.remote.status().last_contact;
    shared.max_staleness.is_some_and(|most| seen.is_none_or(|at| age(at) > most))
}

/// The status of the remote. Without `is_detailed`, only its state.
fn remote_status(remote: &Remote, is_detailed: bool) -> Value {
    let status = remote.status();
    if !is_detailed {
        return json!({"state": status.state.as_str()});
    }
    let contact = status.last_contact.map(|at| at.to_rfc3339_opts(SecondsFormat::Millis, true));
    json!({
        "url": status.url,
        "ack": status.ack.as_str(),
        "state": status.state.as_str(),
        "ahead": status.ahead,
        "behind": status.behind,
        "lastContact": contact,
        "lastError": status.last_error,
    })
}
