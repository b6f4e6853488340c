//! The table of routes: a path, its methods, the actions to authorize, and the handlers.
//!
//! A new route is one row here and its handler. These rows determine where a path leads, the value of `Allow`,
//! what has to be allowed before an answer is sent, and what the OpenAPI document must list.

use std::pin::Pin;

use warp::http::Method;

use crate::domain::Key;
use crate::http::authorize::{Action, Actions};
use crate::http::jsonapi::error::ApiError;
use crate::http::metrics::Metrics;
use crate::http::reply::Reply;
use crate::http::request::body::Body;
use crate::http::request::call::Call;
use crate::http::routes::path::{ALL_COLLECTIONS, EventId, ONE_COLLECTION, Template};
use crate::http::routes::{
    collections, events, health, openapi, operations, past, problems, remote, schema, undo, webhooks,
    with_deletion,
};

/// Empty metrics of all routes.
impl Default for Metrics {
    fn default() -> Self {
        Self::of(ROUTES.iter().map(|route| route.path.text))
    }
}

/// The liveness probe of a process supervisor.
pub(crate) const LIVE: &str = "/livez";

/// The readiness probe of a load balancer.
pub(crate) const READY: &str = "/readyz";

/// The prefix of the remote's paths.
pub(crate) const REMOTE: &str = "/remote/";

/// The one path of the remote that a follower refuses, because it pushes.
pub(crate) const REMOTE_RESTORE: &str = "/remote/restore";

pub(crate) struct Route {
    /// The path below the base path.
    pub(crate) path: Template,
    pub(crate) mount: Mount,
    pub(crate) operations: Operations,
}

/// Where a path is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mount {
    /// Below the base path.
    Below,
    /// Below the base path and at the root, where process supervisors look for it.
    Anywhere,
    /// Below the base path, only in the variant with an authorizer.
    WithAuthorizer,
}

