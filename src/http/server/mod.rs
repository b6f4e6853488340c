//! The server: sockets in, the routes' answers out.
//!
//! ```text
//! accept ──▶ connections_max? ──▶ Wire (JSON:API errors) ──▶ hyper, HTTP/1.1 ──▶ routes
//!    │               └─ 503, close
//!    └─ out of file handles: pause, try again
//! ```
//!
//! Guarantees:
//!
//! * Every answer is a JSON:API document, even where hyper itself refuses a request (400 for a malformed head, 414
//!   for a long URI, 431 for large header fields) and where there is no room for another connection (503).
//! * No client holds a connection for nothing: a head that does not arrive, an idle connection and an answer that
//!   the client does not read all have time limits.
//! * No failure to accept ends the loop or makes it spin.
//! * At a shutdown nothing new is accepted, idle connections are closed, and requests under way are answered,
//!   including those sent on a connection that was just opened.
//!
//! Bodies of requests and their limits belong to the routes, not here.

mod connection;
mod counts;
mod listener;
mod pace;
mod refusal;
mod tls;
mod wire;

use std::convert::Infallible;
use std::future::ready;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{HOST, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use warp::reply::Response;

use crate::config::{Limits, ListenAddress};
use crate::http::header::is_host;
pub use crate::http::server::connection::ClientConnection;
pub(crate) use crate::http::server::connection::network;
use crate::http::server::counts::Counts;
use crate::http::server::listener::{Accepted, Listener};
pub use crate::http::server::listener::{Bound, Socket};
use crate::http::server::refusal::Refusal;
pub use crate::http::server::tls::{Tls, TlsError};
use crate::http::server::wire::{Stream, Wire};
use crate::shutdown::Shutdown;
use crate::telemetry::{Limit, LimitCounters};

/// Maximum connections that receive a 503 at one time, further limited to half the number of connections served.
/// Any more are closed unanswered, so that refusing costs less than serving, in open files too.
const REFUSALS_MAX: usize = 64;

/// Pause before the next attempt after accepting a connection has failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long a new connection may still send its first request after the shutdown begins.
const FIRST_REQUEST_WAIT: Duration = Duration::from_millis(100);

/// Room for the request line and the separators of header fields, which the limits do not count.
const HEAD_SPARE_BYTES: usize = 1_024;

/// A bound socket that does not accept connections yet.
#[derive(Debug)]
pub struct Server {
    listener: Listener,
    bound: Bound,
    tls: Option<Arc<Tls>>,
}

/// Why the service can't listen.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {listen}{}", hint(source))]
pub struct BindError {
    /// The requested address.
    pub listen: ListenAddress,
    /// The operating system's error.
    pub source: io::Error,
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => ", another process does already",
        io::ErrorKind::AddrNotAvailable => ", this machine has no such address",
        io::ErrorKind::PermissionDenied => ", that needs a privilege (as ports below 1024 do)",
        io::ErrorKind::AlreadyExists => ", something else stands there",
        _ => "",
    }
}

impl Server {
    /// Binds the address. Connections queue up from now on.
    ///
    /// # Errors
    ///
    /// Fails if the address cannot be bound. The error names the address and the reason.
    pub async fn bind(listen: &ListenAddress) -> Result<Self, BindError> {
        let listener = Listener::bind(listen).await;
        Self::new(listener).map_err(|source| BindError { listen: listen.clone(), source })
    }

    /// Uses an inherited socket in place of an address.
    ///
    /// # Errors
    ///
    /// Fails if the socket cannot be listened on.
    pub fn on(socket: Socket, listen: &ListenAddress) -> Result<Self, BindError> {
        let listener = Listener::inherited(socket);
        Self::new(listener).map_err(|source| BindError { listen: listen.clone(), source })
    }

    fn new(listener: io::Result<Listener>) -> io::Result<Self> {
        let listener = listener?;
        let bound = listener.bound()?;
        Ok(Self { listener, bound, tls: None })
    }

    /// Enables TLS for TCP connections. A Unix socket does without, because its file's mode protects it.
    #[must_use]
    pub fn with_tls(self, tls: Option<Arc<Tls>>) -> Self {
        let bound = match (&tls, self.bound) {
            (Some(_), Bound::Tcp(address)) => Bound::Tls(address),
            (_, bound) => bound,
        };
        Self { bound, tls, ..self }
    }

