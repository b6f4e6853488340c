//! Following along: each event once, in order, from any commit ever made.
//!
//! There is no queue between the writer and a subscriber that could fill up or have a gap: a
//! subscriber knows how far it is and reads on from there in the newest index, whether that is
//! an old commit or one of this moment. All it is woken by is that there is a newer index.

use std::sync::Arc;

use tokio::sync::watch;

use crate::domain::Revision;
use crate::engine::history::event::{EventRecord, Position};
use crate::engine::history::follow::{FollowState, History};
use crate::engine::history::query::filter::MatchingEvents;
use crate::engine::history::query::page::{Filter, Seeing};
use crate::engine::history::seen::Seen;
use crate::engine::history::{HistoryError, SharedHistory, View};
use crate::engine::pacing::Paced;
use crate::telemetry::Limit;

/// How many events are read from the disk at a time.
pub(crate) const BATCH_LEN: usize = 64;

/// What a subscriber hears.
#[derive(Debug, Clone)]
pub enum Followed {
    /// The next event.
    Event(Arc<EventRecord>),
    /// What was heard so far is not the past of the branch any more, or the subscriber was too
    /// slow: read everything again. It goes on from this revision.
    Reset(Option<Revision>),
    /// Everything up to this commit has been told. The position of the last event can't say so, since it names one side
    /// of a merge: whoever comes back with it is told the other side.
    CaughtUp(Revision),
}

/// Somebody who follows the history.
///
/// Dropping a future of [`next`](Self::next) loses nothing.
#[derive(Debug)]
pub struct Subscription {
    shared: Arc<SharedHistory>,
    state: watch::Receiver<FollowState>,
    filter: Filter,
    at: Place,
    /// Whether it had seen everything at some time; only then it can be too slow.
    live: bool,
    /// Whether it never is.
    is_patient: bool,
    paced: Paced,
    /// What was read ahead, with the place after each.
    ready: std::collections::VecDeque<(Arc<EventRecord>, Place)>,
}

/// How far a subscriber is.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    /// At the head of the first index that there will be.
    Now,
    /// Before the first commit.
    Start,
    /// After this.
    After(Position),
    /// Among the two sides of a merge, of which a position tells one only.
    Beside {
        /// What it stood at when the merge came; `None` before the first commit.
        own: Option<Position>,
        /// How far it has heard of the other side.
        told: Position,
    },
}

impl Place {
    fn at_head(view: &View) -> Self {
        view.head().map_or(Self::Start, |head| Self::After(head.into()))
    }
}

/// What there is to tell at the moment.
enum Found {
    Nothing,
    Reset(Place, Option<Revision>),
    /// The next events.
    Events(Vec<(Arc<EventRecord>, Place)>),
    /// None that are asked for until this place.
    Skip(Place),
}

impl History {
    /// Follows the events that come after a position, or from now on; `filter` says which (its
    /// bounds too).
    ///
    /// An unknown position, or one that the branch does not descend from, is answered by
    /// [`Followed::Reset`].
    #[must_use]
    pub fn subscribe(&self, after: Option<Position>, filter: Filter) -> Subscription {
        let state = self.states();
        let head = state.borrow().index.as_ref().map(|index| index.head());
        let now = match head {
            Some(Some(head)) => Place::After(head.into()),
            Some(None) => Place::Start,
            None => Place::Now,
        };
        self.subscription(after.map_or(now, Place::After), after.is_none(), filter)
    }

    /// Follows the events from the first one on.
    #[must_use]
    pub fn subscribe_from_start(&self, filter: Filter) -> Subscription {
        self.subscription(Place::Start, false, filter)
    }

    fn subscription(&self, at: Place, live: bool, filter: Filter) -> Subscription {
        Subscription {
            shared: Arc::clone(self.shared()),
            state: self.states(),
            filter,
            at,
            live,
            is_patient: false,
            paced: Paced::by(&self.shared().pacing),
            ready: std::collections::VecDeque::new(),
        }
    }
}

impl Subscription {
    /// Waits for the subscriber however far it falls behind: for those who must hear of everything.
    #[must_use]
    pub const fn however_slow(mut self) -> Self {
        self.is_patient = true;
        self
    }

    /// The next thing to tell; `None` when the engine has ended. What comes after a pause is told at
    /// once, what comes in quick succession to many subscribers in groups, some 5 a second to a
    /// thousand. That needs a runtime with a timer.
    ///
    /// # Errors
    ///
    /// Fails when the repository can't be read; asking again goes on from the same place.
    pub async fn next(&mut self) -> Result<Option<Followed>, HistoryError> {
        loop {
            if self.ready.is_empty() {
                self.paced.rest().await;
            }
            let turn = self.paced.turn().await;
            if let Some(followed) = self.next_known().await? {
                return Ok(Some(followed));
            }
            drop(turn);
            if self.state.changed().await.is_err() {
                return Ok(None);
            }
        }
    }

