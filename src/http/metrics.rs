//! Metrics of requests.
//!
//! The numbers of every route, method and status class exist from the start and are found by position, so counting a
//! request takes a few additions. Without a metrics listener there are no numbers and nothing is counted.

use std::time::Duration;

use warp::http::{Method, StatusCode};

use crate::http::authorize::{ACTIONS, Action, Denied};
use crate::telemetry::metrics::{Counter, Gauge, Histogram};

/// The route label of all web pages.
pub(crate) const UI: &str = "/ui/";

/// The route label of unknown paths.
pub(crate) const UNKNOWN_ROUTE: &str = "none";

const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PATCH", "DELETE", "OPTIONS", "other"];

const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

const OUTCOMES: [&str; 3] = ["allowed", "denied", "failed"];

/// The metrics of all requests.
#[derive(Debug)]
pub struct Metrics {
    /// The paths of the routes, as in the route table.
    routes: Box<[&'static str]>,
    /// Indexed by route and method.
    requests: Box<[[Requests; METHODS.len()]]>,
    authorizations: [[Counter; OUTCOMES.len()]; ACTIONS.len()],
    pub(crate) subscribers: Gauge,
    pub(crate) dropped: Counter,
}

/// The requests of one route and method.
#[derive(Debug, Default)]
struct Requests {
    in_flight: Gauge,
    /// Durations of answered requests, by status class.
    answered: [Histogram; CLASSES.len()],
}

/// The durations of one route, method and status class.
#[derive(Debug, Clone, Copy)]
pub struct RequestDurations<'a> {
    /// The path as in the route table.
    pub route: &'static str,
    /// The HTTP method, or `other`.
    pub method: &'static str,
    /// The status class, such as `2xx`.
    pub status: &'static str,
    /// How long the requests took.
    pub durations: &'a Histogram,
}

impl Metrics {
    /// Creates zeroed metrics for these routes, the pages and unknown paths.
    pub(crate) fn of(routes: impl Iterator<Item = &'static str>) -> Self {
        let routes: Box<[_]> = routes.chain([UI, UNKNOWN_ROUTE]).collect();
        let requests = routes.iter().map(|_| Default::default()).collect();
        let (authorizations, subscribers, dropped) = Default::default();
        Self { routes, requests, authorizations, subscribers, dropped }
    }

    /// Counts a request as in flight.
    pub(crate) fn begin(&self, route: &'static str, method: &Method) -> RequestSeries {
        let series = RequestSeries { route: self.route_index(route), method: method_index(method) };
        self.requests_of(series).in_flight.add_one();
        series
    }

    /// Records the status class and the duration of an answered request.
    pub(crate) fn answered(&self, series: RequestSeries, status: StatusCode, took: Duration) {
        let class = usize::from(status.as_u16() / 100).clamp(1, CLASSES.len()) - 1;
        self.requests_of(series).answered[class].observe(took);
    }

    /// Records a request that the server refused before it reached a route.
    pub(crate) fn refused(&self, method: Option<&Method>, status: StatusCode) {
        let method = method.map_or(METHODS.len() - 1, method_index);
        self.answered(
            RequestSeries { route: self.route_index(UNKNOWN_ROUTE), method },
            status,
            Duration::ZERO,
        );
    }

    /// Counts the request as no longer in flight, whether it was answered or not.
    pub(crate) fn end(&self, series: RequestSeries) {
        self.requests_of(series).in_flight.take_one();
    }

    /// Returns the position of a route by its name; an unknown route counts as [`UNKNOWN_ROUTE`].
    fn route_index(&self, route: &'static str) -> usize {
        self.routes.iter().position(|known| *known == route).unwrap_or(self.routes.len() - 1)
    }

    fn requests_of(&self, series: RequestSeries) -> &Requests {
        &self.requests[series.route][series.method]
    }

    /// Counts the outcome of an authorization.
    pub(crate) fn authorized(&self, action: &Action<'_>, answer: Result<(), &Denied>) {
        let outcome = match answer.map_err(Denied::status) {
            Ok(()) => 0,
            Err(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => 1,
            Err(_) => 2,
        };
        self.authorizations[action.number()][outcome].add_one();
    }

    /// The number of open event streams.
    #[must_use]
    pub fn subscribers(&self) -> i64 {
        self.subscribers.get()
    }

    /// The number of streams that were closed because their reader may no longer follow them.
    #[must_use]
    pub fn revoked_streams(&self) -> u64 {
        self.dropped.get()
    }

    /// Returns the durations of each route, method and status class that occurred.
    pub fn requests(&self) -> impl Iterator<Item = RequestDurations<'_>> {
        let all = self.by_route_and_method().flat_map(|(route, method, requests)| {
            let classes = CLASSES.into_iter().zip(&requests.answered);
            classes.map(move |(status, durations)| RequestDurations { route, method, status, durations })
        });
        all.filter(|one| one.durations.sample_count() > 0)
    }

    /// Returns the number of requests in flight for each route and method that was requested.
    pub fn in_flight(&self) -> impl Iterator<Item = (&'static str, &'static str, i64)> + '_ {
        let was_asked = |requests: &Requests| {
            requests.in_flight.get() > 0
                || requests.answered.iter().any(|durations| durations.sample_count() > 0)
        };
        self.by_route_and_method()
            .filter(move |(_, _, requests)| was_asked(requests))
            .map(|(route, method, requests)| (route, method, requests.in_flight.get()))
    }

    fn by_route_and_method(&self) -> impl Iterator<Item = (&'static str, &'static str, &Requests)> {
        let of_routes = self.routes.iter().copied().zip(&self.requests);
        of_routes.flat_map(|(route, of_route)| {
            METHODS.into_iter().zip(of_route).map(move |(method, requests)| (route, method, requests))
        })
    }

    /// Returns how often each action was authorized, by outcome.
    pub fn authorizations(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> + '_ {
        let of_actions = ACTIONS.into_iter().zip(&self.authorizations);
        let all = of_actions.flat_map(|(action, of_action)| {
            OUTCOMES.into_iter().zip(of_action).map(move |(outcome, times)| (action, outcome, times.get()))
        });
        all.filter(|(_, _, times)| *times > 0)
    }
}

/// The position of the metrics of one route and method.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestSeries {
    route: usize,
    method: usize,
}

fn method_index(method: &Method) -> usize {
    METHODS.iter().position(|name| *name == method.as_str()).unwrap_or(METHODS.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_counted_under_the_name_of_its_route_wherever_that_stands() {
        let metrics = Metrics::of(["/collections"].into_iter());
        let elsewhere: &'static str = String::from("/collections").leak();
        metrics.answered(metrics.begin(elsewhere, &Method::GET), StatusCode::OK, Duration::ZERO);
        let counted: Vec<_> = metrics.requests().map(|of| of.route).collect();
        assert_eq!(counted, ["/collections"]);
    }
}
