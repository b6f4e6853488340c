//! Metrics and access log of a request, which never affect the answer.

use std::time::{Duration, Instant};

use warp::http::Method;

use crate::domain::{Actor, hex};
use crate::http::metrics::{RequestSeries, UNKNOWN_ROUTE};
use crate::http::reply::Reply;
use crate::http::request::call::Call;
use crate::http::request::id;
use crate::telemetry::{AccessLog, AccessLogEntry};

impl<'a> Call<'a> {
    /// Marks the call as a client's request, and records its start if metrics or the access log need it.
    pub(crate) fn with_start_time(self) -> Self {
        let is_of_interest =
            self.context.telemetry.metrics.is_some() || self.context.telemetry.access_log.is_some();
        Self { began: is_of_interest.then(Instant::now), ..self }
    }

    /// Counts the request as in flight until the guard is dropped.
    pub(crate) const fn counted(&self) -> InFlightRequest<'_, 'a> {
        InFlightRequest(self)
    }
}

/// A request in flight.
pub(crate) struct InFlightRequest<'c, 'a>(&'c Call<'a>);

impl InFlightRequest<'_, '_> {
    /// Counts and logs the answer.
    pub(crate) fn answered(self, reply: &Reply) {
        let Some(began) = self.0.began else { return };
        if self.0.matched.get().is_none() {
            self.0.record_route(UNKNOWN_ROUTE, None);
        }
        let took = began.elapsed();
        if let Some((metrics, series)) = self.0.context.telemetry.metrics.as_ref().zip(self.series()) {
            metrics.answered(series, reply.status(), took);
        }
        if let Some(log) = &self.0.context.telemetry.access_log {
            self.log(log, reply, took);
        }
    }

    fn log(&self, log: &AccessLog, reply: &Reply, took: Duration) {
        let call = self.0;
        let revision = reply.revision().or_else(|| call.shown.page.get());
        let revision = revision.map(|revision| hex(revision.as_bytes()));
        log.note(&AccessLogEntry {
            at: call.context.clock.now(),
            method: call.method().as_str(),
            route: call.route().unwrap_or(UNKNOWN_ROUTE),
            status: reply.status().as_u16(),
            duration: took,
            bytes: if *call.method() == Method::HEAD { 0 } else { reply.body().len() },
            actor: call.known_actor().map(Actor::name),
            request_id: Some(call.id.as_str()),
            revision: revision.as_ref().map(<[u8; 40]>::as_slice),
            traceparent: id::traceparent(call.headers()),
        });
    }

    fn series(&self) -> Option<RequestSeries> {
        self.0.matched.get()?.series
    }
}

impl Drop for InFlightRequest<'_, '_> {
    fn drop(&mut self) {
        if let Some((metrics, series)) = self.0.context.telemetry.metrics.as_ref().zip(self.series()) {
            metrics.end(series);
        }
    }
}
