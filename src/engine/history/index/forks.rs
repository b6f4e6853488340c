//! Forks in the commit numbers, at merges made by the service: commits that do not just follow the one before.
//!
//! ```text
//! base ── R1 ── R2 ────────── M       first parents: the remote's line
//!    └──────────── s1 ── s2 ──┘       acknowledged elsewhere in the meantime
//! 0      1     2   3     4    5       numbers: the parent of s1 is 0, those of M are 2 and 4
//! ```

use std::ops::Range;

use imbl::{OrdMap, OrdSet};

/// A commit that does not just follow the commit before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fork {
    /// The first of the commits that a merge brings in, which end right before it; for any other commit, itself.
    pub(crate) start: u32,
    /// Its first parent, if that is in the index.
    pub(crate) onto: Option<u32>,
    /// Whether it is along first parents, so that every commit before it is an ancestor.
    pub(crate) is_main: bool,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Forks {
    by_commit: OrdMap<u32, Fork>,
    /// The suppressed events of merges: the events of the sides already report everything (`event::decided`).
    suppressed: OrdSet<u32>,
}

impl Forks {
    pub(crate) fn insert(&mut self, commit: u32, fork: Fork) {
        self.by_commit.insert(commit, fork);
    }

    pub(crate) fn get(&self, commit: u32) -> Option<Fork> {
        self.by_commit.get(&commit).copied()
    }

    /// Returns the fork of a merge that brings in other commits.
    pub(crate) fn join(&self, commit: u32) -> Option<Fork> {
        self.get(commit).filter(|fork| fork.start < commit)
    }

    /// Removes every commit but the first `len`, and every event but the first `events`.
    pub(crate) fn truncate(&mut self, len: u32, events: u32) {
        self.by_commit = self.by_commit.split(&len).0;
        self.suppressed = std::mem::take(&mut self.suppressed).split(&events).0;
    }

    /// Suppresses an event.
    pub(crate) fn suppress(&mut self, event: u32) {
        self.suppressed.insert(event);
    }

    /// Reports whether an event is suppressed: it is not reported, but its file still takes effect.
    pub(crate) fn is_suppressed(&self, event: u32) -> bool {
        !self.suppressed.is_empty() && self.suppressed.contains(&event)
    }

    /// Returns the suppressed ones of these events.
    pub(crate) fn suppressed(&self, events: Range<u32>) -> impl Iterator<Item = u32> + '_ {
        let some = (!events.is_empty()).then_some(events);
        some.into_iter().flat_map(|events| self.suppressed.range(events)).copied()
    }

    fn before(&self, commit: u32) -> Option<Fork> {
        if self.by_commit.is_empty() {
            return None;
        }
        self.by_commit.get_prev(&commit).map(|(_, fork)| *fork)
    }

    /// Returns the commit `steps` first parents back, if the index has that many.
    pub(crate) fn back(&self, commit: u32, steps: u32) -> Option<u32> {
        let (mut at, mut left) = (commit, steps);
        while let Some((number, fork)) =
            self.by_commit.get_prev(&at).filter(|(number, _)| left > at - **number)
        {
            left -= at - number + 1;
            at = fork.onto?;
        }
        at.checked_sub(left)
    }

    /// Reports whether a commit is along first parents.
    pub(crate) fn is_main(&self, commit: u32) -> bool {
        self.before(commit).is_none_or(|fork| fork.is_main)
    }

    /// Reports whether `commit` is an ancestor of `from`, or `from` itself.
    pub(crate) fn reaches(&self, from: u32, commit: u32) -> bool {
        let mut at = from;
        while commit <= at {
            match self.before(at) {
                None => return true,
                Some(fork) if fork.is_main || commit >= fork.start => return true,
                Some(Fork { onto: Some(onto), .. }) => at = onto,
                Some(Fork { onto: None, .. }) => return false,
            }
        }
        false
    }

    /// Returns the lowest number of a commit that this one does not reach.
    pub(crate) fn first_beyond(&self, commit: u32) -> u32 {
        let (mut at, mut first) = (commit, commit + 1);
        while let Some(fork) = self.before(at).filter(|fork| !fork.is_main) {
            let Some(onto) = fork.onto else { return 0 };
            if onto + 1 < fork.start {
                first = onto + 1;
            }
            at = onto;
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_in_by_a_merge_has_a_past_of_its_own() {
        let mut forks = Forks::default();
        forks.insert(3, Fork { start: 3, onto: Some(0), is_main: false });
        forks.insert(5, Fork { start: 3, onto: Some(2), is_main: true });
        let past = |from: u32| (0..7).filter(|commit| forks.reaches(from, *commit)).collect::<Vec<_>>();
        assert_eq!(past(2), [0, 1, 2]);
        assert_eq!(past(4), [0, 3, 4]);
        assert_eq!(past(6), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!((forks.first_beyond(4), forks.first_beyond(2)), (1, 3));
        assert_eq!([2, 3, 4, 5, 6].map(|commit| forks.is_main(commit)), [true, false, false, true, true]);
        let line = |from: u32| (0..7).map_while(|steps| forks.back(from, steps)).collect::<Vec<_>>();
        assert_eq!(line(2), [2, 1, 0]);
        assert_eq!(line(4), [4, 3, 0]);
        assert_eq!(line(6), [6, 5, 2, 1, 0]);
    }

    #[test]
    fn a_merge_that_lost_its_race_stands_in_what_the_next_one_brings() {
        // 0 base, 1 R1, 2 R2, 3 s1, 4 M1 of R1 and s1, 5 s2, 6 M2 of R2 and s2.
        let mut forks = Forks::default();
        forks.insert(3, Fork { start: 3, onto: Some(0), is_main: false });
        forks.insert(4, Fork { start: 3, onto: Some(1), is_main: false });
        forks.insert(6, Fork { start: 3, onto: Some(2), is_main: true });
        let past = |from: u32| (0..7).filter(|commit| forks.reaches(from, *commit)).collect::<Vec<_>>();
        assert_eq!(past(3), [0, 3]);
        assert_eq!(past(5), [0, 1, 3, 4, 5]);
        assert_eq!((forks.first_beyond(3), forks.first_beyond(5)), (1, 2));
        assert_eq!(forks.join(4).map(|fork| fork.start), Some(3));
        assert_eq!(forks.join(3), None);
    }
}
