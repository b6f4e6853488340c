//! The thread that asks the remote when nobody else does, and when somebody wants to know.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::Instant;

use crate::store::remote::link::Link;
use crate::store::remote::link::behind;
use crate::store::remote::transport::notes::Note;

/// The thread, and the one that pushes behind; they end when this is dropped, and with them whatever they have started.
#[derive(Debug)]
pub struct Poll {
    link: Arc<Link>,
    /// Ends with the thread that pushes behind.
    pushes: Option<Receiver<()>>,
}

impl Poll {
    /// Begins to ask; `changed` is called whenever something was seen that the writer may have to act on.
    ///
    /// # Errors
    ///
    /// Fails when the system gives no thread.
    pub fn start(link: Arc<Link>, changed: impl Fn() + Send + Sync + 'static) -> io::Result<Self> {
        let (polled, changed) = (Arc::clone(&link), Arc::new(changed));
        let mut pushes = None;
        if link.is_local() {
            let changed = Arc::clone(&changed);
            pushes = Some(behind::start(Arc::clone(&link), move || changed())?);
        }
        thread::Builder::new().name("remote".into()).spawn(move || {
            while polled.wait_for_next_look() {
                look(&polled, &*changed);
            }
        })?;
        Ok(Self { link, pushes })
    }

    /// Has pushed what only waits for its turn: the service is about to end.
    pub fn hurry(&self) {
        self.link.hurry();
    }

    /// Ends all exchanges with the remote, when it is called: whoever waits for one is told so.
    pub fn ender(&self) -> impl FnOnce() + Send + 'static {
        let link = Arc::clone(&self.link);
        move || link.end()
    }

    /// Waits until what was posted is pushed behind, or can't be, at most until then. What is left is pushed by the next
    /// start.
    pub fn finish(&self, until: Instant) {
        self.link.finish();
        if let Some(pushes) = &self.pushes {
            let _ended = pushes.recv_timeout(until.saturating_duration_since(Instant::now()));
        }
    }
}

impl Drop for Poll {
    fn drop(&mut self) {
        self.link.end();
    }
}

/// One look, for all who wait for one that begins now.
fn look(link: &Link, changed: &impl Fn()) {
    let (waiters, pending, before) = {
        let mut known = link.known();
        known.wishes.is_wanted = false;
        (std::mem::take(&mut known.wishes.waiters), known.pending.clone(), known.sightings.newest())
    };
    if let Some(pending) = pending.as_ref().filter(|_| link.push_at().is_none()) {
        let pushed = link.push(pending.tip, pending.lease, link.deadline());
        let mut known = link.known();
        if let Some(known) = known.pending.as_mut().filter(|known| known.tip == pending.tip) {
            known.pushed = Some(pushed);
        }
    }
    let seen = link.fetch(Note::Polled, link.deadline());
    if let Err(error) = &seen {
        link.missed(error);
    }
    let is_to_be_decided = link.known().wishes.decision.is_some();
    let has_moved = link.known().sightings.newest().map(|it| it.head) != before.map(|it| it.head);
    if is_to_be_decided || pending.is_some() || has_moved {
        changed();
    }
    waiters.into_iter().for_each(|waiter| waiter(seen.clone()));
}
