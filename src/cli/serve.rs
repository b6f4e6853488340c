//! `collectory serve`: starts, runs and stops the service.

mod open_files;
mod signals;
mod supervisor;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, anyhow};

use crate::cli::serve::signals::Signals;
use crate::cli::{Done, Failure, answer};
use crate::config::{Auth, BasePath, PolicyLimits, ServeConfig};
use crate::domain::{Actor, Token};
use crate::format;
use crate::http::AllowAll;
use crate::http::policy::Policy;
use crate::http::server::Bound;
use crate::service::{Service, ServiceBuilder, StopError, Unguarded};
use crate::store;
use crate::telemetry::{self, LogConfig};

/// Serve a repository over HTTP
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, long_about = "\
Serve a repository over HTTP.

The repository is made when the folder is absent or empty. When the service is ready it prints one line \
on standard output, `listening on http://127.0.0.1:8080/` or `listening on unix:PATH`; logs go to standard error.

On SIGHUP it reads the policy file, the certificate and the list of webhooks again. A socket that systemd passes on (LISTEN_FDS) takes the place of --listen, \
and NOTIFY_SOCKET is told when the service is ready and what it does. SIGTERM and SIGINT end it: requests under way are finished, within --shutdown-grace-ms. A second signal, \
at least half a second later, ends it at once; what was answered is durable all the same.

-h shows the flags that most services need, --help all of them, and what happens beyond each limit.")]
pub(crate) struct Serve {
    /// Who may do what: `none`, `allow-all` or a policy file.
    ///
    /// `none` serves without authentication and without the OpenAPI documents; `allow-all` allows everything to
    /// everybody; a policy file lists bearer tokens and what they grant, see `collectory token`. There is no default.
    /// For a file with one of those names, write `./none`.
    #[arg(long, env = "COLLECTORY_AUTH", value_name = "none|allow-all|FILE")]
    auth: Option<Auth>,

    #[command(flatten)]
    config: ServeConfig,

    #[command(flatten)]
    log: LogConfig,

    /// How many threads answer requests [default: the number of cores minus one, which is for the writer, and at
    /// least one].
    #[arg(long, env = "COLLECTORY_WORKER_THREADS", value_name = "COUNT", help_heading = "Limits")]
    worker_threads: Option<NonZeroUsize>,
}

/// The default number of threads that answer requests. Any more would only compete with the writer for its core.
fn worker_threads_default() -> NonZeroUsize {
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    NonZeroUsize::new(cores - 1).unwrap_or(NonZeroUsize::MIN)
}

const EXAMPLES: &str = "\
Examples:
  collectory serve --auth allow-all
  collectory serve --auth policy.yaml --repo /srv/settings.git --branch main --listen 0.0.0.0:80
  COLLECTORY_AUTH=none collectory serve --listen 127.0.0.1:0 --log-format json";

const AUTH_MISSING: &str = "\
say who may do what with --auth: `none` (no authentication, no OpenAPI documents), `allow-all` \
(everybody may do everything) or a policy FILE of bearer tokens (see `collectory token --help`)";

const PEERS_WITHOUT_SECRET: &str = "\
where a policy says who may do what, siblings (--peer) believe only signed notices: name a file with a shared \
secret by --remote-notice-secret, the same text at each of them";

impl Serve {
    pub(crate) fn run(mut self, give_back: fn()) -> Result<Done, Failure> {
        let auth = self.auth.ok_or_else(|| Failure::Usage(AUTH_MISSING.into()))?;
        if matches!(auth, Auth::Policy(_))
            && !self.config.remote.siblings.peers.is_empty()
            && self.config.remote.siblings.notice_secret.is_none()
        {
            return Err(Failure::Usage(PEERS_WITHOUT_SECRET.into()));
        }
        Actor::check_name(&self.config.commits.committer_name)
            .and_then(|()| Actor::check_email(&self.config.commits.committer_email))
            .map_err(|why| Failure::Usage(format!("the committer: {why}")))?;
        telemetry::start(&self.log)?;
        let access_log = telemetry::start_access_log(&self.log).context("cannot start the access log")?;
        let connections_max = &mut self.config.limits.requests.connections_max;
        *connections_max = open_files::raise_limit(*connections_max);
        store::git::set_shared_umask(&self.config.repository.dir)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(self.worker_threads.unwrap_or_else(worker_threads_default).get())
            .enable_all()
            .build()
            .context("cannot start the threads of the service")?;
        let limits = self.config.limits.policy.clone();
        let base_path = self.config.http.base_path.clone();
        let builder = Service::configured(self.config).access_log(access_log).give_back(give_back);
        let outcome = runtime.block_on(serve(builder, auth, &limits, &base_path));
        // After a second signal, work in progress is abandoned.
        runtime.shutdown_background();
        outcome
    }
}