/// The operations of a path, by the parameter in it.
pub(crate) enum Operations {
    /// No parameter.
    Fixed(&'static [Operation<()>]),
    /// The key of a collection.
    OfKey(&'static [Operation<Key>]),
    /// The id of an event.
    OfEvent(&'static [Operation<EventId>]),
}

/// A method of a path.
pub(crate) struct Operation<P> {
    /// The method. `GET` includes `HEAD`, and every path takes `OPTIONS`.
    pub(crate) method: Method,
    /// Selects the actions that the request may be authorized by. `None` if everyone may send it.
    pub(crate) actions: Option<Actions>,
    pub(crate) handler: Handler<P>,
}

/// Creates the answer. The future is boxed: otherwise the future of a request would have room for all handlers at
/// once, and moving it would cost more than most reads.
pub(crate) type Handler<P> = for<'a> fn(&'a Call<'a>, P, &'a mut Body) -> Answering<'a>;

pub(crate) type Answering<'a> = Pin<Box<dyn Future<Output = Result<Reply, ApiError>> + Send + 'a>>;

/// An operation that is authorized by one of these actions first.
macro_rules! on {
    ($method:ident, $($action:ident)|+, $handler:expr) => {
        Operation {
            method: Method::$method,
            actions: Some(|action| matches!(action, $(Action::$action { .. })|+)),
            handler: $handler,
        }
    };
}

/// An operation without authorization.
macro_rules! open {
    ($method:ident, $handler:expr) => {
        Operation { method: Method::$method, actions: None, handler: $handler }
    };
}

const fn below(path: &'static str, operations: Operations) -> Route {
    at(Template::new(path), operations)
}

const fn at(path: Template, operations: Operations) -> Route {
    Route { path, mount: Mount::Below, operations }
}

/// All routes, the most frequently requested first.
pub(crate) static ROUTES: &[Route] = &[
    at(
        ALL_COLLECTIONS,
        Operations::Fixed(&[
            on!(GET, List | ListPast | Follow, |call, (), _| Box::pin(collections::list(call))),
            on!(POST, Create, |call, (), body| Box::pin(collections::create(call, body))),
        ]),
    ),
    at(
        ONE_COLLECTION,
        Operations::OfKey(&[
            on!(GET, Read | ReadPast | Follow, |call, key, _| Box::pin(async move {
                with_deletion(call, &key, collections::read(call, &key).await).await
            })),
            on!(PATCH, Update, |call, key, body| Box::pin(async move {
                with_deletion(call, &key, collections::update(call, key.clone(), body).await).await
            })),
            on!(DELETE, Delete, |call, key, body| Box::pin(async move {
                with_deletion(call, &key, collections::delete(call, key.clone(), body).await).await
            })),
        ]),
    ),
    below(
        "/collections/{key}/events",
        Operations::OfKey(&[on!(GET, ListEvents | StreamEvents, |call, key, _| {
            Box::pin(events::of_collection(call, key))
        })]),
    ),
    below(
        "/collections/{key}/blame",
        Operations::OfKey(&[on!(GET, ReadBlame, |call, key, _| Box::pin(async move {
            with_deletion(call, &key, past::blame(call, key.clone()).await).await
        }))]),
    ),
    below(
        "/collections/{key}/restore",
        Operations::OfKey(&[on!(POST, Restore, |call, key, body| Box::pin(undo::restore(call, key, body)))]),
    ),
    below(
        "/operations",
        Operations::Fixed(&[on!(POST, Create | Update | Delete, |call, (), body| {
            Box::pin(operations::operate(call, body))
        })]),
    ),
    below(
        "/events",
        Operations::Fixed(&[on!(GET, ListEvents | StreamEvents, |call, (), _| Box::pin(events::list(call)))]),
    ),
    below(
        "/events/{id}",
        Operations::OfEvent(&[on!(GET, ReadEvent, |call, id, _| Box::pin(events::read(call, id)))]),
    ),
    below(
        "/events/{id}/undo",
        Operations::OfEvent(&[on!(POST, UndoEvent, |call, id, body| Box::pin(undo::undo(call, id, body)))]),
    ),
    below(
        "/diff",
        Operations::Fixed(&[on!(GET, ReadDifference, |call, (), _| Box::pin(past::difference(call)))]),
    ),
    below(
        "/sync-token",
        Operations::Fixed(&[on!(GET, ReadSyncToken, |call, (), _| Box::pin(past::sync_token(call)))]),
    ),
    below(
        "/changes",
        Operations::Fixed(&[on!(GET, ReadChanges, |call, (), _| Box::pin(past::changes(call)))]),
    ),
    below(
        "/capabilities",
        Operations::Fixed(&[on!(GET, ReadCapabilities, |call, (), _| Box::pin(past::capabilities(call)))]),
    ),
    below(
        "/collection.schema.json",
        Operations::Fixed(&[on!(GET, ReadCapabilities, |call, (), _| Box::pin(schema::read(call)))]),
    ),
    below(
        "/problems",
        Operations::Fixed(&[on!(GET, ReadProblems, |call, (), _| Box::pin(problems::list(call)))]),
    ),
    // A signed notice needs no authorization.
    below(
        "/remote/notices",
        Operations::Fixed(&[open!(POST, |call, (), body| Box::pin(remote::notice(call, body)))]),
    ),
    below("/webhooks", Operations::Fixed(&[on!(GET, Operate, |call, (), _| Box::pin(webhooks::list(call)))])),
    below(
        "/remote/accept",
        Operations::Fixed(&[on!(POST, Operate, |call, (), _| Box::pin(remote::accept(call)))]),
    ),
    below(
        REMOTE_RESTORE,
        Operations::Fixed(&[on!(POST, Operate, |call, (), _| Box::pin(remote::restore(call)))]),
    ),
    Route {
        path: Template::new("/openapi.json"),
        mount: Mount::WithAuthorizer,
        operations: Operations::Fixed(&[on!(GET, ReadOpenApi, |call, (), _| Box::pin(openapi::json(call)))]),
    },
    Route {
        path: Template::new("/openapi.yaml"),
        mount: Mount::WithAuthorizer,
        operations: Operations::Fixed(&[on!(GET, ReadOpenApi, |call, (), _| Box::pin(openapi::yaml(call)))]),
    },
    Route {
        path: Template::new(LIVE),
        mount: Mount::Anywhere,
        operations: Operations::Fixed(&[open!(GET, |_, (), _| Box::pin(async { Ok(health::live()) }))]),
    },
    Route {
        path: Template::new(READY),
        mount: Mount::Anywhere,
        operations: Operations::Fixed(&[open!(GET, |call, (), _| Box::pin(async {
            health::ready(call, false)
        }))]),
    },
];

impl Route {
    /// The methods of the path, except `HEAD` and `OPTIONS`.
    pub(crate) fn methods(&self) -> Vec<&Method> {
        fn of<P>(operations: &[Operation<P>]) -> Vec<&Method> {
            operations.iter().map(|operation| &operation.method).collect()
        }
        match &self.operations {
            Operations::Fixed(operations) => of(operations),
            Operations::OfKey(operations) => of(operations),
            Operations::OfEvent(operations) => of(operations),
        }
    }
}

/// Returns the value of `Allow` for a path with these methods.
pub(crate) fn allow(methods: &[&Method]) -> String {
    let mut allow = String::new();
    for method in [&Method::GET, &Method::POST, &Method::PATCH, &Method::DELETE] {
        if methods.contains(&method) {
            allow.push_str(method.as_str());
            allow.push_str(if *method == Method::GET { ", HEAD, " } else { ", " });
        }
    }
    allow + "OPTIONS"
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_openapi_document_lists_just_what_the_table_has() {
        let document = openapi::document();
        let paths = document["paths"].as_object().unwrap();
        let documented: BTreeSet<_> = paths
            .iter()
            .flat_map(|(path, item)| item.as_object().unwrap().keys().map(move |verb| (path.as_str(), verb)))
            .filter(|(_, verb)| ["get", "put", "post", "patch", "delete"].contains(&verb.as_str()))
            .map(|(path, verb)| (path, verb.to_uppercase()))
            .collect();
        let there = ROUTES.iter().flat_map(|route| {
            route.methods().into_iter().map(move |method| (route.path.text, method.as_str().to_owned()))
        });
        assert_eq!(there.collect::<BTreeSet<_>>(), documented);
    }

    #[test]
    fn no_path_stands_twice_in_the_table() {
        let paths: BTreeSet<_> = ROUTES.iter().map(|route| route.path.text).collect();
        assert_eq!(paths.len(), ROUTES.len());
    }

    #[test]
    fn allow_lists_the_methods_in_one_order() {
        assert_eq!(allow(&[&Method::DELETE, &Method::GET]), "GET, HEAD, DELETE, OPTIONS");
        assert_eq!(allow(&[&Method::POST]), "POST, OPTIONS");
    }
}
