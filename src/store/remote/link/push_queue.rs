//! Mode `local`: pushes commits whose writes were already answered, in order, on a background thread.

use std::io;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::domain::Revision;
use crate::store::remote::link::Link;
use crate::store::remote::transport::folder::PrivateRef;
use crate::store::remote::transport::pushed::PushOutcome;

/// The number of refusals before one is believed: another push may have stood in the way of the first.
pub(crate) const REFUSALS_MAX: u32 = 2;

/// A pending background push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueuedPush {
    /// The head that the remote must have.
    pub(crate) lease: Option<Revision>,
    /// The head that the remote is to get.
    pub(crate) tip: Revision,
    /// The number of commits between the two.
    pub(crate) commits: usize,
}

/// The pending background push, if any, and when it is tried again.
#[derive(Default)]
pub(crate) struct PushQueue {
    pub(crate) outbox: Option<QueuedPush>,
    again_at: Option<Instant>,
}

impl Link {
    /// Schedules a background push in place of the pending one; `None` cancels it.
    pub(crate) fn set_queued_push(&self, outbox: Option<QueuedPush>) {
        let mut known = self.known();
        known.ahead = outbox.map_or(0, |outbox| outbox.commits);
        known.push_queue.outbox = outbox;
        self.changed.notify_all();
    }

    /// Schedules a background push of commits on top of the pending ones, or of `base`, the remote's head.
    pub(crate) fn extend_queued_push(&self, base: Option<Revision>, tip: Revision, commits: usize) {
        let mut known = self.known();
        let (lease, waiting) =
            known.push_queue.outbox.map_or((base, 0), |outbox| (outbox.lease, outbox.commits));
        known.push_queue.outbox = Some(QueuedPush { lease, tip, commits: waiting + commits });
        known.ahead = waiting + commits;
        self.changed.notify_all();
    }

    /// Waits until a background push may start; `None` when the link ends first. A push that may start at that moment
    /// is still returned.
    pub(crate) fn wait_for_queued_push(&self) -> Option<QueuedPush> {
        let mut known = self.known();
        loop {
            let is_stopped = known.health.is_stopped();
            let at = known.push_queue.again_at.max(self.push_at_of(&known));
            let wait = at.map_or(Duration::ZERO, |at| at.saturating_duration_since(Instant::now()));
            match known.push_queue.outbox.filter(|_| !is_stopped) {
                Some(outbox) if wait.is_zero() => {
                    known.push_queue.again_at = None;
                    return Some(outbox);
                }
                _ if known.requests.is_over => return None,
                Some(_) => {
                    known = self.changed.wait_timeout(known, wait).unwrap_or_else(PoisonError::into_inner).0;
                }
                None => known = self.changed.wait(known).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Records that the remote has a background push; more commits may have been scheduled since.
    pub(crate) fn landed(&self, landed: QueuedPush) {
        let mut known = self.known();
        known.push_queue.outbox =
            known.push_queue.outbox.filter(|outbox| outbox.tip != landed.tip).map(|outbox| {
                let commits = outbox.commits.saturating_sub(landed.commits);
                if outbox.lease == landed.lease {
                    QueuedPush { lease: Some(landed.tip), commits, ..outbox }
                } else {
                    outbox
                }
            });
        drop(known);
        self.note_up();
    }

    /// Records that another instance won the race against a background push: the writer has to merge first.
    pub(crate) fn lost_behind(&self, lost: QueuedPush) {
        let mut known = self.known();
        known.push_queue.outbox = known.push_queue.outbox.filter(|outbox| outbox.lease != lost.lease);
        drop(known);
        self.lost_a_race();
    }

    /// Delays the next background push.
    fn push_later(&self, wait: Duration) {
        self.known().push_queue.again_at = Some(Instant::now() + wait);
    }
}

/// Starts the thread, which ends with the link; the returned receiver is disconnected then. `changed` is called when
/// the writer has to act on what was seen.
pub(crate) fn start(link: Arc<Link>, changed: impl Fn() + Send + 'static) -> io::Result<Receiver<()>> {
    let thread = thread::Builder::new().name("push".into());
    let (until_the_end, ended) = mpsc::channel();
    thread.spawn(move || {
        let _until_the_end = until_the_end;
        let mut refusals = 0;
        while let Some(outbox) = link.wait_for_queued_push() {
            refusals = push(&link, outbox, refusals);
            changed();
        }
    })?;
    Ok(ended)
}

/// Pushes once and judges the outcome by commit ids. Returns how often in a row the remote has refused now, so far
/// `refusals` times.
fn push(link: &Link, outbox: QueuedPush, refusals: u32) -> u32 {
    let until = link.deadline();
    let pushed = link.push(outbox.tip, outbox.lease, until);
    if pushed == PushOutcome::Accepted {
        link.landed(outbox);
        return 0;
    }
    tracing::debug!(?pushed, tip = %outbox.tip, "a push behind was not accepted");
    let down_wait = || link.down_wait(link.known().health.failures.max(1));
    match (link.fetch(PrivateRef::Behind, until), pushed) {
        (Ok(head), _) if head == Some(outbox.tip) => {
            link.landed(outbox);
            link.notify_siblings(outbox.tip);
            0
        }
        // The writer merges and schedules a push of the result.
        (Ok(head), _) if head != outbox.lease => {
            link.lost_behind(outbox);
            0
        }
        // It can be read, and takes no push, whether it says why or not.
        (Ok(_), pushed) if refusals + 1 >= REFUSALS_MAX => {
            link.note_refused(pushed.reason());
            link.push_later(link.refused_wait());
            0
        }
        (Ok(_), pushed) => {
            if !matches!(pushed, PushOutcome::Answered(_)) {
                link.push_later(down_wait());
            }
            refusals + 1
        }
        (Err(error), _) => {
            link.note_unreachable(&error);
            link.push_later(down_wait());
            refusals
        }
    }
}
