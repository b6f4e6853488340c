//! Subscriptions: each event once, in order, from any commit on.
//!
//! There is no queue between the writer and a subscriber that could fill up or have a gap. A subscriber knows its
//! place and reads on from there in the newest index, whether the place is old or recent. It is woken only by a
//! newer index.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::watch;

use crate::domain::Revision;
use crate::engine::history::event::{EventRecord, Position};
use crate::engine::history::follow::{FollowState, History};
use crate::engine::history::query::filter::{Filter, KeyVisibility};
use crate::engine::history::query::matching::MatchingEvents;
use crate::engine::history::received::ReceivedEvents;
use crate::engine::history::{HistoryError, SharedHistory, View};
use crate::engine::pacing::PacedFollower;
use crate::telemetry::Limit;

/// The number of events read from the disk at a time.
pub(crate) const BATCH_LEN: usize = 64;

/// What a subscriber receives.
#[derive(Debug, Clone)]
pub enum Followed {
    Event(Arc<EventRecord>),
    /// The events received so far are no longer the past of the branch, or the subscriber was too slow. It must read
    /// everything again; the subscription continues from this revision.
    Reset(Option<Revision>),
    /// Everything up to this commit has been sent. The position of the last event can't say so, because it names one
    /// side of a merge: a subscriber that resumes from it receives the other side.
    CaughtUp(Revision),
}

/// A subscriber to the history.
///
/// Dropping a future of [`next`](Self::next) loses nothing.
#[derive(Debug)]
pub struct Subscription {
    shared: Arc<SharedHistory>,
    state: watch::Receiver<FollowState>,
    filter: Filter,
    at: Place,
    /// Whether it has caught up before; only then can it be too slow.
    live: bool,
    /// Whether it is never too slow.
    is_patient: bool,
    paced: PacedFollower,
    /// The events that were read ahead, each with the place after it.
    ready: VecDeque<(Arc<EventRecord>, Place)>,
}

/// The place of a subscriber in the history.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    /// At the head of the first index, which is not built yet.
    Now,
    /// Before the first commit.
    Start,
    /// After this position.
    After(Position),
    /// Between the two sides of a merge, where a position names only one.
    Beside {
        /// Its position when the merge arrived; `None` before the first commit.
        own: Option<Position>,
        /// How far it has received the other side.
        other: Position,
    },
}

impl Place {
    fn at_head(view: &View) -> Self {
        view.head().map_or(Self::Start, |head| Self::After(head.into()))
    }
}

/// What there is to send at present.
enum Found {
    Nothing,
    Reset(Place, Option<Revision>),
    Events(Vec<(Arc<EventRecord>, Place)>),
    /// No matching events up to this place.
    Skip(Place),
}

impl History {
    /// Subscribes to the events after a position, or from now on, that match `filter` (its bounds too).
    ///
    /// An unknown position, or one that the branch does not descend from, leads to a [`Followed::Reset`].
    #[must_use]
    pub fn subscribe(&self, after: Option<Position>, filter: Filter) -> Subscription {
        let head = self.state.borrow().index.as_ref().map(|index| index.head());
        let now = match head {
            Some(Some(head)) => Place::After(head.into()),
            Some(None) => Place::Start,
            None => Place::Now,
        };
        self.subscription(after.map_or(now, Place::After), after.is_none(), filter)
    }

    /// Subscribes to the events from the first one on.
    #[must_use]
    pub fn subscribe_from_start(&self, filter: Filter) -> Subscription {
        self.subscription(Place::Start, false, filter)
    }

    fn subscription(&self, at: Place, live: bool, filter: Filter) -> Subscription {
        Subscription {
            shared: Arc::clone(&self.shared),
            state: self.state.clone(),
            filter,
            at,
            live,
            is_patient: false,
            paced: PacedFollower::register(&self.shared.pacing),
            ready: VecDeque::new(),
        }
    }
}

