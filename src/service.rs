//! The assembled service: the only place where the parts meet. It makes no decisions.

mod builder;
mod metrics;
mod offline;
mod options;
mod peers;
mod remote;
mod running;
mod signers;
#[cfg(test)]
pub(crate) mod tests;
mod webhooks;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::config::ServeConfig;
use crate::engine::Signal;
use crate::http::server::{BindError, Bound, Tls, TlsError};
pub use crate::service::builder::{Guarded, ServiceBuilder, Unguarded};
pub(crate) use crate::service::offline::Offline;
pub(crate) use crate::service::options::committers;
pub(crate) use crate::service::remote::decide;
use crate::service::running::Running;
pub use crate::service::running::StopError;
use crate::shutdown::Shutdown;
use crate::store::StoreError;
use crate::store::signature::SigningKeyError;
use crate::telemetry::{Limit, LimitCounters};
use crate::webhooks::Webhooks;

/// A running service.
///
/// Dropping it begins the shutdown without waiting for the end; [`shutdown`](Self::shutdown) waits.
#[derive(Debug)]
#[must_use = "a service that is dropped stops"]
pub struct Service {
    bound: Bound,
    shutdown_grace: Duration,
    reached: LimitCounters,
    shutdown: Shutdown,
    tls: Option<Arc<Tls>>,
    webhooks: Option<Arc<Webhooks>>,
    /// Taken when the service stops.
    running: Option<Running>,
}

/// Why a service does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The repository can't be served.
    #[error("cannot open the repository")]
    Repository(#[from] StoreError),
    /// The signing key can't be used.
    #[error(transparent)]
    SigningKey(#[from] SigningKeyError),
    /// The address can't be listened on.
    #[error(transparent)]
    Listen(#[from] BindError),
    /// The address for metrics and health checks can't be listened on.
    #[error("the admin listener can't be opened (--admin-listen)")]
    Admin(#[source] BindError),
    /// The certificate can't be used.
    #[error("cannot speak TLS")]
    Tls(#[from] TlsError),
    /// The list of webhook receivers can't be used.
    #[error("the list of webhooks can't be used: {0}")]
    Webhooks(String),
    /// No thread can be started.
    #[error("cannot start a thread")]
    Thread(#[source] std::io::Error),
}

impl Service {
    /// Starts to assemble a service on a repository, with defaults for everything else.
    pub fn builder(repository: impl Into<PathBuf>) -> ServiceBuilder<Unguarded> {
        Self::configured(ServeConfig::new(repository))
    }

    /// Starts to assemble a service from a complete configuration.
    pub(crate) const fn configured(config: ServeConfig) -> ServiceBuilder<Unguarded> {
        ServiceBuilder::new(config)
    }

    /// Returns the address that the service listens on, with the actual port; on a Unix socket, `0.0.0.0:0`, which is
    /// no address.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        match self.bound {
            Bound::Tcp(address) | Bound::Tls(address) => address,
            Bound::Unix(_) => SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
        }
    }

    #[must_use]
    pub(crate) const fn bound(&self) -> &Bound {
        &self.bound
    }

    /// Waits until the repository has been read for the first time, or could not be: from then on a 503 means trouble
    /// and not just a start.
    pub async fn ready(&self) {
        if let Some(Running { engine, .. }) = &self.running {
            engine.projection.wait_until_read().await;
        }
    }

    /// Returns the certificate of the service, if it has one, to be read again.
    #[must_use]
    pub(crate) fn tls(&self) -> Option<Arc<Tls>> {
        self.tls.clone()
    }

    /// Returns the webhooks, if there are any.
    #[must_use]
    pub(crate) fn webhooks(&self) -> Option<Arc<Webhooks>> {
        self.webhooks.clone()
    }

    /// Returns the status of the service in one line, for its supervisor.
    #[must_use]
    pub(crate) fn status(&self) -> String {
        let snapshot = self.running.as_ref().and_then(|running| running.engine.projection.snapshot());
        let Some(snapshot) = snapshot else { return "reading the repository".to_owned() };
        let at = snapshot
            .revision
            .map_or("no commit".to_owned(), |revision| format!("{:.10}", revision.to_string()));
        let (collections, problems) = (snapshot.catalog().len(), snapshot.problems.len());
        format!("{} serves {collections} collections at {at}; {problems} files have problems", self.bound)
    }

    /// Waits until one of the threads that the service depends on has ended, which happens only after a panic; returns
    /// its name. The served collections would never be updated then, so stop the service.
    pub async fn failed(&self) -> &'static str {
        match &self.running {
            Some(running) => running.failed().await,
            None => std::future::pending().await,
        }
    }

    /// Stops the service: accepts nothing new, finishes what is under way within the grace period, and makes the last
    /// commits durable. Does not wait for the end of a first reading of the repository.
    ///
    /// # Errors
    ///
    /// Fails with what did not end in order: requests that were cut off at the end of the grace period, or a thread
    /// that had panicked. All acknowledged writes are durable even then.
    pub async fn shutdown(mut self) -> Result<(), StopError> {
        let (began, grace) = (Instant::now(), self.shutdown_grace);
        let finished = {
            let mut finished = pin!(self.shutdown.finish(grace));
            let exchanges_ended = async {
                if let Some(running) = &self.running {
                    running.end_exchanges(grace).await;
                }
            };
            tokio::select! {
                finished = &mut finished => finished,
                () = exchanges_ended => finished.await,
            }
        };
        if finished.is_err() {
            self.reached.count(Limit::ShutdownGrace);
        }
        if let Some(running) = self.running.take() {
            running.stop(grace.saturating_sub(began.elapsed())).await?;
        }
        Ok(finished?)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.shutdown.begin();
        if let Some(Running { engine, .. }) = &self.running {
            drop(engine.signals.try_send(Signal::Shutdown));
        }
    }
}
