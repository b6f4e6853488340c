//! Assembles a service, and starts it.

use std::iter;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::config::{Limits, ListenConfig, Origin, ServeConfig, WebPages};
use crate::engine::history::{self, History};
use crate::engine::{self, Engine, Hint, Projection, Signal};
use crate::http::server::{Answers, Bound, Server, Socket, Tls};
use crate::http::{self, AccessRules, Admin, Authorizer, Clock, Context, Guard, Hosts, Routes, Telemetry};
use crate::service::options::{
    answer_options, engine_options, history_options, journal_options, watch_options,
};
use crate::service::running::Running;
use crate::service::{Service, StartError, metrics, remote, webhooks};
use crate::shutdown::Shutdown;
use crate::store::git::{GitJournal, Options as JournalOptions};
use crate::store::remote::{Link, Poller, RemoteJournal, RemoteUrl};
use crate::store::{Archive, Journal};
use crate::telemetry::{AccessLog, LimitCounters};
use crate::watch::{self, WatchedPaths};

/// Assembles a service; see [`Service::builder`].
///
/// The guard is part of the type. There is no `start` before [`authorizer`](Self::authorizer) has been called, so a
/// service without a decision about access does not compile:
///
/// ```compile_fail
/// # use collectory::{AllowAll, Service};
/// # async fn demo() {
/// Service::builder("/srv/settings").start().await;
/// # }
/// ```
///
/// An open service is possible, but has to be explicit:
///
/// ```no_run
/// # use collectory::{AllowAll, Service};
/// # async fn demo() {
/// Service::builder("/srv/settings").authorizer(AllowAll).start().await;
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a builder does nothing until it is started"]
pub struct ServiceBuilder<G> {
    config: ServeConfig,
    socket: Option<Socket>,
    access_log: Option<AccessLog>,
    give_back: fn(),
    guard: G,
}

/// No decision has been made about who may use the service.
#[derive(Debug)]
pub struct Unguarded;

/// A decision has been made about who may use the service.
#[derive(Debug)]
pub struct Guarded(Guard);

impl<G> ServiceBuilder<G> {
    /// Sets the address to listen on; `127.0.0.1:8080` by default. Port 0 takes a free one.
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.config.listen.address = address.into();
        self
    }

    /// Sets the address of `/metrics` and the full `/readyz`; by default they are not served.
    pub fn admin_listen(mut self, address: SocketAddr) -> Self {
        self.config.listen.admin = Some(address.into());
        self
    }

    /// Sets the log that gets a line for each request; none by default.
    pub(crate) fn access_log(mut self, log: Option<AccessLog>) -> Self {
        self.access_log = log;
        self
    }

    /// Sets a socket to listen on in place of an address, as passed on by a supervisor.
    pub(crate) fn socket(mut self, socket: Option<Socket>) -> Self {
        self.socket = socket;
        self
    }

    /// Sets a function that threads call after reading much and before resting: an allocator may keep what they have
    /// freed until they allocate again. By default it does nothing.
    pub fn give_back(mut self, give_back: fn()) -> Self {
        self.give_back = give_back;
        self
    }

    /// Refuses updates and deletes without `If-Match` with 428.
    pub const fn require_if_match(mut self, required: bool) -> Self {
        self.config.http.require_if_match = required;
        self
    }

    /// Sets the origins whose web pages may use the service; none by default.
    pub fn cors_origins(mut self, origins: impl IntoIterator<Item = Origin>) -> Self {
        self.config.http.cors_origins = origins.into_iter().collect();
        self
    }

    /// Sets the host names by which an open service on a loopback address may be reached, in addition to those of the
    /// loopback interface itself.
    pub fn allow_hosts(mut self, hosts: impl IntoIterator<Item = String>) -> Self {
        self.config.http.allow_hosts = hosts.into_iter().collect();
        self
    }

    /// Sends the whole list compressed to clients that accept that.
    pub const fn compress(mut self, compress: bool) -> Self {
        self.config.http.compress = compress;
        self
    }

    /// Sets whether the web pages are served below `/ui/`; by default they are.
    pub const fn ui(mut self, served: bool) -> Self {
        self.config.http.ui = if served { WebPages::On } else { WebPages::Off };
        self
    }

    /// Signs every commit with the SSH key in this file.
    pub fn signing_key(mut self, file: impl Into<PathBuf>) -> Self {
        self.config.commits.signing_key = Some(file.into());
        self
    }

    /// Sets the limits.
    pub const fn limits(mut self, limits: Limits) -> Self {
        self.config.limits = limits;
        self
    }
}

impl ServiceBuilder<Unguarded> {
    pub(crate) const fn new(config: ServeConfig) -> Self {
        Self { config, socket: None, access_log: None, give_back: || {}, guard: Unguarded }
    }

    /// Sets the authorizer that is asked before every action.
    pub fn authorizer(self, authorizer: impl Authorizer) -> ServiceBuilder<Guarded> {
        self.guarded(Guard::with(authorizer))
    }

    /// Chooses the variant without authentication, and without the OpenAPI documents.
    pub fn without_authorization(self) -> ServiceBuilder<Guarded> {
        self.guarded(Guard::Without)
    }

