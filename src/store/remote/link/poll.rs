//! The thread that asks the remote when nobody else does, and when somebody wants to know.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crate::store::remote::link::Link;
use crate::store::remote::link::behind;
use crate::store::remote::transport::git::Note;

/// The thread; it ends when this is dropped.
#[derive(Debug)]
pub struct Poll {
    link: Arc<Link>,
    thread: Option<JoinHandle<()>>,
}

impl Poll {
    /// Begins to ask; `changed` is called whenever something was seen that the writer may have to act on, and whether that is more than another head.
    ///
    /// # Errors
    ///
    /// Fails when the system gives no thread.
    pub fn start(link: Arc<Link>, changed: impl Fn(bool) + Send + Sync + 'static) -> io::Result<Self> {
        let (polled, changed) = (Arc::clone(&link), Arc::new(changed));
        if link.settings.is_local() {
            let changed = Arc::clone(&changed);
            behind::start(Arc::clone(&link), move || changed(false))?;
        }
        let thread = thread::Builder::new().name("remote".into()).spawn(move || {
            while polled.wait_for_next_look() {
                look(&polled, &*changed);
            }
        })?;
        Ok(Self { link, thread: Some(thread) })
    }
}

impl Drop for Poll {
    fn drop(&mut self) {
        self.link.finish();
        // An exchange under way is not waited for: it changes nothing that anybody still looks at.
        drop(self.thread.take());
    }
}

/// One look, for all who wait for one that begins now.
fn look(link: &Link, changed: &impl Fn(bool)) {
    let (waiters, pending, before) = {
        let mut known = link.known();
        known.is_wanted = false;
        (std::mem::take(&mut known.waiters), known.pending.clone(), known.seen_head)
    };
    if let Some(pending) = &pending {
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
    let is_to_be_decided = link.known().decision.is_some();
    let has_moved = link.known().seen_head.map(|it| it.head) != before.map(|it| it.head);
    if is_to_be_decided || pending.is_some() || has_moved {
        changed(is_to_be_decided);
    }
    waiters.into_iter().for_each(|waiter| waiter(seen.clone()));
}
