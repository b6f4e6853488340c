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
use crate::http::routes::table::{Answering, Mount, Operation, Operations, ROUTES, Route};

/// A route, and what a path says where the route varies.
pub(crate) struct RouteMatch {
    pub(crate) route: &'static Route,
    pub(crate) target: RouteTarget,
}

/// The operations of a route, with the parameter that they take.
pub(crate) enum RouteTarget {
    Fixed(&'static [Operation<()>]),
    OfKey(&'static [Operation<Key>], Key),
    OfEvent(&'static [Operation<EventId>], EventId),
}

impl RouteTarget {
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
/// 404 for a path that leads nowhere.
pub(crate) fn find(call: &Call<'_>) -> Result<RouteMatch, ApiError> {
    let (path, context) = (call.path(), call.context);
    lookup(path, context).ok_or_else(|| not_found(path, context))
}

/// The route of a path, if it leads anywhere.
pub(crate) fn lookup(path: &str, context: &Context) -> Option<RouteMatch> {
    let path = &*plain(path);
    let below = path.strip_prefix(context.settings.base_path.as_str());
    ROUTES.iter().find_map(|route| {
        let place = match route.mount {
            Mount::Below => below,
            Mount::Anywhere if path == route.path.text => Some(path),
            Mount::Anywhere => below,
            Mount::WithAuthorizer => below.filter(|_| matches!(context.access.guard, Guard::With(_))),
        };
        Some(RouteMatch { route, target: target(&route.operations, route.path.captured(place?)?)? })
    })
}

/// The path with its segments decoded, save those whose decoded text would read as another path or be decoded
/// again: in one segment `%2F` is a letter and not a step.
fn plain(path: &str) -> Cow<'_, str> {
    if !path.bytes().any(|byte| byte == b'%') {
        return Cow::Borrowed(path);
    }
    let plain = |segment| decoded(segment).filter(|text| !text.contains(['/', '%']));
    let segments: Vec<_> = path.split('/').map(|it| plain(it).unwrap_or(Cow::Borrowed(it))).collect();
    Cow::Owned(segments.join("/"))
}

/// The path of a route: a text in which one segment at most varies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Template {
    /// As in the OpenAPI document (`/collections/{key}`). It names the route in metrics too, since there are only
    /// so many.
    pub(crate) text: &'static str,
    /// What stands before the segment that varies; the whole path, if none does.
    before: &'static str,
    /// What follows it.
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

    /// The segment of a path where this one varies; empty if it does not, and `None` if it is another path.
    fn captured<'p>(&self, path: &'p str) -> Option<&'p str> {
        let below = path.strip_prefix(self.before)?;
        match self.after {
            None => below.is_empty().then_some(""),
            // (Looking at a few bytes in turn costs less than a search that is made for long texts.)
            Some(after) => below.strip_suffix(after).filter(|it| !it.bytes().any(|byte| byte == b'/')),
        }
    }
}

/// The operations, if the segment can be what they take.
fn target(operations: &'static Operations, segment: &str) -> Option<RouteTarget> {
    Some(match operations {
        Operations::Fixed(operations) => RouteTarget::Fixed(operations),
        // A key has neither a slash nor a percent sign: what was left encoded is none.
        Operations::OfKey(operations) => RouteTarget::OfKey(operations, Key::parse(segment).ok()?),
        Operations::OfEvent(operations) => {
            let id = decoded(segment).filter(|id| !id.is_empty())?;
            RouteTarget::OfEvent(operations, EventId(id.into_owned()))
        }
    })
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
        Template::new(route).captured(&plain(path)).map(str::to_owned)
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
        assert_eq!(plain("/%61%2D/%2f/%2561/%C3%a4/%ff"), "/a-/%2f/%2561/\u{e4}/%ff");
    }
}
