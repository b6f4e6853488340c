//! Pushes commits, and judges the outcome by commit ids.

use std::time::{Duration, Instant};

use crate::domain::Revision;
use crate::store::remote::error::RemoteError;
use crate::store::remote::journal::RemoteJournal;
use crate::store::remote::link::push_queue::REFUSALS_MAX;
use crate::store::remote::link::{LinkState, Pauses};
use crate::store::remote::transport::folder::PrivateRef;
use crate::store::remote::transport::pushed::PushOutcome;
use crate::store::{Journal as _, StoreError};

/// The number of attempts to push commits that were not sent, or after which the remote could not be fetched from.
const TRIES_MAX: u32 = 3;

/// The pauses between two attempts.
const PAUSES: Pauses = Pauses { least: Duration::from_millis(20), most: Duration::from_millis(250) };

/// The pauses after lost races: an instance that is late for the next race loses it too.
const RACE_PAUSES: Pauses = Pauses { least: Duration::from_millis(2), most: Duration::from_millis(250) };

/// The attempts to push a commit so far.
#[derive(Debug, Default)]
struct Tries {
    count: u32,
    refusals: u32,
    /// Whether one of them had no answer and may have arrived.
    is_unanswered: bool,
}

impl Tries {
    fn add(&mut self, pushed: &PushOutcome) {
        self.count += 1;
        self.is_unanswered |= matches!(pushed, PushOutcome::NoAnswer(_));
    }

    /// Returns why there is no further attempt, or `None` to try again. The remote was seen at the same head as before
    /// the last attempt, or could not be seen (`unseen`).
    fn verdict(
        &mut self,
        pushed: PushOutcome,
        unseen: Option<RemoteError>,
        is_over: bool,
    ) -> Option<RemoteError> {
        match (unseen, pushed) {
            (None, PushOutcome::Answered(why)) => {
                self.refusals += 1;
                // A push without an answer may still be held up there, and land.
                let why =
                    if self.is_unanswered { RemoteError::OutcomeUnknown } else { RemoteError::Refused(why) };
                (self.refusals >= REFUSALS_MAX).then_some(why)
            }
            _ if self.is_unanswered => None,
            (None, PushOutcome::NotSent(why)) if self.count >= TRIES_MAX => {
                Some(RemoteError::Unreachable(why))
            }
            (Some(error), _) if self.count >= TRIES_MAX || is_over => Some(error),
            _ => None,
        }
    }
}

impl RemoteJournal {
    /// Fetches from a folder remote when its branch has moved, and from any other when the instances that are known to
    /// push have had their turn: most likely they have pushed. A write decided on the old head would come too late;
    /// only answers that do not rest on the remote continue in the meantime.
    pub(super) fn peek(&mut self) {
        let have_had_turn = self.turn.is_over(Instant::now()) && self.link.git.url().folder().is_none();
        if !have_had_turn && !self.link.has_folder_remote_moved() {
            return;
        }
        if self.link.is_local() || !self.link.is_up() {
            return self.link.request_poll();
        }
        if let Err(error) = self.fetch(self.link.deadline()) {
            self.link.note_unreachable(&error);
        }
    }

    fn fetch(&mut self, until: Instant) -> Result<Option<Revision>, RemoteError> {
        let began = Instant::now();
        let head = self.link.fetch(PrivateRef::Judged, until);
        self.turn.fetched(began.elapsed());
        head
    }

    /// Records a race that is lost before any commit is made: a folder remote has left the head that a write was
    /// decided on.
    pub(super) fn note_late(&mut self) {
        if self.link.is_local() || !self.link.has_folder_remote_moved() {
            return;
        }
        self.pause_after_races(self.link.deadline());
        self.turn.lost();
        self.link.lost_a_race();
    }

    fn pause_after_races(&self, until: Instant) {
        if self.turn.lost > 0 {
            RACE_PAUSES.pause(self.turn.lost, until);
        }
    }

    /// Pushes commits of writes, or those that go with them. After a refusal, a write is tried only now and then.
    pub(super) fn push(&mut self, lease: Option<Revision>, tip: Revision) -> Result<(), StoreError> {
        let pushed = self.push_and_judge(lease, tip);
        if let Err(StoreError::Remote(RemoteError::Refused(why))) = &pushed {
            self.link.note_refused(why);
        }
        pushed
    }

    /// Pushes, and determines the outcome.
    pub(super) fn push_and_judge(
        &mut self,
        lease: Option<Revision>,
        tip: Revision,
    ) -> Result<(), StoreError> {
        let until = self.link.deadline();
        // If the remote is known to refuse, one more push shows whether it still does.
        let refusals = u32::from(self.link.status().state == LinkState::Refused);
        let mut tries = Tries { refusals, ..Tries::default() };
        loop {
            let pushed = self.link.push(tip, lease, until);
            if pushed == PushOutcome::Accepted {
                self.note_landed();
                return Ok(());
            }
            tracing::debug!(?pushed, %tip, "a push was not accepted");
            tries.add(&pushed);
            let is_over = Instant::now() >= until || self.link.is_ended();
            if tries.is_unanswered && is_over {
                return Err(self.gave_up(lease, tip, RemoteError::OutcomeUnknown));
            }
            self.pause_after_races(until);
            let fetched = self.fetch(until);
            match fetched {
                Ok(Some(head)) if self.inner.commits().descends(head, tip)? => {
                    self.note_landed();
                    self.link.notify_siblings(tip);
                    return Ok(());
                }
                // After a push without an answer, only the newest look says what has become of it.
                Ok(head)
                    if head != lease
                        && (!tries.is_unanswered || self.link.known().seen_heads.head() == head) =>
                {
                    self.turn.lost();
                    self.link.lost_a_race();
                    return Err(StoreError::HeadMoved { expected: lease, found: head });
                }
                _ => {}
            }
            if let Some(error) = tries.verdict(pushed, fetched.err(), is_over) {
                return Err(self.gave_up(lease, tip, error));
            }
            PAUSES.pause(tries.count, until);
        }
    }

