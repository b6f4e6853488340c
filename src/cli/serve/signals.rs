//! The signals that a service obeys.

use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::serve::supervisor;

/// A second signal within this time is the first one, told twice: to the process and to its group, as
/// timeout(1) and supervisors do.
const SAME_SIGNAL_MAX: Duration = Duration::from_millis(500);

/// Reads something again that the service was told.
pub(super) type Reload = Box<dyn Fn() + Send>;

/// The signals that ask for the end, and the one that asks to read again what can change.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    /// What SIGHUP has read again.
    pub(super) reloads: Vec<Reload>,
}

impl Signals {
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            reloads: Vec::new(),
        })
    }

    /// Waits for the next one that asks for the end and tells its name.
    pub(super) async fn next(&mut self) -> &'static str {
        loop {
            tokio::select! {
                _ = self.interrupt.recv() => return "SIGINT",
                _ = self.terminate.recv() => return "SIGTERM",
                _ = self.hangup.recv() => self.reload(),
            }
        }
    }

    fn reload(&self) {
        tracing::info!(signal = "SIGHUP", files = self.reloads.len(), "reading again what can change");
        supervisor::reloading(|| self.reloads.iter().for_each(|reload| reload()));
    }

    /// Waits for another signal; one within [`SAME_SIGNAL_MAX`] of the first, which came at `before`, is taken for the
    /// same.
    pub(super) async fn next_but_same(&mut self, before: Instant) -> &'static str {
        loop {
            let name = self.next().await;
            if before.elapsed() >= SAME_SIGNAL_MAX {
                return name;
            }
        }
    }
}
