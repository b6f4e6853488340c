//! Mode `local`: what was answered already is pushed behind, in order, by a thread of its own.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread;

use crate::domain::Revision;
use crate::store::remote::link::Link;
use crate::store::remote::transport::git::Note;
use crate::store::remote::transport::pushed::Pushed;

/// How often a refusal is heard before it is believed: another push may have stood in the way of the first.
const REFUSALS_MAX: u32 = 2;

/// What is to be pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outbox {
    /// Where the remote has to be.
    pub(crate) lease: Option<Revision>,
    /// Where it is to come to.
    pub(crate) tip: Revision,
    /// How many commits it gets.
    pub(crate) commits: usize,
}

/// Starts the thread; it ends with the link, and what it answers with it. `changed` is called when the writer has to
/// look at what was seen.
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

/// One push, and what became of it, judged by the ids of commits.
fn push(link: &Link, outbox: Outbox, refusals: &mut u32) {
    let until = link.deadline();
    let pushed = link.push(outbox.tip, outbox.lease, until);
    if pushed == Pushed::Accepted {
        *refusals = 0;
        return link.landed(outbox);
    }
    tracing::debug!(?pushed, tip = %outbox.tip, "a push behind was not accepted");
    match (link.fetch(Note::Behind, until), pushed) {
        (Ok(head), _) if head == Some(outbox.tip) => {
            link.landed(outbox);
            link.tell(outbox.tip);
        }
        // The writer merges, and posts what comes of it.
        (Ok(head), _) if head != outbox.lease => link.lost_behind(outbox),
        (Ok(_), Pushed::Answered(why)) => {
            *refusals += 1;
            if *refusals >= REFUSALS_MAX {
                *refusals = 0;
                link.refused(&why);
                link.push_later(true);
            }
        }
        (Ok(_), _) => link.push_later(false),
        (Err(error), _) => {
            link.missed(&error);
            link.push_later(false);
        }
    }
}