    /// The next thing to tell, if there is one already; `None` when everything known was told.
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
            match self.look(view, events_before).await? {
                Found::Reset(place, revision) => {
                    (self.at, self.live) = (place, true);
                    return Ok(Some(Followed::Reset(revision)));
                }
                Found::Events(events) => {
                    // What comes all at once may take long to read without anybody being slow.
                    self.live = events.len() < BATCH_LEN;
                    self.ready.extend(events);
                }
                Found::Skip(place) => {
                    let was_beside = matches!(self.at, Place::Beside { .. });
                    self.at = place;
                    if let Some(head) = self.caught_up().filter(|_| was_beside) {
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

    /// The next event, if it was read together with one that was told.
    pub fn read_ahead(&mut self) -> Option<Arc<EventRecord>> {
        let (event, place) = self.ready.pop_front()?;
        self.at = place;
        if self.ready.is_empty() && self.live {
            self.paced.note_told();
        }
        Some(event)
    }

    /// Whether the next event was read together with one that was told.
    #[must_use]
    pub fn has_read_ahead(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Tells events of other keys than before, from the next ones that are read on.
    pub fn see(&mut self, seeing: Option<Seeing>) {
        self.filter.seeing = seeing;
    }

    /// How far the subscriber is: the `id` of a heartbeat. `None` while not every event up to the
    /// newest commit has been told, and before the first commit.
    #[must_use]
    pub fn caught_up(&self) -> Option<Revision> {
        match self.at {
            Place::After(Position { revision, seen: None }) if self.ready.is_empty() => {
                self.head().filter(|head| *head == revision)
            }
            Place::After(_) | Place::Beside { .. } | Place::Now | Place::Start => None,
        }
    }

    /// The head of the branch as the history knows it.
    #[must_use]
    pub fn head(&self) -> Option<Revision> {
        self.state.borrow().index.as_ref().and_then(|index| index.head())
    }

    fn newest(&mut self) -> Option<(View, u32)> {
        let state = self.state.borrow_and_update();
        let index = Arc::clone(state.index.as_ref()?);
        Some((View::new(Arc::clone(&self.shared), index), state.events_before))
    }

    /// Looks for what comes next, off the threads that answer requests where that reads the disk.
    async fn look(&self, view: View, events_before: u32) -> Result<Found, HistoryError> {
        let (at, filter) = (self.at, self.filter.clone());
        let had_its_chance = (self.live && !self.is_patient).then_some(events_before);
        if at == Place::at_head(&view) {
            return Ok(Found::Nothing);
        }
        if let Some(found) = look_at_hand(&view, at, had_its_chance, &filter) {
            return Ok(found);
        }
        let looked = tokio::task::spawn_blocking(move || look(&view, at, had_its_chance, &filter)).await;
        looked.unwrap_or_else(|_| Err(HistoryError::stopping()))
    }
}

/// The next few events after a place, if everything about them is at hand, as it is of those that
/// have just happened: nobody needs a thread for that.
fn look_at_hand(view: &View, at: Place, had_its_chance: Option<u32>, filter: &Filter) -> Option<Found> {
    let Place::After(position) = at else { return None };
    let commit = view.index.find(position.revision)?;
    if !view.index.forks().is_main(commit) {
        return None;
    }
    let from = view.seen_until(position).ok().flatten()?;
    let end = view.index.events_len();
    if (end - from) as usize >= BATCH_LEN || is_too_far(view, from, had_its_chance) {
        return None;
    }
    let mut events = Vec::new();
    for event in from..end {
        if filter.takes(view, event)? {
            events.push((view.record_at_hand(event)?, behind(view, at, Seen::before(from), event)));
        }
    }
    Some(if events.is_empty() { Found::Skip(Place::at_head(view)) } else { Found::Events(events) })
}

/// Whether a subscriber has fallen behind by more than it may.
fn is_too_far(view: &View, from: u32, had_its_chance: Option<u32>) -> bool {
    let lag = had_its_chance.map_or(0, |events| events.min(view.index.events_len()).saturating_sub(from));
    lag as usize > view.shared.options.lag_events_max
}

/// The place behind an event, of somebody who stood at another place before.
fn behind(view: &View, at: Place, seen: Seen, event: u32) -> Place {
    let (position, commit) = (view.position_of(event), view.index.event(event).commit);
    let own = match at {
        Place::Now | Place::Start => None,
        Place::After(own) => Some(own),
        Place::Beside { own, .. } => own,
    };
    let is_behind_all = view.index.forks().is_main(commit) && seen.beside.is_none_or(|(own, _)| commit > own);
    if is_behind_all { Place::After(position) } else { Place::Beside { own, told: position } }
}

/// Reads the next events after a place.
fn look(view: &View, at: Place, had_its_chance: Option<u32>, filter: &Filter) -> Result<Found, HistoryError> {
    let head = Place::at_head(view);
    let seen = match at {
        Place::Now => return Ok(Found::Skip(head)),
        Place::Start => Some(Seen::before(0)),
        Place::After(position) => view.seen(position)?,
        Place::Beside { own, told } => {
            let seen = own.map_or(Ok(Some(Seen::before(0))), |own| view.seen(own))?;
            let until = view.seen_until(told)?;
            seen.zip(until).map(|(seen, until)| Seen { until: until.max(seen.until), ..seen })
        }
    };
    let Some(seen) = seen else { return Ok(Found::Reset(head, view.head())) };
    let (from, end) = (seen.until, view.index.events_len());
    if is_too_far(view, from, had_its_chance) {
        view.shared.options.reached.count(Limit::LagEvents);
        return Ok(Found::Reset(head, view.head()));
    }
    let matching = match MatchingEvents::new(view, filter) {
        Ok(matching) => matching,
        // A collection that there is not yet may still come.
        Err(HistoryError::UnknownKey(_)) => return Ok(Found::Skip(head)),
        Err(error) => return Err(error),
    };
    let mut events = Vec::new();
    let is_wanted = |event: &u32| seen.is_news(&view.index, *event) && matching.fits(*event);
    for event in (from..end).filter(is_wanted).take(BATCH_LEN) {
        events.push((view.record(event)?, behind(view, at, seen, event)));
    }
    Ok(if events.is_empty() { Found::Skip(head) } else { Found::Events(events) })
}
