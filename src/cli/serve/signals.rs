//! The signals that a service handles.

use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::serve::supervisor;

/// A second signal within this time is a duplicate: timeout(1) and supervisors signal both the process and its group.
const SAME_SIGNAL_MAX: Duration = Duration::from_millis(500);

/// Reloads something that may change while the service runs.
pub(super) type Reload = Box<dyn Fn() + Send>;

/// The signals that end the service, and the one that makes it reload.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    /// The reloads for SIGHUP.
    pub(super) reloads: Vec<Reload>,
    /// Whether the supervisor knows that the service is ready, as it takes the end of a reload to say.
    pub(super) is_ready: bool,
}

impl Signals {
    /// Starts to handle them. SIGXFSZ is ignored from then on, so that a file that would become larger than the limit
    /// (setrlimit(2), `RLIMIT_FSIZE`) is the error of one write and not the end of the service.
    pub(super) fn new() -> std::io::Result<Self> {
        drop(signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?);
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            reloads: Vec::new(),
            is_ready: false,
        })
    }

    /// Waits for the next signal that ends the service and returns its name.
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
        let reload = || self.reloads.iter().for_each(|reload| reload());
        if self.is_ready { supervisor::reloading(reload) } else { reload() }
    }

    /// Waits for another signal; ignores duplicates of the first, which came at `before` (see [`SAME_SIGNAL_MAX`]).
    pub(super) async fn next_but_same(&mut self, before: Instant) -> &'static str {
        loop {
            let name = self.next().await;
            if before.elapsed() >= SAME_SIGNAL_MAX {
                return name;
            }
        }
    }
}