async fn serve(
    builder: ServiceBuilder<Unguarded>,
    auth: Auth,
    limits: &PolicyLimits,
    base_path: &BasePath,
) -> Result<Done, Failure> {
    let mut signals = Signals::new().context("cannot listen for signals")?;
    let socket =
        supervisor::inherited_socket().context("cannot use what the supervisor passed on to listen on")?;
    let builder = builder.socket(socket);
    let builder = match auth {
        Auth::None => builder.without_authorization(),
        Auth::AllowAll => builder.authorizer(AllowAll),
        Auth::Policy(path) => {
            let policy = Arc::new(Policy::open(path, read_policy, limits)?);
            let reloaded = Arc::clone(&policy);
            signals.reloads.push(Box::new(move || reloaded.reload()));
            builder.authorizer(policy)
        }
    };
    let service = tokio::select! {
        service = builder.start() => service?,
        _ = signals.next() => return Ok(Done::Well),
    };
    if let Some(tls) = service.tls() {
        signals.reloads.push(Box::new(move || tls.reload()));
    }
    if let Some(webhooks) = service.webhooks() {
        signals.reloads.push(Box::new(move || webhooks.reload()));
    }
    run_until_stopped(service, signals, base_path).await
}

/// Reports that the service is ready, and waits until it ends.
async fn run_until_stopped(
    service: Service,
    mut signals: Signals,
    base_path: &BasePath,
) -> Result<Done, Failure> {
    tokio::select! {
        () = service.ready() => {}
        thread = service.failed() => return stop_after_failure(service, signals, thread).await,
        name = signals.next() => return stop(service, signals, name).await,
    }
    answer(&listening(service.bound(), base_path))
        .context("cannot say on standard output that the service is ready")?;
    supervisor::notify_ready(&service);
    signals.is_ready = true;

    tokio::select! {
        () = supervisor::notify_periodically(&service) => unreachable!("BUG: the notifications have ended"),
        thread = service.failed() => stop_after_failure(service, signals, thread).await,
        name = signals.next() => stop(service, signals, name).await,
    }
}

/// The line that reports the address; the base path does not apply to a Unix socket.
fn listening(bound: &Bound, base_path: &BasePath) -> String {
    match bound {
        Bound::Tcp(_) | Bound::Tls(_) => format!("listening on {bound}{base_path}"),
        Bound::Unix(_) => format!("listening on {bound}"),
    }
}

async fn stop(service: Service, mut signals: Signals, name: &'static str) -> Result<Done, Failure> {
    tracing::info!(signal = name, "shutting down");
    supervisor::notify_stopping();
    signals.is_ready = false;
    let finished = tokio::select! {
        finished = service.shutdown() => finished,
        name = signals.next_but_same(Instant::now()) => return Err(anyhow!("stopped at once by a second signal, {name}").into()),
    };
    match finished {
        Ok(()) => Ok(Done::Well),
        Err(error @ (StopError::Unfinished(_) | StopError::Stuck { .. })) => {
            tracing::warn!(%error, "not everything was answered; what was acknowledged is durable");
            Ok(Done::Well)
        }
        Err(error @ StopError::Panicked { .. }) => {
            tracing::error!(%error, "not everything was done; what was acknowledged is durable");
            Err(anyhow!(error).into())
        }
    }
}

/// Ends a service that can't continue, so that its supervisor restarts it.
async fn stop_after_failure(
    service: Service,
    mut signals: Signals,
    thread: &'static str,
) -> Result<Done, Failure> {
    tracing::error!(thread, "BUG: a thread has panicked, so what is served would grow old; the service ends");
    tokio::select! {
        // What went wrong is already logged.
        _ = service.shutdown() => {}
        _ = signals.next() => {}
    }
    Err(anyhow!(
        "the {thread} thread has panicked; what was acknowledged is durable, start the service again"
    )
    .into())
}

fn read_policy(bytes: &[u8]) -> Result<Vec<Token>, String> {
    format::policy::read(bytes).map_err(|fault| fault.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::tests::hooked;

    #[tokio::test]
    async fn a_service_whose_writer_dies_ends_the_process_as_a_failure() {
        let folder = tempfile::tempdir().unwrap();
        let (service, _hook) = hooked(folder.path(), || panic!("as a test asked for")).await;
        let ended = run_until_stopped(service, Signals::new().unwrap(), &BasePath::default()).await;
        let Err(Failure::Failed(error)) = ended else { panic!("{ended:?}") };
        assert!(error.to_string().contains("the writer thread has panicked"), "{error}");
    }
}