impl Subscription {
    /// Never resets the subscriber for being slow: for one that must receive every event.
    #[must_use]
    pub const fn however_slow(mut self) -> Self {
        self.is_patient = true;
        self
    }

    /// Waits for the next item; `None` when the engine has ended. An event after a pause is sent at once; events in
    /// quick succession are sent to many subscribers in groups, about 5 per second to a thousand subscribers. That
    /// needs a runtime with a timer.
    ///
    /// # Errors
    ///
    /// Fails when the repository can't be read; the next call continues from the same place.
    pub async fn next(&mut self) -> Result<Option<Followed>, HistoryError> {
        loop {
            if self.ready.is_empty() {
                self.paced.wait_out_pause().await;
            }
            let turn = self.paced.acquire_permit().await;
            if let Some(followed) = self.next_known().await? {
                return Ok(Some(followed));
            }
            drop(turn);
            if self.state.changed().await.is_err() {
                return Ok(None);
            }
        }
    }

    /// Returns the next item, if there is one already; `None` when everything known has been sent.
    ///
    /// # Errors
    ///
    /// As [`next`](Self::next).
    pub async fn next_known(&mut self) -> Result<Option<Followed>, HistoryError> {
        loop {
            if let Some(event) = self.read_ahead() {
                return Ok(Some(Followed::Event(event)));
            }
            let Some((view, events_before)) = self.newest() else { return Ok(None) };
            match self.read_next(view, events_before).await? {
                Found::Reset(place, revision) => {
                    (self.at, self.live) = (place, true);
                    return Ok(Some(Followed::Reset(revision)));
                }
                Found::Events(events) => {
                    // A large batch may take long to read without the subscriber being slow.
                    self.live = events.len() < BATCH_LEN;
                    self.ready.extend(events);
                }
                Found::Skip(place) => {
                    let was_beside = matches!(self.at, Place::Beside { .. });
                    self.at = place;
                    if let Some(head) = self.head_if_caught_up().filter(|_| was_beside) {
                        return Ok(Some(Followed::CaughtUp(head)));
                    }
                }
                Found::Nothing => {
                    self.live = true;
                    return Ok(None);
                }
            }
        }
    }

    /// Returns the next event, if it was read together with one that was sent.
    pub fn read_ahead(&mut self) -> Option<Arc<EventRecord>> {
        let (event, place) = self.ready.pop_front()?;
        self.at = place;
        if self.ready.is_empty() && self.live {
            self.paced.start_pause();
        }
        Some(event)
    }

