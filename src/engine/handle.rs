//! How the rest of the service reaches the writer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use crate::domain::{Actor, Command, Key, Refusal, Revision};
use crate::engine::history::unified;
use crate::engine::idempotency::{Ledger, Once};
use crate::engine::plan::merge::Clash;
use crate::engine::projection::Entry;
use crate::engine::projection::problem::Problem;
use crate::engine::writer::signal::Signal;

/// A request to change collections, with everything that its commit has to say.
#[derive(Debug, Clone)]
pub struct Submission {
    /// What to do, in order: all of it in one commit, or nothing.
    pub changes: Vec<ConditionalCommand>,
    /// The author of the commit.
    pub author: Actor,
    /// Why, in the caller's words.
    pub reason: Option<String>,
    /// The request that asks, for the commit's `Request-Id` trailer.
    pub request_id: Option<String>,
    /// Whether the command line asks, for the commit's `Collectory-Origin` trailer.
    pub by_command: bool,
    /// Whether to do everything short of the commit, and tell what it would be.
    pub dry_run: bool,
    /// The name under which the caller asks, to have it done once however often it asks. Dry runs
    /// do nothing and are not recorded.
    pub once: Option<Once>,
}

/// A command and what must be true for it.
#[derive(Debug, Clone)]
pub struct ConditionalCommand {
    /// What to do.
    pub command: Command,
    /// What the caller believes the collection to be.
    pub condition: Condition,
}

/// What the caller believes a collection to be (RFC 9110 section 13.1).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Condition {
    /// `If-Match`: the collection has one of these tags.
    pub if_match: Option<Tags>,
    /// `If-None-Match`: the collection has none of these tags.
    pub if_none_match: Option<Tags>,
    /// Whether an update of an older version that `if_match` names is fine where nobody else
    /// changed the same attributes since.
    pub merge_attributes: bool,
}

/// The entity tags that a condition lists: the opaque parts, without quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tags {
    /// `*`: whatever exists.
    Any,
    /// One of these.
    OneOf(Vec<String>),
}

impl Tags {
    fn hold(&self, entry: &Entry) -> bool {
        match self {
            Self::Any => true,
            Self::OneOf(tags) => tags.contains(&entry.tag()),
        }
    }

    /// Whether one of them is of the content of the entry's file.
    fn name_content(&self, entry: &Entry) -> bool {
        match self {
            Self::Any => true,
            Self::OneOf(tags) => !entry.stale && tags.iter().any(|tag| entry.is_tagged(tag)),
        }
    }
}

impl Condition {
    /// Whether the condition is true of what is served now.
    ///
    /// `if_match` holds of the same content too whose tag has changed since: because somebody committed
    /// just what was saved, or for a problem beside it. Whoever read it has missed nothing. It does not
    /// where the file itself is broken, for there the tag is of an older content.
    #[must_use]
    pub fn holds(&self, current: Option<&Entry>) -> bool {
        let found = |tags: &Tags| current.is_some_and(|entry| tags.hold(entry));
        let known = |tags: &Tags| current.is_some_and(|entry| tags.hold(entry) || tags.name_content(entry));
        self.if_match.as_ref().is_none_or(known) && !self.if_none_match.as_ref().is_some_and(found)
    }

    /// The tags of older versions that an update may be merged over, if that is all that keeps the
    /// condition from being true.
    #[must_use]
    pub fn mergeable(&self, current: Option<&Entry>) -> Option<&[String]> {
        let known = |tags: &Tags| current.is_some_and(|entry| tags.hold(entry));
        match &self.if_match {
            Some(Tags::OneOf(tags))
                if self.merge_attributes
                    && current.is_some()
                    && !self.if_none_match.as_ref().is_some_and(known) =>
            {
                Some(tags)
            }
            Some(Tags::Any | Tags::OneOf(_)) | None => None,
        }
    }
}

/// A submission that was carried out.
#[derive(Debug, Clone)]
pub struct Written {
    /// The revision that the answer comes from: of the snapshot that holds the change and was published before this
    /// answer, or of the commit that an earlier request under the same name led to.
    pub revision: Option<Revision>,
    /// What became of each change, in order.
    pub outcomes: Vec<Outcome>,
    /// The commits that were not made, of a dry run.
    pub preview: Option<Vec<Preview>>,
}

/// A commit that would be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// Its message; the ids in it are new each time.
    pub message: String,
    /// Its author: the caller, or whoever edited the file by hand before.
    pub author: Actor,
    /// Its files.
    pub files: Vec<PreviewedFile>,
}