    fn note_landed(&mut self) {
        self.turn.lost = 0;
        self.link.note_up();
    }

    /// Records why a push is not tried again.
    fn gave_up(&self, lease: Option<Revision>, tip: Revision, why: RemoteError) -> StoreError {
        match &why {
            RemoteError::OutcomeUnknown => self.link.note_outcome_unknown(lease, tip),
            RemoteError::Refused(_) => {}
            why => self.link.note_unreachable(why),
        }
        why.into()
    }

    /// Determines the outcome of commits whose push had no answer.
    pub(super) fn resolve_unknown_push(&mut self) -> Result<(), StoreError> {
        let (pending, seen_head) = {
            let known = self.link.known();
            (known.pending.clone(), known.seen_heads.newest())
        };
        let (Some(pending), Some(seen_head)) = (pending, seen_head) else { return Ok(()) };
        let is_seen_since = self.link.is_current(seen_head);
        let head = seen_head.head.filter(|_| is_seen_since);
        let has_landed = match (&pending.pushed, head) {
            (Some(PushOutcome::Accepted), _) => true,
            (_, Some(head)) => self.inner.commits().descends(head, pending.tip)?,
            (_, None) => false,
        };
        if has_landed {
            tracing::info!(tip = %pending.tip, "the remote has taken the push that it did not answer");
            self.link.note_outcome_known();
            let local = self.inner.head()?;
            if local == pending.lease {
                self.advance(local, pending.tip, "pushed to the remote")?;
            }
            return Ok(());
        }
        if !is_seen_since {
            return Ok(());
        }
        match (&pending.pushed, seen_head.head == pending.lease) {
            (Some(PushOutcome::Answered(why)), true) => {
                self.link.note_outcome_known();
                self.link.note_refused(why);
            }
            // The push may still be under way.
            (_, true) => {}
            // Its lease names the former head, so it can't land any more.
            (_, false) => self.link.note_outcome_known(),
        }
        Ok(())
    }

    /// Asks the remote to confirm that this is still its head.
    pub(super) fn confirm(&mut self, head: Option<Revision>) -> Result<(), StoreError> {
        self.link.check_reachable()?;
        let until = self.link.deadline();
        let found =
            self.link.git.remote_head(until).inspect_err(|error| self.link.note_unreachable(error))?;
        if found == head || found == self.base && self.base.is_some() {
            return Ok(());
        }
        match self.fetch(until) {
            Ok(found) => Err(StoreError::HeadMoved { expected: head, found }),
            // A replica may lag behind; the side that takes pushes does not.
            Err(_)
                if head.is_some_and(|head| self.link.git.ask_writing_side(head, until) == Ok(Some(head))) =>
            {
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the verdict after each of several attempts that leave the remote unchanged.
    fn verdicts(pushed: &[PushOutcome]) -> Vec<Option<RemoteError>> {
        let mut tries = Tries::default();
        let verdict = |pushed: &PushOutcome| {
            tries.add(pushed);
            tries.verdict(pushed.clone(), None, false)
        };
        pushed.iter().map(verdict).collect()
    }

    #[test]
    fn a_refusal_is_believed_the_second_time_and_never_after_a_push_without_an_answer() {
        let [answered, sent] = [PushOutcome::Answered("no".into()), PushOutcome::NoAnswer("gone".into())];
        let refused = RemoteError::Refused("no".into());
        assert_eq!(verdicts(&[answered.clone(), answered.clone()]), [None, Some(refused)]);
        let unknown = verdicts(&[sent, answered.clone(), answered]);
        assert_eq!(unknown, [None, None, Some(RemoteError::OutcomeUnknown)]);
    }

    #[test]
    fn a_remote_is_away_when_three_tries_have_not_reached_it_and_none_may_have() {
        let unsent = || PushOutcome::NotSent("no route".into());
        let away = RemoteError::Unreachable("no route".into());
        assert_eq!(verdicts(&[unsent(), unsent(), unsent()]), [None, None, Some(away)]);
        assert_eq!(verdicts(&[PushOutcome::NoAnswer("gone".into()), unsent(), unsent()]), [None, None, None]);
    }

    #[test]
    fn a_remote_that_was_not_seen_after_a_push_is_asked_until_the_time_is_over() {
        let mut tries = Tries::default();
        let pushed = PushOutcome::Answered("no".into());
        tries.add(&pushed);
        assert_eq!(tries.verdict(pushed.clone(), Some(RemoteError::Lagging), false), None);
        assert_eq!(tries.verdict(pushed, Some(RemoteError::Lagging), true), Some(RemoteError::Lagging));
    }
}