    /// Reports whether the next event was read together with one that was sent.
    #[must_use]
    pub fn has_read_ahead(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Changes which keys are visible, from the next read on.
    pub fn see(&mut self, seeing: Option<KeyVisibility>) {
        self.filter.seeing = seeing;
    }

    /// Returns the head if every event up to it has been sent: the `id` of a heartbeat; `None` before the first commit.
    #[must_use]
    pub fn head_if_caught_up(&self) -> Option<Revision> {
        match self.at {
            Place::After(Position { revision, seen: None }) if self.ready.is_empty() => {
                self.head().filter(|head| *head == revision)
            }
            Place::After(_) | Place::Beside { .. } | Place::Now | Place::Start => None,
        }
    }

    /// Returns the head of the branch as the history knows it.
    #[must_use]
    pub fn head(&self) -> Option<Revision> {
        self.state.borrow().index.as_ref().and_then(|index| index.head())
    }

    fn newest(&mut self) -> Option<(View, u32)> {
        let state = self.state.borrow_and_update();
        let index = Arc::clone(state.index.as_ref()?);
        Some((View::new(Arc::clone(&self.shared), index), state.events_before))
    }

    /// Looks for the next events; where that reads the disk, not on the threads that serve requests.
    async fn read_next(&self, view: View, events_before: u32) -> Result<Found, HistoryError> {
        let (at, filter) = (self.at, self.filter.clone());
        let had_its_chance = (self.live && !self.is_patient).then_some(events_before);
        if at == Place::at_head(&view) {
            return Ok(Found::Nothing);
        }
        if let Some(found) = cached_batch(&view, at, had_its_chance, &filter) {
            return Ok(found);
        }
        let found =
            tokio::task::spawn_blocking(move || next_events(&view, at, had_its_chance, &filter)).await;
        found.unwrap_or_else(|_| Err(HistoryError::stopping()))
    }
}

/// Returns the next few events if all are cached, as the newest ones are, which needs no other thread.
fn cached_batch(view: &View, at: Place, had_its_chance: Option<u32>, filter: &Filter) -> Option<Found> {
    let Place::After(position) = at else { return None };
    let commit = view.index.find(position.revision)?;
    if !view.index.forks().is_main(commit) {
        return None;
    }
    let from = view.events_len_until(position).ok().flatten()?;
    let end = view.index.events_len();
    if (end - from) as usize >= BATCH_LEN
        || is_too_far(view, from, had_its_chance)
        || filter.spans_moves(view)
    {
        return None;
    }
    let mut events = Vec::new();
    for event in from..end {
        if filter.matches_in_memory(view, event)? {
            events.push((view.cached_record(event)?, behind(view, at, ReceivedEvents::before(from), event)));
        }
    }
    Some(if events.is_empty() { Found::Skip(Place::at_head(view)) } else { Found::Events(events) })
}

/// Reports whether a subscriber has fallen too far behind.
fn is_too_far(view: &View, from: u32, had_its_chance: Option<u32>) -> bool {
    let lag = had_its_chance.map_or(0, |events| events.min(view.index.events_len()).saturating_sub(from));
    lag as usize > view.shared.options.lag_events_max
}

/// Returns the place after an event, for a subscriber that was at place `at` before.
fn behind(view: &View, at: Place, received: ReceivedEvents, event: u32) -> Place {
    let (position, commit) = (view.position_of(event), view.index.event(event).commit);
    let own = match at {
        Place::Now | Place::Start => None,
        Place::After(own) => Some(own),
        Place::Beside { own, .. } => own,
    };
    let is_behind_all =
        view.index.forks().is_main(commit) && received.beside.is_none_or(|(own, _)| commit > own);
    if is_behind_all { Place::After(position) } else { Place::Beside { own, other: position } }
}

/// Reads the next events after a place.
fn next_events(
    view: &View,
    at: Place,
    had_its_chance: Option<u32>,
    filter: &Filter,
) -> Result<Found, HistoryError> {
    let head = Place::at_head(view);
    let received = match at {
        Place::Now => return Ok(Found::Skip(head)),
        Place::Start => Some(ReceivedEvents::default()),
        Place::After(position) => view.received(position)?,
        Place::Beside { own, other } => {
            let received = own.map_or(Ok(Some(ReceivedEvents::default())), |own| view.received(own))?;
            let until = view.events_len_until(other)?;
            received
                .zip(until)
                .map(|(received, until)| ReceivedEvents { until: until.max(received.until), ..received })
        }
    };
    let Some(received) = received else { return Ok(Found::Reset(head, view.head())) };
    let (from, end) = (received.until, view.index.events_len());
    if is_too_far(view, from, had_its_chance) {
        view.shared.options.reached.count(Limit::LagEvents);
        return Ok(Found::Reset(head, view.head()));
    }
    let matching = match MatchingEvents::new(view, filter) {
        Ok(matching) => matching,
        // A collection that does not exist yet may still be created.
        Err(HistoryError::UnknownKey(_)) => return Ok(Found::Skip(head)),
        Err(error) => return Err(error),
    };
    let mut events = Vec::new();
    let is_wanted = |event: &u32| received.is_new(&view.index, *event) && matching.fits(*event);
    for event in (from..end).filter(is_wanted).take(BATCH_LEN) {
        events.push((view.record(event)?, behind(view, at, received, event)));
    }
    matching.check()?;
    Ok(if events.is_empty() { Found::Skip(head) } else { Found::Events(events) })
}
