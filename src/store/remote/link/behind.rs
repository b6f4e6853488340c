//! Mode `local`: pushes commits whose writes were already answered, in order, on a background thread.

use std::io;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::domain::Revision;
use crate::store::remote::link::Link;
use crate::store::remote::transport::notes::Note;
use crate::store::remote::transport::pushed::Pushed;

/// The number of refusals before one is believed: another push may have stood in the way of the first.
pub(crate) const REFUSALS_MAX: u32 = 2;

/// A pending background push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outbox {
    /// The head that the remote must have.
    pub(crate) lease: Option<Revision>,
    /// The head that the remote is to get.
    pub(crate) tip: Revision,
    /// The number of commits between the two.
    pub(crate) commits: usize,
}

/// The pending background push, if any, and when it is tried again.
#[derive(Default)]
pub(crate) struct Posted {
    pub(crate) outbox: Option<Outbox>,
    again_at: Option<Instant>,
}

impl Link {
    /// Schedules a background push in place of the pending one; `None` cancels it.
    pub(crate) fn post(&self, outbox: Option<Outbox>) {
        let mut known = self.known();
        known.ahead = outbox.map_or(0, |outbox| outbox.commits);
        known.posted.outbox = outbox;
        self.changed.notify_all();
    }

    /// Schedules a background push of commits on top of the pending ones, or of `base`, the remote's head.
    pub(crate) fn post_more(&self, base: Option<Revision>, tip: Revision, commits: usize) {
        let mut known = self.known();
        let (lease, waiting) = known.posted.outbox.map_or((base, 0), |outbox| (outbox.lease, outbox.commits));
        known.posted.outbox = Some(Outbox { lease, tip, commits: waiting + commits });
        known.ahead = waiting + commits;
        self.changed.notify_all();
    }

    /// Waits until a background push may start; `None` when the link ends first. A push that may start at that moment
    /// is still returned.
    pub(crate) fn wait_for_outbox(&self) -> Option<Outbox> {
        let mut known = self.known();
        loop {
            let is_stopped = known.standing.is_stopped();
            let at = known.posted.again_at.max(self.push_at_of(&known));
            let wait = at.map_or(Duration::ZERO, |at| at.saturating_duration_since(Instant::now()));
            match known.posted.outbox.filter(|_| !is_stopped) {
                Some(outbox) if wait.is_zero() => {
                    known.posted.again_at = None;
                    return Some(outbox);
                }
                _ if known.wishes.is_over => return None,
                Some(_) => {
                    known = self.changed.wait_timeout(known, wait).unwrap_or_else(PoisonError::into_inner).0;
                }
                None => known = self.changed.wait(known).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Records that the remote has a background push; more commits may have been scheduled since.
    pub(crate) fn landed(&self, landed: Outbox) {
        let mut known = self.known();
        known.posted.outbox = known.posted.outbox.filter(|outbox| outbox.tip != landed.tip).map(|outbox| {
            let commits = outbox.commits.saturating_sub(landed.commits);
            if outbox.lease == landed.lease {
                Outbox { lease: Some(landed.tip), commits, ..outbox }
            } else {
                outbox
            }
        });
        drop(known);
        self.note_well();
    }

    /// Records that another instance won the race against a background push: the writer has to merge first.
    pub(crate) fn lost_behind(&self, lost: Outbox) {
        let mut known = self.known();
        known.posted.outbox = known.posted.outbox.filter(|outbox| outbox.lease != lost.lease);
        drop(known);
        self.lost_a_race();
    }

    /// Delays the next background push.
    fn push_later(&self, wait: Duration) {
        self.known().posted.again_at = Some(Instant::now() + wait);
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
        while let Some(outbox) = link.wait_for_outbox() {
            push(&link, outbox, &mut refusals);
            changed();
        }
    })?;
    Ok(ended)
}

/// Pushes once and judges the outcome by commit ids.
fn push(link: &Link, outbox: Outbox, refusals: &mut u32) {
    let until = link.deadline();
    let pushed = link.push(outbox.tip, outbox.lease, until);
    if pushed == Pushed::Accepted {
        *refusals = 0;
        return link.landed(outbox);
    }
    tracing::debug!(?pushed, tip = %outbox.tip, "a push behind was not accepted");
    let down_wait = || link.down_wait(link.known().standing.failures.max(1));
    match (link.fetch(Note::Behind, until), pushed) {
        (Ok(head), _) if head == Some(outbox.tip) => {
            link.landed(outbox);
            link.tell(outbox.tip);
        }
        // The writer merges and schedules a push of the result.
        (Ok(head), _) if head != outbox.lease => link.lost_behind(outbox),
        (Ok(_), Pushed::Answered(why)) => {
            *refusals += 1;
            if *refusals >= REFUSALS_MAX {
                *refusals = 0;
                link.refused(&why);
                link.push_later(link.refused_wait());
            }
        }
        (Ok(_), _) => link.push_later(down_wait()),
        (Err(error), _) => {
            link.missed(&error);
            link.push_later(down_wait());
        }
    }
}