/// A file of a commit that would be made: what stands there, and what would.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreviewedFile {
    /// The path inside the repository.
    pub path: String,
    /// What the file holds, if it is there.
    pub before: Option<Vec<u8>>,
    /// What it would hold, if it would be there.
    pub after: Option<Vec<u8>>,
}

impl PreviewedFile {
    /// What would change, as unified text. It takes its time, which the writer does not have; what
    /// is not found until then is shown as replaced.
    #[must_use]
    pub fn difference(&self, until: Instant) -> String {
        unified(&self.path, self.before.as_deref(), self.after.as_deref(), until)
    }
}

/// What became of one change.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// The collection is new.
    Created(Arc<Entry>),
    /// The collection is changed.
    Updated(Arc<Entry>),
    /// The collection was so already; no commit was made for it.
    Unchanged(Arc<Entry>),
    /// The collection is gone.
    Deleted,
}

impl Outcome {
    /// Tells of an entry in place of another one.
    pub(crate) fn replace(&mut self, one: &Arc<Entry>, other: &Arc<Entry>) {
        let (Self::Created(entry) | Self::Updated(entry) | Self::Unchanged(entry)) = self else { return };
        if Arc::ptr_eq(entry, one) {
            *entry = Arc::clone(other);
        }
    }
}

/// Why a submission was not carried out; nothing of it is in the repository, unless that is not known.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SubmitError {
    /// The domain says no.
    #[error("change {index}: {refusal}")]
    Refused {
        /// Which change of the submission, from 0.
        index: usize,
        /// Why.
        refusal: Refusal,
    },
    /// The collection is not what the caller believes.
    #[error("change {index}: the condition does not hold")]
    Condition {
        /// Which change of the submission, from 0.
        index: usize,
        /// What the collection is.
        current: Option<Arc<Entry>>,
    },
    /// The change builds on an older version, and somebody else changed the same attributes since.
    #[error("change {index}: others changed the same attributes")]
    Clash {
        /// Which change of the submission, from 0.
        index: usize,
        /// What the collection is.
        current: Arc<Entry>,
        /// The attributes.
        clashes: Vec<Clash>,
    },
    /// The file that the change would build on is broken.
    #[error("change {index}: {problem}")]
    Broken {
        /// Which change of the submission, from 0.
        index: usize,
        /// What is wrong with it.
        problem: Arc<Problem>,
    },
    /// What is to be removed or replaced is no regular file.
    #[error("change {index}: {problem}")]
    NoFile {
        /// Which change of the submission, from 0.
        index: usize,
        /// What stands in the place of the file.
        problem: Arc<Problem>,
    },
    /// The file has an uncommitted edit, and those are not to be served or committed.
    #[error("change {index}: {path} has an uncommitted edit")]
    EditedByHand {
        /// Which change of the submission, from 0.
        index: usize,
        /// The file, as a path inside the repository.
        path: String,
    },
    /// The file has an uncommitted edit that could not be read whole, so it can't be committed.
    #[error("change {index}: {path} has an uncommitted edit of more than {bytes_max} bytes or in the making")]
    UnreadEdit {
        /// Which change of the submission, from 0.
        index: usize,
        /// The file, as a path inside the repository.
        path: String,
        /// How many bytes are read of a file.
        bytes_max: usize,
    },
    /// The files that the changes build on are too much for one submission.
    #[error("change {index}: the files that are changed together have more than {bytes_max} bytes")]
    TooMuch {
        /// Which change of the submission goes beyond that, from 0.
        index: usize,
        /// How many bytes they may have.
        bytes_max: usize,
    },
    /// Another request was granted under the same name.
    #[error("the idempotency key was used for another request")]
    KeyReused,
    /// The queue is full.
    #[error("the write queue is full")]
    Busy,
    /// The repository has not been read yet.
    #[error("the repository is still being read")]
    Loading,
    /// The service is shutting down.
    #[error("the service is shutting down")]
    ShuttingDown,
    /// The remote that shares the branch does not take it.
    #[error("the remote refuses the write: {why}")]
    RemoteRefused {
        /// What the remote said, fit to be shown.
        why: String,
    },
    /// The remote that shares the branch can't be asked.
    #[error("the remote cannot be reached")]
    RemoteUnreachable,
    /// The remote has not said whether it took the commit: it may be there, or come to be.
    #[error("the remote has not said whether it took the write")]
    OutcomeUnknown {
        /// The events that tell later whether it did.
        events: Vec<Uuid>,
    },
    /// The repository can't be written now; the text is fit for a client and names no path outside
    /// the repository.
    #[error("{reason}")]
    Unavailable {
        /// What stands in the way, for the client.
        reason: String,
        /// When to try again.
        retry_after: Duration,
    },
}

