//! The admin listener for monitoring: metrics and health.
//!
//! It answers `/metrics`, `/livez` and `/readyz` without authentication, to every client that can reach the address.
//! The guarantees for answers of the API do not apply here.

use std::convert::Infallible;
use std::sync::Arc;

use hyper::Request;
use hyper::body::Incoming;
use warp::http::header::ACCEPT;
use warp::http::{Method, StatusCode};
use warp::reply::Response;

use crate::http::jsonapi::error::ApiError;
use crate::http::reply::Reply;
use crate::http::request::call::Call;
use crate::http::request::head::Head;
use crate::http::request::id::RequestId;
use crate::http::routes::{health, table};
use crate::http::server::{Answers, ClientConnection};
use crate::http::{Routes, Shared};
use crate::telemetry::metrics::{Exposition, Format};

/// The path of the metrics.
pub const METRICS: &str = "/metrics";

/// The admin listener's routes.
#[derive(Debug, Clone)]
pub struct Admin {
    shared: Arc<Shared>,
    exposition: Exposition,
}

impl Admin {
    /// Creates the admin listener of the service with these routes.
    #[must_use]
    pub fn new(routes: &Routes, exposition: Exposition) -> Self {
        Self { shared: Arc::clone(&routes.shared), exposition }
    }

    async fn reply(&self, call: &Call<'_>) -> Result<Reply, ApiError> {
        let is_known = [METRICS, table::LIVE, table::READY].contains(&call.path());
        match *call.method() {
            _ if !is_known => Err(ApiError::no_such_path(call.path())),
            Method::GET | Method::HEAD if call.path() == METRICS => self.metrics(call).await,
            Method::GET | Method::HEAD if call.path() == table::LIVE => Ok(health::live()),
            Method::GET | Method::HEAD => health::ready(call, true),
            _ => Err(ApiError::method_not_allowed("GET, HEAD")),
        }
    }

    /// Renders the metrics on a blocking thread, because inspecting the repository may take a moment.
    async fn metrics(&self, call: &Call<'_>) -> Result<Reply, ApiError> {
        let accept = call.headers().get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let format = Format::wanted(&accept.collect::<Vec<_>>().join(","));
        let exposition = self.exposition.clone();
        let text = tokio::task::spawn_blocking(move || exposition.text(format)).await;
        let text = text.map_err(|_| ApiError::internal())?;
        Ok(Reply::typed(StatusCode::OK, format.media_type(), text.into()))
    }
}

impl Answers for Admin {
    fn answer(
        &self,
        request: Request<Incoming>,
        connection: Arc<ClientConnection>,
    ) -> impl Future<Output = Result<Response, Infallible>> + Send + use<> {
        let (head, _) = Head::split_request(request, connection);
        let this = self.clone();
        async move {
            let Shared { context, common, budgets, .. } = &*this.shared;
            let id = RequestId::of(&head.headers, context.clock);
            let call = Call::new(context, budgets, Arc::new(head), id);
            let reply = this.reply(&call).await;
            let reply = reply.unwrap_or_else(|error| Reply::failure(&error, &context.settings.base_path));
            Ok(call.finish(reply, common))
        }
    }
}
