//! One receiver: follows the history from its recorded position, and records each position after its delivery.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use sha2::{Digest as _, Sha256};

use crate::engine::history::{
    Action, Filter, Followed, History, KeyVisibility, Position, Subscription, View,
};
use crate::format::webhooks::Receiver;
use crate::http::{Allowed, Clock, ReceiverStatus};
use crate::store::Archive;
use crate::telemetry::error_chain;
use crate::webhooks::Metrics;
use crate::webhooks::delivery::{Outcome, Sender};
use crate::webhooks::message::Message;

/// The note of a receiver that starts before the first commit.
const BEGINNING: &str = "beginning";

/// How long to wait before a failed read of the repository is repeated.
const READ_AGAIN: Duration = Duration::from_secs(1);

/// The state of a receiver.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReceiverState {
    /// The position up to which events were delivered.
    position: Option<Position>,
    /// Whether the position is known yet.
    is_begun: bool,
    /// The last failure since something was delivered, and when it was.
    failure: Option<(DateTime<Utc>, String)>,
    /// Whether the receiver wants no more messages.
    ended: bool,
}

/// What the task of a receiver needs.
pub(crate) struct DeliveryTask {
    pub(crate) receiver: Receiver,
    pub(crate) history: History,
    pub(crate) archive: Arc<dyn Archive>,
    pub(crate) sender: Sender,
    pub(crate) state: Arc<Mutex<ReceiverState>>,
    pub(crate) metrics: Arc<Metrics>,
}

/// Returns the status of a receiver, for the API.
pub(crate) fn status(
    receiver: &Receiver,
    state: &Mutex<ReceiverState>,
    view: Option<&View>,
) -> ReceiverStatus {
    let state = state.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let view = view.filter(|_| state.is_begun);
    ReceiverStatus {
        name: receiver.name.clone(),
        url: receiver.url.split(['?', '#']).next().unwrap_or_default().to_owned(),
        revision: state.position.map(|position| position.revision),
        lag: view.map_or(0, |view| view.events_after(state.position, &filter(receiver))),
        failure: state.failure,
        ended: state.ended,
    }
}

/// Selects the events that a receiver asks for.
fn filter(receiver: &Receiver) -> Filter {
    Filter {
        actions: receiver.actions.iter().filter_map(|action| Action::parse(action)).collect(),
        seeing: allowed(receiver).visibility.map(KeyVisibility),
        ..Filter::default()
    }
}

/// Hides the keys that a receiver did not ask for.
fn allowed(receiver: &Receiver) -> Allowed {
    let keys = receiver.keys.clone();
    match keys.is_empty() {
        true => Allowed::anonymous(),
        false => {
            Allowed::anonymous().with_visibility(move |key| keys.iter().any(|pattern| pattern.matches(key)))
        }
    }
}

impl DeliveryTask {
    /// Delivers past and future events; ends when the receiver wants no more, or with the engine.
    pub(crate) async fn run(self) {
        let mut subscription = loop {
            match self.subscribe().await {
                Ok(Some(subscription)) => break subscription,
                Ok(None) => return,
                Err(why) => self.failed(&why),
            }
            tokio::time::sleep(READ_AGAIN).await;
        };
        loop {
            let mut followed = subscription.next().await;
            if let Ok(Some(Followed::Reset(_))) = followed {
                // The subscription may be past events that do not concern the receiver; the recorded position counts.
                let noted = self.position();
                subscription = self.follow_after(noted);
                followed = match subscription.next_known().await {
                    Ok(None) => continue,
                    known => known,
                };
            }
            let (message, place) = match followed {
                Ok(Some(Followed::Event(event))) => {
                    (Message::event(&event, &allowed(&self.receiver)), Some(event.position))
                }
                Ok(Some(Followed::Reset(to))) => {
                    let from = self.position().map(|position| position.revision.to_string());
                    let message = Message::reset(&from.unwrap_or_default(), to, Clock::system().now());
                    (message, to.map(Position::from))
                }
                Ok(Some(Followed::CaughtUp(head))) => {
                    self.note(Some(head.into())).await;
                    continue;
                }
                Ok(None) => return,
                Err(error) => {
                    self.failed(&error_chain(&error));
                    tokio::time::sleep(READ_AGAIN).await;
                    continue;
                }
            };
            if !self.deliver(message).await {
                return;
            }
            self.note(place).await;
        }
    }