/// Submits changes to the writer; cheap to clone.
#[derive(Debug, Clone)]
pub struct Handle {
    inbox: mpsc::Sender<Signal>,
    ledger: Ledger,
}

impl Handle {
    pub(crate) const fn new(inbox: mpsc::Sender<Signal>, ledger: Ledger) -> Self {
        Self { inbox, ledger }
    }

    /// Whether something was granted under this name of this author: then the submission is for
    /// the writer to answer, whatever the collections look like by now.
    #[must_use]
    pub fn is_recorded(&self, author: &Actor, once: &Once) -> bool {
        self.ledger.is_recorded(author, once)
    }

    /// Carries out a submission and answers when it is durable and can be read.
    ///
    /// Dropping the future after it was queued does not undo anything: the change is made and
    /// nobody hears of it, as after a lost connection.
    ///
    /// # Errors
    ///
    /// Says why nothing was changed; a full queue is answered at once.
    pub async fn submit(&self, submission: Submission) -> Result<Written, SubmitError> {
        let (reply, answer) = oneshot::channel();
        self.send(Signal::Submit(Job { asked_at: Instant::now(), submission, reply }))?;
        answer.await.unwrap_or(Err(SubmitError::ShuttingDown))
    }

    /// Answers again what was granted under this name of this author, which changed one collection
    /// at most; `None` if nothing was. It is for those who can't make the same submission again,
    /// because it was planned on what was there before it.
    ///
    /// # Errors
    ///
    /// [`SubmitError::KeyReused`] if another request was granted under the name; otherwise why
    /// nothing could be looked up.
    pub async fn replay(
        &self,
        author: &Actor,
        once: &Once,
        key: &Key,
    ) -> Result<Option<Written>, SubmitError> {
        if !self.is_recorded(author, once) {
            return Ok(None);
        }
        let (reply, answer) = oneshot::channel();
        let (author, once, key) = (author.clone(), once.clone(), key.clone());
        self.send(Signal::Replay(Question { author, once, key, reply }))?;
        answer.await.unwrap_or(Err(SubmitError::ShuttingDown))
    }

    fn send(&self, signal: Signal) -> Result<(), SubmitError> {
        self.inbox.try_send(signal).map_err(|error| match error {
            TrySendError::Full(_) => SubmitError::Busy,
            TrySendError::Closed(_) => SubmitError::ShuttingDown,
        })
    }
}

/// A submission on its way, and where its answer goes.
#[derive(Debug)]
pub struct Job {
    pub(crate) asked_at: Instant,
    pub(crate) submission: Submission,
    pub(crate) reply: oneshot::Sender<Result<Written, SubmitError>>,
}

impl Job {
    /// Answers; that nobody waits any more is no failure.
    pub(crate) fn answer(self, answer: Result<Written, SubmitError>) {
        drop(self.reply.send(answer));
    }
}

/// A request for what was granted under a name, and where its answer goes.
#[derive(Debug)]
pub struct Question {
    pub(crate) author: Actor,
    pub(crate) once: Once,
    /// The collection that the request was about.
    pub(crate) key: Key,
    pub(crate) reply: oneshot::Sender<Result<Option<Written>, SubmitError>>,
}

impl Question {
    /// Answers; that nobody waits any more is no failure.
    pub(crate) fn answer(self, answer: Result<Option<Written>, SubmitError>) {
        drop(self.reply.send(answer));
    }
}

#[cfg(test)]
impl Handle {
    /// A handle whose submissions are answered by a function, one after the other, on a thread that
    /// ends with the last clone.
    pub(crate) fn answered_by(
        mut answer: impl FnMut(Submission) -> Result<Written, SubmitError> + Send + 'static,
    ) -> Self {
        let (inbox, mut signals) = mpsc::channel(64);
        std::thread::spawn(move || {
            while let Some(signal) = signals.blocking_recv() {
                if let Signal::Submit(job) = signal {
                    // Whoever asked may have gone; the change is made all the same.
                    drop(job.reply.send(answer(job.submission)));
                }
            }
        });
        let clock = std::sync::Arc::new(|| chrono::DateTime::UNIX_EPOCH);
        Self::new(
            inbox,
            Ledger::new(
                &crate::engine::idempotency::Retention {
                    time: Duration::from_secs(1),
                    len_max: 1,
                    bytes_max: 0,
                },
                clock,
                crate::telemetry::Reached::default(),
            ),
        )
    }
}
