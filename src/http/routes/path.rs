//! Resolves the path of a request to its route.

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
use crate::http::routes::table::{Answering, Mount, Operation, Operations, ROUTES, Route};

/// A route and the parameter in the path.
pub(crate) struct RouteMatch {
    pub(crate) route: &'static Route,
    pub(crate) target: RouteTarget,
}

/// The operations of a route, with their parameter.
pub(crate) enum RouteTarget {
    Fixed(&'static [Operation<()>]),
    OfKey(&'static [Operation<Key>], Key),
    OfEvent(&'static [Operation<EventId>], EventId),
}

impl RouteTarget {
    /// Starts to answer a method, if the path takes it. Also returns the actions by which the request may be
    /// authorized.
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

/// The id of an event as it appears in a path. It may be any text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EventId(String);

impl EventId {
    /// Returns the UUID if the id is one in its canonical form.
    pub(crate) fn uuid(&self) -> Option<Uuid> {
        Uuid::try_parse(&self.0).ok().filter(|id| id.to_string() == self.0)
    }

    pub(crate) fn not_found(&self) -> ApiError {
        ApiError::new(Code::NOT_FOUND, format!("Event '{}' not found.", self.0))
    }
}

/// Finds the route of a request.
///
/// # Errors
///
/// 404 for a path that leads nowhere.
pub(crate) fn find(call: &Call<'_>) -> Result<RouteMatch, ApiError> {
    let (path, context) = (call.path(), call.context);
    lookup(path, context).ok_or_else(|| not_found(path, context))
}

/// Returns the route of a path, if it leads anywhere.
pub(crate) fn lookup(path: &str, context: &Context) -> Option<RouteMatch> {
    let path = &*decode_segments(path);
    let below = path.strip_prefix(context.settings.base_path.as_str());
    ROUTES.iter().find_map(|route| {
        let place = match route.mount {
            Mount::Below => below,
            Mount::Anywhere if path == route.path.text => Some(path),
            Mount::Anywhere => below,
            Mount::WithAuthorizer => below.filter(|_| matches!(context.access.guard, Guard::With(_))),
        };
        Some(RouteMatch {
            route,
            target: route_target(&route.operations, route.path.match_segment(place?)?)?,
        })
    })
}

/// Decodes the segments of a path. Segments whose decoded text contains `/` or `%` stay encoded, because that text
/// would read as another path or be decoded again: `%2F` is a character of a segment, not a separator.
fn decode_segments(path: &str) -> Cow<'_, str> {
    if !path.bytes().any(|byte| byte == b'%') {
        return Cow::Borrowed(path);
    }
    let plain = |segment| decoded(segment).filter(|text| !text.contains(['/', '%']));
    let segments: Vec<_> = path.split('/').map(|it| plain(it).unwrap_or(Cow::Borrowed(it))).collect();
    Cow::Owned(segments.join("/"))
}

/// The path of a route, in which at most one segment is a parameter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Template {
    /// The path as in the OpenAPI document (`/collections/{key}`). It also labels the route in metrics, whose
    /// number of labels is thus bounded.
    pub(crate) text: &'static str,
    /// The text before the parameter, or the whole path without one.
    before: &'static str,
    /// The text after the parameter.
    after: Option<&'static str>,
}

impl Template {
    pub(crate) const fn new(text: &'static str) -> Self {
        let (mut open, bytes) = (0, text.as_bytes());
        while open < bytes.len() && bytes[open] != b'{' {
            open += 1;
        }
        let (before, varying) = text.split_at(open);
        let (mut close, bytes) = (0, varying.as_bytes());
        while close < bytes.len() && bytes[close] != b'}' {
            close += 1;
        }
        let after = if close < bytes.len() { Some(varying.split_at(close + 1).1) } else { None };
        Self { text, before, after }
    }

    /// Returns the segment at the parameter, empty without one, or `None` if the path does not match.
    fn match_segment<'p>(&self, path: &'p str) -> Option<&'p str> {
        let below = path.strip_prefix(self.before)?;
        match self.after {
            None => below.is_empty().then_some(""),
            // Checking a few bytes one by one is cheaper than a search made for long texts.
            Some(after) => below.strip_suffix(after).filter(|it| !it.bytes().any(|byte| byte == b'/')),
        }
    }
}

/// Returns the operations with their parameter, if the segment is a valid one.
fn route_target(operations: &'static Operations, segment: &str) -> Option<RouteTarget> {
    Some(match operations {
        Operations::Fixed(operations) => RouteTarget::Fixed(operations),
        // A key contains neither `/` nor `%`, so a segment that stayed encoded is not a key.
        Operations::OfKey(operations) => RouteTarget::OfKey(operations, Key::parse(segment).ok()?),
        Operations::OfEvent(operations) => {
            let id = decoded(segment).filter(|id| !id.is_empty())?;
            RouteTarget::OfEvent(operations, EventId(id.into_owned()))
        }
    })
}

/// Decodes one segment once. A `/` in it belongs to the segment.
fn decoded(segment: &str) -> Option<Cow<'_, str>> {
    if segment.bytes().any(|byte| byte == b'%') {
        percent_decode_str(segment).decode_utf8().ok()
    } else {
        Some(Cow::Borrowed(segment))
    }
}

/// 404 for a path. A malformed key is no path, but the error is that of a missing collection.
fn not_found(path: &str, context: &Context) -> ApiError {
    let below = path.strip_prefix(context.settings.base_path.as_str()).unwrap_or_default();
    let key = below.strip_prefix("/collections/").filter(|key| !key.is_empty() && !key.contains('/'));
    match key.and_then(decoded) {
        Some(key) => ApiError::no_such_collection(&key),
        None => ApiError::no_such_path(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(route: &'static str, path: &str) -> Option<String> {
        Template::new(route).match_segment(&decode_segments(path)).map(str::to_owned)
    }

    #[test]
    fn a_path_is_its_route_segment_by_segment() {
        assert_eq!(captured("/collections", "/collections").as_deref(), Some(""));
        assert_eq!(captured("/collections", "/%63ollections").as_deref(), Some(""));
        assert_eq!(
            captured("/collections/{key}/events", "/collections/a%2fb/events").as_deref(),
            Some("a%2fb")
        );
        for other in
            ["", "/", "/collections/", "/collections/a", "collections", "//collections", "/collections%"]
        {
            assert_eq!(captured("/collections", other), None, "{other}");
        }
        for other in ["/collections", "/collections/a/b", "/collections/a/events"] {
            assert_eq!(captured("/collections/{key}", other), None, "{other}");
        }
        assert_eq!(captured("/collections/{key}/events", "/collections/events"), None);
    }

    #[test]
    fn a_segment_is_decoded_once_and_stays_one() {
        assert_eq!(decode_segments("/%61%2D/%2f/%2561/%C3%a4/%ff"), "/a-/%2f/%2561/\u{e4}/%ff");
    }
}
