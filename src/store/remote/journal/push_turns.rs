//! Takes turns with other instances that push: the winner of a race lets the losers go first.
//!
//! An instance that has just pushed is ready to push again before the losers have fetched its commits, and would win
//! every race. Its writes gather while it waits, so that its next push carries more of them.

use std::time::{Duration, Instant};

/// The number of turns that others get after a push that was a race.
const TURNS_GIVEN: u32 = 2;

/// The longest time that others get.
const GIVEN_MAX: Duration = Duration::from_secs(1);

/// How often an instance that pushes all the time gives a turn to others that it does not know of: one that loses
/// every race leaves no trace.
const OFFERED_EVERY: Duration = Duration::from_secs(1);

/// What is known of other instances that push.
#[derive(Debug, Default)]
pub(super) struct PushTurns {
    /// The number of races lost since a push succeeded.
    pub(super) lost: u32,
    /// Whether another instance has pushed since our last push.
    is_raced: bool,
    given: Option<Given>,
    /// How long the last fetch took. The turn of another instance is a fetch of our push and a push of its own; given
    /// less time, it would meet our next push.
    fetch_took: Duration,
    offered_at: Option<Instant>,
}

/// The time given to others before our next push.
#[derive(Debug, Clone, Copy)]
struct Given {
    until: Instant,
    /// Whether other instances are known to push.
    are_known: bool,
}

impl PushTurns {
    pub(super) const fn lost(&mut self) {
        self.lost += 1;
        self.is_raced = true;
    }

    /// Records that others have pushed.
    pub(super) const fn met(&mut self) {
        self.is_raced = true;
    }

    pub(super) const fn fetched(&mut self, took: Duration) {
        self.fetch_took = took;
    }

    /// Records that our push is done, and how long it took.
    pub(super) fn pushed(&mut self, now: Instant, took: Duration) {
        let are_known = std::mem::take(&mut self.is_raced);
        let is_offered = self.offered_at.is_none_or(|at| now - at >= OFFERED_EVERY);
        let turns = if are_known { TURNS_GIVEN } else { u32::from(is_offered) };
        if turns > 0 {
            self.offered_at = Some(now);
            // The losers of a race have to fetch before the next one; an instance that waits here has fetched by then.
            let until = now + ((took + self.fetch_took) * turns + self.fetch_took).min(GIVEN_MAX);
            self.given = Some(Given { until, are_known });
        }
    }

    /// Returns when the turn of others ends, if they have one.
    pub(super) fn next_turn_at(&self) -> Option<Instant> {
        self.given.map(|given| given.until)
    }

    /// Returns, once, whether others that are known to push have had their turn.
    pub(super) fn is_over(&mut self, now: Instant) -> bool {
        self.given.take_if(|given| now >= given.until).is_some_and(|given| given.are_known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOK: Duration = Duration::from_millis(100);
    const FETCH: Duration = Duration::from_millis(50);

    #[test]
    fn who_was_faster_lets_others_come_first_once() {
        let (mut turn, now) = (PushTurns::default(), Instant::now());
        turn.lost();
        turn.pushed(now, TOOK);
        assert_eq!(turn.next_turn_at(), Some(now + 2 * TOOK));
        assert!(!turn.is_over(now));
        assert!(turn.is_over(now + 2 * TOOK));
        assert!(!turn.is_over(now + 2 * TOOK), "that is said once");
        turn.pushed(now, TOOK);
        assert_eq!(turn.next_turn_at(), None, "nobody else has come since");
        turn.met();
        turn.pushed(now, 60 * TOOK);
        assert_eq!(turn.next_turn_at(), Some(now + GIVEN_MAX));
    }

    #[test]
    fn others_have_the_time_to_fetch_before_they_push() {
        let (mut turn, now) = (PushTurns::default(), Instant::now());
        turn.lost();
        turn.fetched(FETCH);
        turn.pushed(now, TOOK);
        assert_eq!(turn.next_turn_at(), Some(now + 2 * (FETCH + TOOK) + FETCH));
    }

    #[test]
    fn who_pushes_alone_offers_a_turn_now_and_then() {
        let mut turn = PushTurns::default();
        let began = Instant::now();
        for now in [began, began + OFFERED_EVERY] {
            turn.pushed(now, TOOK);
            assert_eq!(turn.next_turn_at(), Some(now + TOOK));
            assert!(!turn.is_over(now + TOOK), "nobody is known to be there");
            turn.pushed(now + TOOK, TOOK);
            assert_eq!(turn.next_turn_at(), None);
        }
    }
}