    fn guarded(self, guard: Guard) -> ServiceBuilder<Guarded> {
        let Self { config, socket, access_log, give_back, guard: Unguarded } = self;
        ServiceBuilder { config, socket, access_log, give_back, guard: Guarded(guard) }
    }
}

impl ServiceBuilder<Guarded> {
    /// Opens the repository, listens and starts to serve.
    ///
    /// The repository is created if its folder is absent or empty. It is read while the service already listens: until
    /// that is done every request is answered 503, never with an empty list.
    ///
    /// # Errors
    ///
    /// Fails with the reason; nothing runs then.
    pub async fn start(self) -> Result<Service, StartError> {
        let Self { config, socket, access_log, give_back, guard: Guarded(guard) } = self;
        // First, so that neither a typing error nor an address in use creates a repository.
        let url = remote::url(&config.remote)?;
        let notice_secret = remote::notice_secret(&config.remote)?;
        let options = journal_options(&config)?;
        options.check()?;
        let tls = tls(&config)?;
        let receivers = webhooks::receivers(&config.webhooks)?;
        let is_inherited = socket.is_some();
        let (server, admin) = listen(&config.listen, socket, tls.clone()).await?;
        let until = remote::start_deadline(&config.remote);
        let journal = open(&config, options, url.as_ref().map(|url| (url, until)))?;
        let bound = server.bound().clone();
        warn_if_exposed(&guard, &bound);
        let settings = answer_options(&config, journal.branch());
        let archive: Arc<dyn Archive> = Arc::new(journal.archive());
        let reached = LimitCounters::default();
        let counted = Arc::<engine::Metrics>::default();
        let of_requests = admin.is_some().then(Arc::<http::Metrics>::default);
        let options = engine::Options {
            metrics: Arc::clone(&counted),
            give_back,
            ..engine_options(&config, journal.branch(), &reached)
        };
        let (of_store, objects) = (journal.metrics(), journal.objects().to_owned());
        let link =
            url.map(|url| remote::link(&config, &journal, url, notice_secret.clone(), until)).transpose()?;
        let remote = link.clone().map(|link| remote::shared(&config.remote, link, notice_secret));
        let running = start_threads(&config, journal, link.clone(), Arc::clone(&archive), options, &reached)
            .map_err(StartError::Thread)?;
        let Running { engine, history, .. } = &running;
        let shutdown = Shutdown::new();
        let webhooks = receivers.map(|receivers| {
            webhooks::start(&config.webhooks, receivers, history.clone(), archive, &shutdown)
        });
        let context = Context {
            handle: engine.handle.clone(),
            projection: engine.projection.clone(),
            history: Some(history.clone()),
            webhooks: webhooks::for_api(webhooks.as_ref()),
            remote,
            shutdown: shutdown.clone(),
            clock: Clock::system(),
            access: access_rules(guard, &config, &bound, tls.is_some()),
            settings,
            telemetry: Telemetry {
                reached: reached.clone(),
                metrics: of_requests.clone(),
                access_log: access_log.map(Arc::new),
            },
        };
        let routes = Routes::new(context);
        if let Some((admin, http)) = admin.zip(of_requests) {
            tracing::info!(at = %admin.bound(), "metrics are at {}", http::METRICS);
            let exposition = metrics::exposition(metrics::MetricSources {
                http,
                engine: counted,
                store: of_store,
                reached: reached.clone(),
                signals: engine.signals.downgrade(),
                projection: engine.projection.clone(),
                history: history.clone(),
                objects,
                webhooks: webhooks.clone(),
                link,
            });
            answer(admin, None, Admin::new(&routes, exposition), routes.context());
        }
        // Connections wait in a socket that stays open over a restart, so clients need not notice the restart.
        let unread = is_inherited.then(|| engine.projection.clone());
        answer(server, unread, routes.clone(), routes.context());
        Ok(Service {
            bound,
            shutdown_grace: Duration::from_millis(config.limits.shutdown_grace_ms),
            reached,
            shutdown,
            tls,
            webhooks,
            running: Some(running),
        })
    }
}

/// Starts the threads of the service. If the last of them can't be started, the others end by themselves, since nobody
/// can reach them.
fn start_threads(
    config: &ServeConfig,
    journal: GitJournal,
    link: Option<Arc<Link>>,
    archive: Arc<dyn Archive>,
    options: engine::Options,
    reached: &LimitCounters,
) -> std::io::Result<Running> {
    let places = places(&journal, link.as_deref());
    let journal: Box<dyn Journal> = match &link {
        None => Box::new(journal),
        Some(link) => Box::new(RemoteJournal::new(journal, Arc::clone(link), config.limits.writes.races_max)),
    };
    let (counted, give_back) = (Arc::clone(&options.metrics), options.give_back);
    let engine = engine::start(journal, options)?;
    let poll = link.map(|link| poll(link, &engine)).transpose()?;
    let history_options = history::Options {
        metrics: counted,
        reached: reached.clone(),
        give_back,
        ..history_options(config, engine.projection.clone())
    };
    let (history, follower) = History::start(archive, engine.projection.heads(), history_options)?;
    let watch = watch::start(places, watch_options(config), engine.signals.clone())?;
    Ok(Running { engine, history, follower, watch, poll })
}

