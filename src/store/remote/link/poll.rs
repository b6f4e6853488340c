//! The thread that polls the remote, at intervals and on request.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::Instant;

use crate::store::remote::link::Link;
use crate::store::remote::link::push_queue;
use crate::store::remote::transport::folder::PrivateRef;

/// The polling thread and the background push thread. Dropping this ends both, and all processes they have started.
#[derive(Debug)]
pub struct Poller {
    link: Arc<Link>,
    /// Disconnected when the background push thread ends.
    pushes: Option<Receiver<()>>,
}

impl Poller {
    /// Starts polling; `changed` is called whenever something was seen that the writer may have to act on.
    ///
    /// # Errors
    ///
    /// Fails when no thread can be started.
    pub fn start(link: Arc<Link>, changed: impl Fn() + Send + Sync + 'static) -> io::Result<Self> {
        let (polled, changed) = (Arc::clone(&link), Arc::new(changed));
        let mut pushes = None;
        if link.is_local() {
            let changed = Arc::clone(&changed);
            pushes = Some(push_queue::start(Arc::clone(&link), move || changed())?);
        }
        thread::Builder::new().name("remote".into()).spawn(move || {
            while polled.wait_for_next_poll() {
                poll(&polled, &*changed);
            }
        })?;
        Ok(Self { link, pushes })
    }

    /// Starts delayed pushes now, because the service is about to end.
    pub fn hurry(&self) {
        self.link.hurry();
    }

    /// Returns a function that ends all exchanges with the remote, and all waiting for them.
    pub fn ender(&self) -> impl FnOnce() + Send + 'static {
        let link = Arc::clone(&self.link);
        move || link.end()
    }

    /// Waits until the pending background push has succeeded or can't, but at most until `until`. What is left is
    /// pushed after the next start.
    pub fn finish(&self, until: Instant) {
        self.link.finish();
        if let Some(pushes) = &self.pushes {
            let _ended = pushes.recv_timeout(until.saturating_duration_since(Instant::now()));
        }
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        self.link.end();
    }
}

/// Polls once, for all callers that are waiting now.
fn poll(link: &Link, changed: &impl Fn()) {
    let (waiters, pending, before) = {
        let mut known = link.known();
        known.requests.is_wanted = false;
        (std::mem::take(&mut known.requests.waiters), known.pending.clone(), known.seen_heads.newest())
    };
    if let Some(pending) = &pending {
        let may_push = link.push_at().is_none();
        let pushed = may_push.then(|| link.push(pending.tip, pending.lease, link.deadline()));
        let mut known = link.known();
        if let Some(known) = known.pending.as_mut().filter(|known| known.tip == pending.tip) {
            known.pushed = pushed.or(known.pushed.take());
            known.tries += 1;
        }
    }
    let seen = link.fetch(PrivateRef::Polled, link.deadline());
    if let Err(error) = &seen {
        link.note_unreachable(error);
    }
    let is_to_be_decided = link.known().requests.decision.is_some();
    let has_moved = link.known().seen_heads.newest().map(|it| it.head) != before.map(|it| it.head);
    if is_to_be_decided || pending.is_some() || has_moved {
        changed();
    }
    waiters.into_iter().for_each(|waiter| waiter(seen.clone()));
}
