//! Which heads of the remote were seen, and in which order they were asked for.

use std::collections::VecDeque;

use crate::domain::Revision;

/// How many of the heads that were seen last are remembered.
const SEEN_MAX: usize = 64;

/// A head of the remote that somebody has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SeenHead {
    pub(crate) head: Option<Revision>,
    /// When it was asked for, or when the push that made it was answered.
    at: u64,
}

/// A moment between two exchanges with the remote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Since(u64);

/// What was seen, by looks and pushes that may overlap.
#[derive(Debug, Default)]
pub(crate) struct Sightings {
    newest: Option<SeenHead>,
    /// The heads that were seen last, each with the moment since which the remote has had it at some time.
    recent: VecDeque<(u64, Revision)>,
    /// Goes on by one with each look that begins and each push that begins or ends.
    clock: u64,
    /// When a push began or ended last.
    pushed_at: u64,
}

impl Sightings {
    pub(crate) const fn newest(&self) -> Option<SeenHead> {
        self.newest
    }

    /// The head that was seen last, if there was one.
    pub(crate) fn head(&self) -> Option<Revision> {
        self.newest.and_then(|newest| newest.head)
    }

    /// Whether it was asked for after all pushes of ours: what is seen while one is under way may be what was before it.
    pub(crate) const fn is_current(&self, seen: SeenHead) -> bool {
        seen.at >= self.pushed_at
    }

    pub(crate) const fn now(&self) -> Since {
        Since(self.clock)
    }

    /// Whether the remote has had a head at some time since then.
    pub(crate) fn has_been_at(&self, head: Revision, since: Since) -> bool {
        self.recent.iter().any(|(at, seen)| *at > since.0 && *seen == head)
    }

    pub(crate) const fn begin_look(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Whether something newer was seen since a look began.
    pub(crate) fn is_overtaken(&self, look: u64) -> bool {
        self.newest.is_some_and(|newest| newest.at > look)
    }

    /// Notes what a look has seen that goes on from `before`, the newest until then. What was asked for before and
    /// arrives after something newer says nothing; `false` then.
    pub(crate) fn saw(&mut self, look: u64, head: Option<Revision>, before: Option<SeenHead>) -> bool {
        let has_moved = self.newest != before;
        if has_moved && self.head() != head {
            return false;
        }
        let at = self.newest.map_or(look, |newest| newest.at.max(look));
        self.newest = Some(SeenHead { head, at });
        self.remember(look, head);
        true
    }

    pub(crate) const fn begin_push(&mut self) -> u64 {
        self.clock += 1;
        self.pushed_at = self.clock;
        self.clock
    }

    /// Notes that a push is answered, and by which head if it was accepted; `false` when a look has seen something
    /// else meanwhile, which may be newer.
    pub(crate) fn end_push(&mut self, push: u64, accepted: Option<Revision>) -> bool {
        self.clock += 1;
        self.pushed_at = self.clock;
        let Some(tip) = accepted else { return true };
        let is_sure = !self.is_overtaken(push) || self.head() == Some(tip);
        self.newest = Some(SeenHead { head: Some(tip), at: self.clock });
        self.remember(push, Some(tip));
        is_sure
    }

    fn remember(&mut self, at: u64, head: Option<Revision>) {
        let Some(head) = head else { return };
        self.recent.push_back((at, head));
        if self.recent.len() > SEEN_MAX {
            self.recent.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(digit: char) -> Option<Revision> {
        Some(digit.to_string().repeat(40).parse().unwrap())
    }

    fn at(digit: char) -> Sightings {
        let mut seen = Sightings::default();
        let look = seen.begin_look();
        assert!(seen.saw(look, revision(digit), None));
        seen
    }

    #[test]
    fn a_look_that_a_push_has_overtaken_says_nothing() {
        let mut seen = at('a');
        let push = seen.begin_push();
        let (since, look, before) = (seen.now(), seen.begin_look(), seen.newest());
        assert!(seen.end_push(push, revision('b')));
        assert!(seen.is_overtaken(look) && !seen.saw(look, revision('a'), before));
        assert_eq!(seen.head(), revision('b'));
        assert!(seen.is_current(seen.newest().unwrap()));
        assert!(
            !seen.has_been_at(revision('b').unwrap(), since),
            "another may have pushed before that moment"
        );
    }

    #[test]
    fn a_look_that_was_overtaken_and_has_seen_the_same_is_believed() {
        let mut seen = at('a');
        let push = seen.begin_push();
        let (since, look, before) = (seen.now(), seen.begin_look(), seen.newest());
        seen.end_push(push, revision('b'));
        assert!(seen.saw(look, revision('b'), before));
        assert!(seen.has_been_at(revision('b').unwrap(), since));
        assert!(seen.is_current(seen.newest().unwrap()));
    }

    #[test]
    fn what_was_seen_beside_a_push_is_not_current_when_it_ends() {
        let mut seen = at('a');
        let push = seen.begin_push();
        let (look, before) = (seen.begin_look(), seen.newest());
        assert!(seen.saw(look, revision('c'), before));
        assert!(seen.is_current(seen.newest().unwrap()));
        assert!(seen.end_push(push, None));
        assert!(!seen.is_current(seen.newest().unwrap()));
        assert_eq!(seen.head(), revision('c'));
    }

    #[test]
    fn after_a_push_beside_which_something_else_was_seen_nobody_knows_which_is_newer() {
        let mut seen = at('a');
        let push = seen.begin_push();
        let (look, before) = (seen.begin_look(), seen.newest());
        assert!(seen.saw(look, revision('c'), before));
        assert!(!seen.end_push(push, revision('b')));
        assert_eq!(seen.head(), revision('b'));
    }
}
