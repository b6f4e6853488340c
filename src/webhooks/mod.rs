//! Webhooks: each event of the served branch is delivered to each receiver, at least once and in order.
//!
//! ```text
//! history ──Subscription──▶ receiver (a task each) ──▶ delivery ──POST──▶ the receiver
//!                              │ after a 2xx                    └─ otherwise: pause, the same again
//!                              └──▶ its position, a note beside the repository
//! ```
//!
//! There is no queue that could be lost: a receiver's position is a commit, and the events after it are read from the
//! history. So a restart, a crash or a day without the receiver loses nothing, and a receiver that is down delays
//! neither a write nor another receiver. An event may be delivered again, with the same `webhook-id`. Deliveries
//! follow Standard Webhooks (<https://github.com/standard-webhooks/standard-webhooks>).
//!
//! This module never changes anything in the repository but its notes, and never answers a request.

mod delivery;
mod message;
mod public;
mod receiver;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::engine::history::{Action, History};
use crate::format::webhooks::Receiver;
use crate::http::ReceiverStatus;
use crate::shutdown::Shutdown;
use crate::store::Archive;
use crate::telemetry::metrics::Counter;
use crate::webhooks::delivery::Sender;
use crate::webhooks::receiver::{DeliveryTask, ReceiverState};

/// Reads the current list of receivers; an error names its place in the list.
pub type ReadReceivers = Box<dyn Fn() -> Result<Vec<Receiver>, String> + Send + Sync>;

/// Counters of deliveries, for metrics.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Deliveries that a receiver accepted.
    pub delivered: Counter,
    /// Deliveries that failed; each is tried again.
    pub failed: Counter,
    /// Deliveries answered with 410, after which the receiver gets no more.
    pub gone: Counter,
}

/// How deliveries are made.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Whether receivers may be at addresses that are not public.
    pub allow_private: bool,
    /// The longest pause between two attempts.
    pub retry_max: Duration,
}

/// The receivers of a running service.
pub struct Webhooks {
    history: History,
    archive: Arc<dyn Archive>,
    sender: Sender,
    read: ReadReceivers,
    shutdown: Shutdown,
    running: Mutex<Vec<Running>>,
    metrics: Arc<Metrics>,
}

/// A receiver with its running task.
#[derive(Clone)]
struct Running {
    receiver: Receiver,
    state: Arc<Mutex<ReceiverState>>,
    stop: CancellationToken,
}

impl fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhooks").finish_non_exhaustive()
    }
}

impl Webhooks {
    /// Creates webhooks that deliver nothing yet, and nothing once the shutdown has begun; `read` reads the list.
    #[must_use]
    pub fn new(
        history: History,
        archive: Arc<dyn Archive>,
        read: ReadReceivers,
        options: Options,
        shutdown: Shutdown,
    ) -> Self {
        let (sender, running) = (Sender::new(options), Mutex::default());
        Self { history, archive, sender, read, shutdown, running, metrics: Arc::default() }
    }

    /// Returns the counters of deliveries.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Reads the list again; if that fails, the last good one stays.
    pub fn reload(&self) {
        match (self.read)() {
            Ok(receivers) => {
                tracing::info!(receivers = receivers.len(), "took over the list of webhooks");
                self.deliver_to(receivers);
            }
            Err(fault) => tracing::warn!(fault, "kept the last good list of webhooks"),
        }
    }

    /// Returns the status of each receiver.
    #[must_use]
    pub fn receivers(&self) -> Vec<ReceiverStatus> {
        // The lock is not held while events are counted.
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let view = self.history.partial_view();
        let status = |running: &Running| receiver::status(&running.receiver, &running.state, view.as_ref());
        running.iter().map(status).collect()
    }

    /// Delivers to these receivers only from now on; those that are unchanged continue undisturbed.
    pub fn deliver_to(&self, receivers: Vec<Receiver>) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let mut old = std::mem::take(&mut *running);
        for receiver in receivers {
            let same = old.iter().position(|running| running.receiver == receiver);
            running.push(same.map_or_else(|| self.follow(receiver), |at| old.swap_remove(at)));
        }
        old.iter().for_each(|gone| gone.stop.cancel());
    }

    fn follow(&self, receiver: Receiver) -> Running {
        let (state, stop) = (Arc::default(), CancellationToken::new());
        let following = DeliveryTask {
            receiver: receiver.clone(),
            history: self.history.clone(),
            archive: Arc::clone(&self.archive),
            sender: self.sender.clone(),
            state: Arc::clone(&state),
            metrics: Arc::clone(&self.metrics),
        };
        let (ends, stopped) = (self.shutdown.clone(), stop.clone());
        self.shutdown.spawn(async move {
            tokio::select! {
                () = ends.begun() => {}
                () = stopped.cancelled() => {}
                () = following.run() => {}
            }
        });
        Running { receiver, state, stop }
    }
}

/// Checks that all actions that receivers ask for exist.
///
/// # Errors
///
/// Fails with an unknown action.
pub fn check_actions(receivers: &[Receiver]) -> Result<(), String> {
    for receiver in receivers {
        if let Some(unknown) = receiver.actions.iter().find(|action| Action::parse(action).is_none()) {
            let name = &receiver.name;
            return Err(format!("{name}: {unknown:?} is no action; there are created, updated, deleted"));
        }
    }
    Ok(())
}