    /// Returns the address or path that the server listens on.
    #[must_use]
    pub const fn bound(&self) -> &Bound {
        &self.bound
    }

    /// Serves connections until the shutdown begins. Open connections continue as tasks of the shutdown.
    pub async fn serve<A: Answers>(
        self,
        answers: A,
        limits: &Limits,
        reached: &LimitCounters,
        shutdown: &Shutdown,
    ) {
        let tls = self.tls.clone();
        let connections = Connections::new(answers, limits.clone(), reached.clone(), shutdown.clone());
        let connections = Arc::new(connections);
        loop {
            let accepted = tokio::select! {
                biased;
                () = shutdown.begun() => return,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok(Accepted::Tcp(stream, remote)) => connections.admit_tcp(stream, remote, tls.as_ref()),
                Ok(Accepted::Unix(stream)) => connections.admit(ready(Some(stream)), None),
                Err(error) if is_about_one_connection(&error) => {}
                Err(error) => {
                    // Out of file handles or memory. Open connections will free some.
                    tracing::warn!(%error, "cannot accept connections, trying again");
                    tokio::select! {
                        () = shutdown.begun() => return,
                        () = tokio::time::sleep(ACCEPT_PAUSE) => {}
                    }
                }
            }
        }
    }
}

/// Reports whether the client was gone before it was accepted (accept(2), "Error handling").
fn is_about_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
    )
}

/// Header fields of an answer.
pub type HeaderFields = Vec<(HeaderName, HeaderValue)>;

/// Answers the requests that arrive on connections.
pub trait Answers: Clone + Send + Sync + 'static {
    /// Answers a request, which arrived on this connection.
    fn answer(
        &self,
        request: Request<Incoming>,
        connection: Arc<ClientConnection>,
    ) -> impl Future<Output = Result<Response, Infallible>> + Send + use<Self>;

    /// Records a request that the server itself has refused with a body of this many bytes, and returns the header
    /// fields that all answers have, its id among them. `_head` is `None` if the head could not be read.
    fn refused(
        &self,
        _head: Option<(&Method, &HeaderMap)>,
        _status: StatusCode,
        _bytes: usize,
    ) -> HeaderFields {
        HeaderFields::new()
    }
}

/// State that all connections share.
struct Connections<A> {
    answers: A,
    http: http1::Builder,
    slots: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
    limits: Limits,
    counts: Counts,
    shutdown: Shutdown,
}

impl<A: Answers> Connections<A> {
    fn new(answers: A, limits: Limits, reached: LimitCounters, shutdown: Shutdown) -> Self {
        let counts = Counts::new(reached, &answers);
        let connections_max = limits.requests.connections_max;
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(Duration::from_millis(limits.requests.header_wait_ms_max))
            .max_header_size(
                limits.requests.uri_bytes_max + limits.requests.header_bytes_max + HEAD_SPARE_BYTES,
            )
            // A client that shuts down its sending half is still answered.
            .half_close(true);
        Self {
            answers,
            http,
            slots: Arc::new(Semaphore::new(connections_max)),
            refusals: Arc::new(Semaphore::new((connections_max / 2).clamp(1, REFUSALS_MAX))),
            limits,
            counts,
            shutdown,
        }
    }