/// Opens the listener of the service and, if configured, the one for metrics and health checks.
async fn listen(
    config: &ListenConfig,
    socket: Option<Socket>,
    tls: Option<Arc<Tls>>,
) -> Result<(Server, Option<Server>), StartError> {
    let server = match socket {
        Some(socket) => Server::on(socket, &config.address)?,
        None => Server::bind(&config.address).await?,
    };
    let admin = match &config.admin {
        Some(listen) => Some(Server::bind(listen).await.map_err(StartError::Admin)?),
        None => None,
    };
    Ok((server.with_tls(tls), admin))
}

/// Lets a server answer until the shutdown begins; if `unread` is given, once the repository has been read.
fn answer(server: Server, unread: Option<Projection>, answers: impl Answers, context: &Context) {
    let (limits, reached) = (context.settings.limits.clone(), context.telemetry.reached.clone());
    let stop = context.shutdown.clone();
    context.shutdown.spawn(async move {
        if let Some(projection) = unread {
            tokio::select! {
                () = stop.begun() => return,
                () = projection.wait_until_read() => {}
            }
        }
        server.serve(answers, &limits, &reached, &stop).await;
    });
}

/// Starts to poll the remote, and notifies the writer of changes there.
fn poll(link: Arc<Link>, engine: &Engine) -> std::io::Result<Poller> {
    let signals = engine.signals.clone();
    // If the queue is full, the writer is about to look anyway.
    Poller::start(link, move || drop(signals.try_send(Signal::Changed(Hint::Branch))))
}

fn tls(config: &ServeConfig) -> Result<Option<Arc<Tls>>, StartError> {
    let files = config.listen.tls_cert.as_ref().zip(config.listen.tls_key.as_ref());
    Ok(files.map(|(certificate, key)| Tls::open(certificate, key).map(Arc::new)).transpose()?)
}

/// Warns if more people than intended may be able to use the service or to intercept its traffic.
fn warn_if_exposed(guard: &Guard, bound: &Bound) {
    if bound.is_local() {
        return;
    }
    if guard.is_open() {
        tracing::warn!(at = %bound, "everybody who reaches this address may do everything; --auth takes a policy file");
    } else if matches!(bound, Bound::Tcp(_)) {
        tracing::warn!(at = %bound, "tokens travel unencrypted; give --tls-cert and --tls-key, or let a proxy with TLS stand before the service");
    }
}

fn access_rules(guard: Guard, config: &ServeConfig, bound: &Bound, speaks_tls: bool) -> AccessRules {
    let cors = config.http.cors_origins.iter().cloned().collect();
    AccessRules { guard, cors, hosts: hosts(config, bound), speaks_tls }
}

/// Returns the names by which browsers may reach the service: one that only this machine can reach is meant for pages
/// of this machine only.
fn hosts(config: &ServeConfig, bound: &Bound) -> Hosts {
    match bound {
        Bound::Tcp(address) | Bound::Tls(address) if bound.is_local() => {
            let allowed = config.http.allow_hosts.iter().map(|host| host.to_ascii_lowercase());
            Hosts::Loopback(iter::once(address.to_string()).chain(allowed).collect())
        }
        Bound::Tcp(_) | Bound::Tls(_) | Bound::Unix(_) => Hosts::Any,
    }
}

fn open(
    config: &ServeConfig,
    options: JournalOptions,
    remote: Option<(&RemoteUrl, Instant)>,
) -> Result<GitJournal, StartError> {
    let signing_key = options.signing_key.clone();
    let is_new = match remote {
        Some((url, until)) => remote::init(config, url, until)?,
        None => GitJournal::init(&config.repository.dir)?,
    };
    if is_new {
        tracing::info!(path = %config.repository.dir.display(), "made a new repository");
    }
    let journal = if config.repository.any_owner {
        GitJournal::open_of_any_owner(options)
    } else {
        GitJournal::open(options)
    }?;
    if is_new {
        journal.make_folder()?;
    }
    tracing::info!(
        path = %config.repository.dir.display(),
        branch = journal.branch(),
        folder = config.repository.folder,
        "serving the branch"
    );
    if let Some(incomplete) = journal.incomplete_reason()? {
        tracing::warn!(path = %config.repository.dir.display(), "{incomplete}");
    }
    if let Some(key) = signing_key {
        tracing::info!(key = %key, "signing every commit");
    }
    Ok(journal)
}

/// Returns what has to be watched: the collection files, and what git writes when a branch moves or another one is
/// checked out.
fn places(journal: &GitJournal, link: Option<&Link>) -> WatchedPaths {
    let theirs = link.map(Link::branch_files).unwrap_or_default();
    WatchedPaths {
        work_tree: journal.work_tree_root().map(ToOwned::to_owned).zip(journal.folder()),
        branch_files: journal.branch_files().into_iter().chain(theirs).collect(),
    }
}
