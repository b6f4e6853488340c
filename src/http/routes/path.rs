//! From the path of a request to its route.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use uuid::Uuid;
use warp::http::Method;

use crate::domain::Key;
use crate::http::authorize::Actions;
use crate::http::context::{Context, Guard};
use crate::http::jsonapi::error::{ApiError, Code};
use crate::http::request::body::Body;
use crate::http::request::call::Call;
use crate::http::routes::table::{Answering, Operation, ROUTES, Route, Stands, Takes};
use crate::telemetry::Limit;

/// A route, and what a path says where the route varies.
pub(crate) struct Found {
    pub(crate) route: &'static Route,
    pub(crate) target: Target,
}

/// The operations of a route, with the parameter that they take.
pub(crate) enum Target {
    Fixed(&'static [Operation<()>]),
    OfKey(&'static [Operation<Key>], Key),
    OfEvent(&'static [Operation<EventId>], EventId),
}

impl Target {
    /// Begins to answer a method, if the path takes it; tells by which actions it lets a request in.
    pub(crate) fn answering<'a>(
        self,
        method: &Method,
        call: &'a Call<'a>,
        body: &'a mut Body,
    ) -> Option<(Option<Actions>, Answering<'a>)> {
        fn begin<'a, P>(
            operations: &'static [Operation<P>],
            method: &Method,
            (call, parameter, body): (&'a Call<'a>, P, &'a mut Body),
        ) -> Option<(Option<Actions>, Answering<'a>)> {
            let operation = operations.iter().find(|operation| operation.method == *method)?;
            Some((operation.actions, (operation.handler)(call, parameter, body)))
        }
        match self {
            Self::Fixed(operations) => begin(operations, method, (call, (), body)),
            Self::OfKey(operations, key) => begin(operations, method, (call, key, body)),
            Self::OfEvent(operations, id) => begin(operations, method, (call, id, body)),
        }
    }
}

/// The id of an event as a path names it; most texts are none.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EventId(String);

impl EventId {
    /// The event that is meant; an id is written in one way only.
    pub(crate) fn uuid(&self) -> Option<Uuid> {
        Uuid::try_parse(&self.0).ok().filter(|id| id.to_string() == self.0)
    }

    /// There is no such event.
    pub(crate) fn not_found(&self) -> ApiError {
        ApiError::new(Code::NOT_FOUND, format!("Event '{}' not found.", self.0))
    }
}

/// Finds the route of a request.
///
/// # Errors
///
/// 414 for a path and query that are too long, 404 for a path that leads nowhere.
pub(crate) fn find(call: &Call<'_>) -> Result<Found, ApiError> {
    let (path, context) = (call.path(), call.context);
    let bytes_max = context.limits.uri_bytes_max;
    if path.len() + call.raw_query().len() > bytes_max {
        let detail = format!("Path and query have at most {bytes_max} bytes together.");
        return Err(ApiError::new(Code::URI_TOO_LONG, detail).reaching(Limit::UriBytes));
    }
    lookup(path, context).ok_or_else(|| not_found(path, context))
}

/// The route of a path, if it leads anywhere.
pub(crate) fn lookup(path: &str, context: &Context) -> Option<Found> {
    let below = path.strip_prefix(context.base_path.as_str());
    ROUTES.iter().find_map(|route| {
        let place = match route.stands {
            Stands::Below => below,
            Stands::Anywhere if path == route.path => Some(path),
            Stands::Anywhere => below,
            Stands::WithAuthorizer => below.filter(|_| matches!(context.guard, Guard::With(_))),
        };
        Some(Found { route, target: target(&route.takes, captured(route.path, place?)?)? })
    })
}

/// The operations, if the segment can be what they take.
fn target(takes: &'static Takes, segment: &str) -> Option<Target> {
    Some(match takes {
        Takes::Fixed(operations) => Target::Fixed(operations),
        Takes::OfKey(operations) => {
            // A key has no percent sign, so most need not be decoded.
            let key = Key::parse(segment).ok().or_else(|| Key::parse(&decoded(segment)?).ok())?;
            Target::OfKey(operations, key)
        }
        Takes::OfEvent(operations) => {
            let id = decoded(segment).filter(|id| !id.is_empty())?;
            Target::OfEvent(operations, EventId(id.into_owned()))
        }
    })
}

/// The segment of a path where the route's varies, which is in one place at most; empty if nothing does, and
/// `None` if it is another path.
fn captured<'p>(route: &str, path: &'p str) -> Option<&'p str> {
    let mut captured = "";
    let (mut route, mut path) = (Some(route), Some(path));
    while let (Some(wanted), Some(found)) = (route, path) {
        let ((wanted, wanted_below), (found, found_below)) = (step(wanted), step(found));
        if wanted.starts_with('{') {
            captured = found;
        } else if wanted != found && decoded(found)? != wanted {
            return None;
        }
        (route, path) = (wanted_below, found_below);
    }
    (route.is_none() && path.is_none()).then_some(captured)
}

/// The first segment of a path, and what follows it. (Looking at a few bytes in turn costs less than a search
/// that is made for long texts.)
fn step(path: &str) -> (&str, Option<&str>) {
    let slash = path.bytes().position(|byte| byte == b'/');
    slash.map_or((path, None), |at| (&path[..at], Some(&path[at + 1..])))
}

/// Decodes one segment, once; a `/` in it is a part of the segment and not a step.
fn decoded(segment: &str) -> Option<Cow<'_, str>> {
    if segment.bytes().any(|byte| byte == b'%') {
        percent_decode_str(segment).decode_utf8().ok()
    } else {
        Some(Cow::Borrowed(segment))
    }
}

/// A malformed key is no path, but whoever asked for a collection is told about a collection.
fn not_found(path: &str, context: &Context) -> ApiError {
    let below = path.strip_prefix(context.base_path.as_str()).unwrap_or_default();
    let key = below.strip_prefix("/collections/").filter(|key| !key.is_empty() && !key.contains('/'));
    match key.and_then(decoded) {
        Some(key) => ApiError::no_such_collection(&key),
        None => ApiError::no_such_path(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_its_route_segment_by_segment() {
        assert_eq!(captured("/collections", "/collections"), Some(""));
        assert_eq!(captured("/collections", "/%63ollections"), Some(""));
        assert_eq!(captured("/collections/{key}/events", "/collections/a%2fb/events"), Some("a%2fb"));
        for other in ["", "/", "/collections/", "/collections/a", "collections", "//collections"] {
            assert_eq!(captured("/collections", other), None, "{other}");
        }
        assert_eq!(captured("/collections/{key}", "/collections"), None);
    }
}
