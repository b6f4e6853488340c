//! Whose turn it is to push where several services do: who was faster lets those come first who were not.
//!
//! Who has pushed is ready to push again before those who lost have fetched what came, and would win every race. What it
//! has to write gathers while it waits, so that its next push carries more of it.

use std::time::{Duration, Instant};

/// So many turns of others come first after a push that was a race.
const TURNS_GIVEN: u32 = 2;

/// The longest that others come first.
const GIVEN_MAX: Duration = Duration::from_secs(1);

/// How often a service that pushes all the time lets others come first of whom it knows nothing: who loses each race
/// leaves no trace.
const OFFERED_EVERY: Duration = Duration::from_secs(1);

/// What is known of the others who push.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// How many races were lost since a push was not.
    pub(super) lost: u32,
    /// Whether somebody else has pushed since our last push.
    is_raced: bool,
    /// When our last push was done and how long it took, until others have had their turn.
    pushed: Option<(Instant, Duration)>,
    /// How long the last fetch took. The turn of another is a fetch of what we have pushed and a push: whoever gives it
    /// less time is back in the middle of it.
    fetch_took: Duration,
    offered_at: Option<Instant>,
}

impl Turn {
    pub(super) const fn lost(&mut self) {
        self.lost += 1;
        self.is_raced = true;
    }

    /// Others have pushed.
    pub(super) const fn met(&mut self) {
        self.is_raced = true;
    }

    pub(super) const fn fetched(&mut self, took: Duration) {
        self.fetch_took = took;
    }

    pub(super) const fn pushed(&mut self, now: Instant, took: Duration) {
        self.pushed = Some((now, took));
    }

    /// How long others come first now, and whether they are known to be there.
    pub(super) fn given(&mut self, now: Instant) -> (Duration, bool) {
        let Some((at, took)) = self.pushed.take() else { return (Duration::ZERO, false) };
        let is_raced = std::mem::take(&mut self.is_raced);
        let turns = match self.offered_at {
            _ if is_raced => TURNS_GIVEN,
            Some(offered_at) if now - offered_at < OFFERED_EVERY => 0,
            _ => 1,
        };
        if turns > 0 {
            self.offered_at = Some(now);
        }
        (((took + self.fetch_took) * turns).min(GIVEN_MAX).saturating_sub(now - at), is_raced)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOK: Duration = Duration::from_millis(100);
    const FETCH: Duration = Duration::from_millis(50);

    #[test]
    fn who_was_faster_lets_others_come_first_once() {
        let (mut turn, now) = (Turn::default(), Instant::now());
        turn.lost();
        turn.pushed(now, TOOK);
        assert_eq!(turn.given(now), (2 * TOOK, true));
        assert_eq!(turn.given(now), (Duration::ZERO, false), "they have had their turn");
        turn.pushed(now, TOOK);
        assert_eq!(turn.given(now), (Duration::ZERO, false), "nobody else has come since");
        turn.met();
        turn.pushed(now, TOOK);
        assert_eq!(turn.given(now + TOOK), (TOOK, true), "what has gone by counts");
        turn.met();
        turn.pushed(now, 60 * TOOK);
        assert_eq!(turn.given(now), (GIVEN_MAX, true));
    }

    #[test]
    fn others_have_the_time_to_fetch_before_they_push() {
        let (mut turn, now) = (Turn::default(), Instant::now());
        turn.lost();
        turn.fetched(FETCH);
        turn.pushed(now, TOOK);
        assert_eq!(turn.given(now), (2 * (FETCH + TOOK), true));
    }

    #[test]
    fn who_pushes_alone_offers_a_turn_now_and_then() {
        let (mut turn, now) = (Turn::default(), Instant::now());
        for at in [now, now + OFFERED_EVERY] {
            turn.pushed(at, TOOK);
            assert_eq!(turn.given(at), (TOOK, false));
            turn.pushed(at + TOOK, TOOK);
            assert_eq!(turn.given(at + TOOK), (Duration::ZERO, false));
        }
        turn.pushed(now + 2 * OFFERED_EVERY, TOOK);
        assert_eq!(turn.given(now + 3 * OFFERED_EVERY), (Duration::ZERO, false), "it was not in a hurry");
    }
}
