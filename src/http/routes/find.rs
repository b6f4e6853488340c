//! Finds the route of a request by its path.

use warp::http::Method;

use crate::domain::Key;
use crate::http::authorize::Actions;
use crate::http::context::{Context, Guard};
use crate::http::jsonapi::error::ApiError;
use crate::http::request::body::Body;
use crate::http::request::call::Call;
use crate::http::routes::path::{EventId, decode_segments, decoded};
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
fn lookup(path: &str, context: &Context) -> Option<RouteMatch> {
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

/// 404 for a path. A malformed key is no path, but the error is that of a missing collection.
fn not_found(path: &str, context: &Context) -> ApiError {
    let below = path.strip_prefix(context.settings.base_path.as_str()).unwrap_or_default();
    let key = below.strip_prefix("/collections/").filter(|key| !key.is_empty() && !key.contains('/'));
    match key.and_then(decoded) {
        Some(key) => ApiError::no_such_collection(&key),
        None => ApiError::no_such_path(path),
    }
}