    /// Follows from the recorded position. A receiver without one starts at `since`, or now; one whose position can't be
    /// read is told so by a reset, since nobody knows what it has. `None` if it wants nothing more.
    async fn subscribe(&self) -> Result<Option<Subscription>, String> {
        let view = self.history.ready().await.map_err(|error| error_chain(&error))?;
        let position = match (self.noted().await?, &self.receiver.since) {
            (Some(noted), _) if noted == BEGINNING => None,
            (Some(noted), _) => match noted.parse() {
                Ok(position) => Some(position),
                Err(_) => {
                    let (webhook, file) = (&self.receiver.name, self.note_name());
                    tracing::warn!(
                        webhook,
                        file,
                        "how far a webhook is can't be read; it is sent `history.reset`"
                    );
                    let head = view.head();
                    if !self.deliver(Message::reset("", head, Clock::system().now())).await {
                        return Ok(None);
                    }
                    head.map(Position::from)
                }
            },
            (None, Some(since)) => {
                let since = since.clone();
                let start = tokio::task::spawn_blocking(move || view.start_of(&since)).await;
                let start = start.map_err(|error| error.to_string())?;
                start.map_err(|error| format!("since: {error}"))?.map(Position::from)
            }
            (None, None) => view.head().map(Position::from),
        };
        self.note(position).await;
        Ok(Some(self.follow_after(position)))
    }

    fn follow_after(&self, position: Option<Position>) -> Subscription {
        let subscription = match position {
            Some(position) => self.history.subscribe(Some(position), filter(&self.receiver)),
            None => self.history.subscribe_from_start(filter(&self.receiver)),
        };
        subscription.however_slow()
    }

    /// Sends until the receiver accepts; `false` if it wants no more.
    async fn deliver(&self, message: Message) -> bool {
        let mut failures = 0;
        loop {
            let (sender, receiver, sent) = (self.sender.clone(), self.receiver.clone(), message.clone());
            let tried = tokio::task::spawn_blocking(move || sender.post(&receiver, &sent)).await;
            match tried.unwrap_or_else(|error| Outcome::Failed(error.to_string())) {
                Outcome::Delivered => {
                    self.metrics.delivered.add_one();
                    return true;
                }
                Outcome::Gone => {
                    self.metrics.gone.add_one();
                    tracing::warn!(
                        webhook = self.receiver.name,
                        "the receiver is gone (410), so it is sent nothing more"
                    );
                    self.change(|state| state.ended = true);
                    return false;
                }
                Outcome::Failed(why) => {
                    failures += 1;
                    self.metrics.failed.add_one();
                    self.failed(&why);
                    tokio::time::sleep(self.sender.pause(failures)).await;
                }
            }
        }
    }

    fn failed(&self, why: &str) {
        let is_news = |state: &ReceiverState| state.failure.as_ref().is_none_or(|(_, known)| known != why);
        self.change(|state| {
            if is_news(state) {
                tracing::warn!(webhook = self.receiver.name, why, "a webhook can't be delivered");
            }
            state.failure = Some((Clock::system().now(), why.to_owned()));
        });
    }

    fn change(&self, change: impl FnOnce(&mut ReceiverState)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The position up to which events were delivered.
    fn position(&self) -> Option<Position> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).position
    }

    async fn noted(&self) -> Result<Option<String>, String> {
        let (archive, name) = (Arc::clone(&self.archive), self.note_name());
        let noted = tokio::task::spawn_blocking(move || archive.read_cached(&name)).await;
        let noted = noted.map_err(|error| error.to_string())?.map_err(|error| error_chain(&error))?;
        Ok(noted.map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned()))
    }

    /// Records the position, then shows it, so that a kill takes back nothing that was visible. A position that can't be
    /// recorded is shown all the same, and events are delivered again after the next start.
    async fn note(&self, position: Option<Position>) {
        let text = position.map_or(BEGINNING.to_owned(), |position| position.to_string());
        let (archive, name) = (Arc::clone(&self.archive), self.note_name());
        let noted =
            tokio::task::spawn_blocking(move || archive.write_cached(&name, format!("{text}\n").as_bytes()))
                .await;
        if let Ok(Err(error)) = noted {
            tracing::warn!(
                error = error_chain(&error),
                webhook = self.receiver.name,
                "cannot note how far a webhook is"
            );
        }
        self.change(|state| (state.position, state.is_begun, state.failure) = (position, true, None));
    }

    /// A receiver's name may contain any character, and a file's may not.
    fn note_name(&self) -> String {
        format!("webhook-{:.16x}", Sha256::digest(&self.receiver.name))
    }
}
