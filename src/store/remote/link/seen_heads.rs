//! The heads of the remote that were seen, in the order of the requests that showed them.

use std::collections::VecDeque;

use crate::domain::Revision;

/// The number of heads that are remembered.
const SEEN_MAX: usize = 64;

/// A head of the remote, as it was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SeenHead {
    pub(crate) head: Option<Revision>,
    /// The logical time when it was requested, or when the push that made it was answered.
    at: u64,
}

/// A logical time between two exchanges with the remote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogicalTime(u64);

/// The heads seen by fetches and pushes, which may overlap.
#[derive(Debug, Default)]
pub(crate) struct SeenHeads {
    newest: Option<SeenHead>,
    /// The last heads seen, each with a logical time after which the remote had it at some point.
    recent: VecDeque<(u64, Revision)>,
    /// The logical clock: advances by one when a fetch begins and when a push begins or ends.
    clock: u64,
    /// When a push last began or ended.
    pushed_at: u64,
}

impl SeenHeads {
    pub(crate) const fn newest(&self) -> Option<SeenHead> {
        self.newest
    }

    /// The head that was seen last, if the branch exists there.
    pub(crate) fn head(&self) -> Option<Revision> {
        self.newest.and_then(|newest| newest.head)
    }

    /// Returns whether the head was requested after all our pushes: one seen during a push may be from before it.
    pub(crate) const fn is_current(&self, seen: SeenHead) -> bool {
        seen.at >= self.pushed_at
    }

    pub(crate) const fn now(&self) -> LogicalTime {
        LogicalTime(self.clock)
    }

    /// Returns whether the remote was at `head` at some point after `since`.
    pub(crate) fn has_been_at(&self, head: Revision, since: LogicalTime) -> bool {
        self.recent.iter().any(|(at, seen)| *at > since.0 && *seen == head)
    }

    pub(crate) const fn begin_poll(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    pub(crate) fn is_overtaken(&self, poll: u64) -> bool {
        self.newest.is_some_and(|newest| newest.at > poll)
    }

    /// Records what a fetch has seen, which follows from `before`, the newest head until then. A result that arrives
    /// after something newer was seen proves nothing; returns `false` then.
    pub(crate) fn saw(&mut self, poll: u64, head: Option<Revision>, before: Option<SeenHead>) -> bool {
        let has_moved = self.newest != before;
        if has_moved && self.head() != head {
            return false;
        }
        let at = self.newest.map_or(poll, |newest| newest.at.max(poll));
        self.newest = Some(SeenHead { head, at });
        self.remember(poll, head);
        true
    }

    pub(crate) const fn begin_push(&mut self) -> u64 {
        self.clock += 1;
        self.pushed_at = self.clock;
        self.clock
    }

    /// Records that a push was answered, and its commit if it was accepted. Returns `false` when a fetch has seen
    /// something else in the meantime, which may be newer.
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

    fn at(digit: char) -> SeenHeads {
        let mut seen = SeenHeads::default();
        let poll = seen.begin_poll();
        assert!(seen.saw(poll, revision(digit), None));
        seen
    }

    #[test]
    fn a_look_that_a_push_has_overtaken_says_nothing() {
        let mut seen = at('a');
        let push = seen.begin_push();
        let (since, poll, before) = (seen.now(), seen.begin_poll(), seen.newest());
        assert!(seen.end_push(push, revision('b')));
        assert!(seen.is_overtaken(poll) && !seen.saw(poll, revision('a'), before));
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
        let (since, poll, before) = (seen.now(), seen.begin_poll(), seen.newest());
        seen.end_push(push, revision('b'));
        assert!(seen.saw(poll, revision('b'), before));
        assert!(seen.has_been_at(revision('b').unwrap(), since));
        assert!(seen.is_current(seen.newest().unwrap()));
    }

    #[test]
    fn what_was_seen_beside_a_push_is_not_current_when_it_ends() {
        let mut seen = at('a');
        let push = seen.begin_push();
        let (poll, before) = (seen.begin_poll(), seen.newest());
        assert!(seen.saw(poll, revision('c'), before));
        assert!(seen.is_current(seen.newest().unwrap()));
        assert!(seen.end_push(push, None));
        assert!(!seen.is_current(seen.newest().unwrap()));
        assert_eq!(seen.head(), revision('c'));
    }

    #[test]
    fn after_a_push_beside_which_something_else_was_seen_nobody_knows_which_is_newer() {
        let mut seen = at('a');
        let push = seen.begin_push();
        let (poll, before) = (seen.begin_poll(), seen.newest());
        assert!(seen.saw(poll, revision('c'), before));
        assert!(!seen.end_push(push, revision('b')));
        assert_eq!(seen.head(), revision('b'));
    }
}