    fn admit_tcp(self: &Arc<Self>, stream: TcpStream, remote: SocketAddr, tls: Option<&Arc<Tls>>) {
        // Answers are small and written whole, so Nagle's algorithm would only delay them.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY");
        }
        let Some(tls) = tls else { return self.admit(ready(Some(stream)), Some(remote)) };
        let (tls, wait_max) =
            (Arc::clone(tls), Duration::from_millis(self.limits.requests.header_wait_ms_max));
        self.admit(async move { tls.accept(stream, wait_max).await }, Some(remote));
    }

    /// Serves a connection if there is room, after `opened` has completed.
    fn admit<S: Stream>(
        self: &Arc<Self>,
        opened: impl Future<Output = Option<S>> + Send + 'static,
        remote: Option<SocketAddr>,
    ) {
        let connection = Arc::new(ClientConnection::of(remote));
        let wire = {
            let (this, connection) = (Arc::clone(self), Arc::clone(&connection));
            async move {
                let (shutdown, counts) = (this.shutdown.clone(), this.counts.clone());
                opened.await.map(|stream| Wire::new(stream, connection, &this.limits, shutdown, counts))
            }
        };
        if let Ok(permit) = Arc::clone(&self.slots).try_acquire_owned() {
            let this = Arc::clone(self);
            self.shutdown.spawn(async move {
                if let Some(wire) = wire.await {
                    this.serve(wire, connection).await;
                }
                drop(permit);
            });
        } else if let Ok(permit) = Arc::clone(&self.refusals).try_acquire_owned() {
            tracing::warn!(
                connections_max = self.limits.requests.connections_max,
                "no room for one more connection"
            );
            self.shutdown.spawn(async move {
                if let Some(wire) = wire.await {
                    wire.refuse(Refusal::NO_ROOM).await;
                }
                drop(permit);
            });
        }
    }

    fn serve<S: Stream>(
        &self,
        wire: Wire<S>,
        connection: Arc<ClientConnection>,
    ) -> impl Future<Output = ()> + Send + use<A, S> {
        let answers = self.answers.clone();
        let (uri_bytes_max, header_bytes_max) =
            (self.limits.requests.uri_bytes_max, self.limits.requests.header_bytes_max);
        let counts = self.counts.clone();
        let has_asked = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&has_asked);
        let service = service_fn(move |request: Request<Incoming>| {
            asked.store(true, Ordering::Relaxed);
            let answer = match refusal_of(&request, uri_bytes_max, header_bytes_max) {
                Some(refusal) => {
                    let fields = counts.refused(Some((request.method(), request.headers())), &refusal);
                    Err(refusal.into_response(fields))
                }
                None => Ok(answers.answer(request, Arc::clone(&connection))),
            };
            async move {
                match answer {
                    Ok(answer) => answer.await,
                    Err(refused) => Ok(refused),
                }
            }
        });
        let served = self.http.serve_connection(TokioIo::new(wire), service);
        let (shutdown, counts) = (self.shutdown.clone(), self.counts.clone());
        async move {
            let mut served = pin!(served);
            let ended = tokio::select! {
                biased;
                ended = served.as_mut() => ended,
                () = wait_for_end(&shutdown, &has_asked) => {
                    served.as_mut().graceful_shutdown();
                    served.await
                }
            };
            if let Err(error) = ended {
                if error.is_timeout() {
                    counts.count_limit(Limit::HeaderWait);
                }
                tracing::debug!(%error, "a connection ended early");
            }
        }
    }
}

/// Waits until a connection has to end. A connection without a request gets extra time, because what its client
/// sent while connecting may not have been read when the shutdown begins.
async fn wait_for_end(shutdown: &Shutdown, has_asked: &AtomicBool) {
    shutdown.begun().await;
    if !has_asked.load(Ordering::Relaxed) {
        tokio::time::sleep(FIRST_REQUEST_WAIT).await;
    }
}

/// Refuses a request that hyper accepts. Hyper's limits are set wider, so that most refusals are made here.
fn refusal_of<B>(request: &Request<B>, uri_bytes_max: usize, header_bytes_max: usize) -> Option<Refusal> {
    let Some(target) = request.uri().path_and_query() else {
        // Only a host and a port, which is the target form of `CONNECT` and of no other method.
        let is_tunnel = *request.method() == Method::CONNECT;
        return Some(if is_tunnel { Refusal::NO_PROXY } else { Refusal::MALFORMED });
    };
    if target.as_str().len() > uri_bytes_max {
        return Some(Refusal::URI_TOO_LONG);
    }
    let (mut header_bytes, mut hosts, mut host) = (0, 0, None);
    let (mut codings, mut is_chunked) = (0, true);
    for (name, value) in request.headers() {
        header_bytes += name.as_str().len() + value.len();
        if name == HOST {
            (hosts, host) = (hosts + 1, Some(value));
        }
        if name == TRANSFER_ENCODING {
            codings += 1;
            is_chunked = value.as_bytes().eq_ignore_ascii_case(b"chunked");
        }
    }
    if header_bytes > header_bytes_max {
        return Some(Refusal::HEADERS_TOO_LARGE);
    }
    if codings > 1 || !is_chunked {
        return Some(Refusal::TRANSFER_CODING);
    }
    // RFC 9112 section 3.2. An empty `Host` is for a target without a host.
    let is_right = match host {
        Some(host) => hosts == 1 && (host.is_empty() || host.to_str().is_ok_and(is_host)),
        None => request.version() != Version::HTTP_11,
    };
    (!is_right).then_some(Refusal::HOST)
}

#[cfg(test)]
mod tests;
