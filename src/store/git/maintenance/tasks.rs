//! What the housekeeping is to do, and when; see `runner` for the thread that does it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::store::git::maintenance::loose_objects::Looked;
use crate::store::git::object::id::Oid;

/// How many times as long as it worked the housekeeping rests: it takes a quarter of a core at most.
const REST_FACTOR: u32 = 3;

/// For how long nobody must have written before the parts of merged packs are removed: a person who
/// checks the repository after some writes has done so by then, see `merge_packs`.
const SWEEP_WAIT: Duration = Duration::from_secs(600);

/// How long no one looks for loose objects after nothing was found to do: looking takes a while where
/// they are many.
const LOOSE_LOOK_WAIT: Duration = Duration::from_secs(60);

/// How long no one looks for lost indexes after that was done; meanwhile a reader may miss objects.
const MEND_LOOK_WAIT: Duration = Duration::from_millis(200);

/// How long no one looks for commits that the commit-graph lacks after that was done.
const GRAPH_LOOK_WAIT: Duration = Duration::from_secs(60);

/// How long no figures are told after some were.
const FIGURES_WAIT: Duration = Duration::from_secs(3_600);

/// Something to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Chore {
    /// The file system of this work tree, which was brought to this revision.
    Flush(PathBuf, Oid),
    /// Packs of ours that have lost their index.
    Mend,
    /// One merge.
    Merge,
    /// The parts of merged packs.
    Sweep,
    /// One pack of loose objects.
    PackLoose,
    /// The commit-graph, by another process.
    Graph,
    /// What has come of it all.
    Figures,
}

/// What came of a chore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// There is no more of it to do.
    Done,
    /// Lost indexes were looked for.
    Mended {
        /// Whether more may get lost.
        again: bool,
    },
    /// Packs were merged, and there may be more.
    Merged,
    /// Loose objects were looked for.
    Looked(Looked),
    /// The commit-graph was looked at, and perhaps written.
    Graph {
        /// Whether it was.
        is_written: bool,
    },
}

/// What there is to do now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// This.
    Now(Chore),
    /// Nothing yet; look again after this time, or when something is wished.
    Later(Option<Duration>),
}

/// A chore that is due at a time, but not too often.
#[derive(Debug, Default)]
struct Planned {
    at: Option<Instant>,
    not_before: Option<Instant>,
}

impl Planned {
    /// Has it done at a time, if not earlier.
    fn plan(&mut self, at: Instant) {
        let at = self.not_before.map_or(at, |earliest| at.max(earliest));
        self.at = Some(self.at.map_or(at, |planned| planned.min(at)));
    }

    /// Has it done no earlier than at a time, planned or not.
    fn postpone(&mut self, until: Instant) {
        self.not_before = Some(until);
        self.at = self.at.map(|at| at.max(until));
    }

    fn is_done(&self, now: Instant) -> bool {
        self.at.is_none_or(|at| at > now)
    }

    /// How long until it is due, and everything has rested.
    fn wait(&self, now: Instant, rest: Duration) -> Option<Duration> {
        self.at.map(|at| at.saturating_duration_since(now).max(rest))
    }
}

/// Everything that is wished for.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    flush: Option<(PathBuf, Oid)>,
    mend: Planned,
    merge: bool,
    // When to remove the parts of merged packs.
    sweep_at: Option<Instant>,
    loose: Planned,
    graph: Planned,
    figures: Planned,
    // A chore is under way.
    is_busy: bool,
    // Beside which the graph may be.
    is_graph_busy: bool,
    // Someone waits for the end, so there is no rest.
    hurry: bool,
    // No other tidying begins before.
    rested_at: Option<Instant>,
    // A chore has panicked.
    given_up: bool,
}

impl Wishes {
    /// Wishes for the flush of a work tree.
    pub(crate) fn flush(&mut self, root: PathBuf, revision: Oid) {
        self.flush = Some((root, revision));
    }

    /// Wishes for packs to be whole.
    pub(crate) fn mend(&mut self, now: Instant) {
        if !self.given_up {
            self.mend.plan(now);
        }
    }

    /// Wishes for all that makes reading faster, and for what removes objects only if that may be.
    /// Somebody has just written, so that parts of merged packs stay for a while, unless there are
    /// `too_many`.
    pub(crate) fn tidy(&mut self, now: Instant, may_remove: bool, too_many: bool) {
        if self.given_up {
            return;
        }
        self.graph.plan(now);
        if may_remove {
            self.merge = true;
            self.loose.plan(now);
        }
        if self.sweep_at.is_some() {
            self.sweep_at = Some(if too_many { now } else { now + SWEEP_WAIT });
        }
    }

    /// Wishes that there be no rest, or that there be.
    pub(crate) const fn hurry(&mut self, hurry: bool) {
        self.hurry = hurry;
    }

    /// Plans on what came of a chore that took so long and ended now.
    pub(crate) fn go_on(&mut self, now: Instant, chore: &Chore, took: Duration, outcome: Outcome) {
        match chore {
            Chore::Graph => self.is_graph_busy = false,
            Chore::Flush(..)
            | Chore::Mend
            | Chore::Merge
            | Chore::Sweep
            | Chore::PackLoose
            | Chore::Figures => {
                self.is_busy = false;
            }
        }
        if !matches!(chore, Chore::Flush(..) | Chore::Mend) {
            let rested_at = now + took * REST_FACTOR;
            self.rested_at = Some(self.rested_at.map_or(rested_at, |at| at.max(rested_at)));
        }
        match outcome {
            Outcome::Done => (),
            Outcome::Mended { again } => {
                self.mend.postpone(now + MEND_LOOK_WAIT);
                if again {
                    self.mend.plan(now);
                }
            }
            Outcome::Merged => {
                self.merge = true;
                self.sweep_at.get_or_insert(now + SWEEP_WAIT);
                self.figures.plan(now);
            }
            Outcome::Looked(Looked::Packed) => {
                self.loose.plan(now);
                self.figures.plan(now);
            }
            Outcome::Looked(Looked::Nothing { again_in }) => {
                self.loose.postpone(now + LOOSE_LOOK_WAIT);
                again_in.into_iter().for_each(|wait| self.loose.plan(now + wait));
            }
            Outcome::Graph { is_written } => {
                self.graph.postpone(now + GRAPH_LOOK_WAIT);
                if is_written {
                    self.figures.plan(now);
                }
            }
        }
    }

    /// Wishes for no tidying any more, whatever is under way.
    pub(crate) fn give_up(&mut self) {
        *self = Self {
            flush: self.flush.take(),
            is_busy: self.is_busy,
            is_graph_busy: self.is_graph_busy,
            hurry: self.hurry,
            given_up: true,
            ..Self::default()
        };
    }

    /// Whether there is nothing to do at this time.
    pub(crate) fn are_done(&self, now: Instant) -> bool {
        let is_swept = self.sweep_at.is_none_or(|at| at > now && !self.hurry);
        let is_idle = !self.is_busy && !self.is_graph_busy && !self.merge && self.flush.is_none();
        is_idle
            && is_swept
            && [&self.mend, &self.loose, &self.graph, &self.figures]
                .iter()
                .all(|planned| planned.is_done(now))
    }

    /// Whether something was done that no figures were told of.
    pub(crate) const fn owe_figures(&self) -> bool {
        self.figures.at.is_some()
    }

    /// Takes what is due.
    pub(crate) fn take(&mut self, now: Instant, is_crowd: bool) -> Due {
        if let Some((root, revision)) = self.flush.take() {
            self.is_busy = true;
            return Due::Now(Chore::Flush(root, revision));
        }
        let mend = self.mend.wait(now, Duration::ZERO);
        if mend == Some(Duration::ZERO) {
            self.begin(now, &Chore::Mend);
            return Due::Now(Chore::Mend);
        }
        if self.sweep_at.is_some_and(|at| at <= now || (self.hurry && !self.merge)) {
            self.begin(now, &Chore::Sweep);
            return Due::Now(Chore::Sweep);
        }
        let sweep = self.sweep_at.map(|at| at.saturating_duration_since(now));
        let anyhow = mend.into_iter().chain(sweep).min();
        let is_urgent = self.hurry || is_crowd;
        if self.is_graph_busy && !is_urgent {
            // Its end is told.
            return Due::Later(anyhow);
        }
        let rested_at = self.rested_at.filter(|_| !is_urgent);
        let rest = rested_at.map_or(Duration::ZERO, |at| at.saturating_duration_since(now));
        let waits = [
            (Chore::Merge, self.merge.then_some(rest)),
            (Chore::PackLoose, self.loose.wait(now, rest)),
            (Chore::Graph, self.graph.wait(now, rest).filter(|_| !self.is_graph_busy)),
            (Chore::Figures, self.figures.wait(now, rest).filter(|_| !self.is_graph_busy)),
        ];
        let first =
            waits.into_iter().filter_map(|(chore, wait)| Some((wait?, chore))).min_by_key(|(wait, _)| *wait);
        match first {
            Some((Duration::ZERO, chore)) => {
                self.begin(now, &chore);
                Due::Now(chore)
            }
            Some((wait, _)) => Due::Later(Some(anyhow.map_or(wait, |sooner| sooner.min(wait)))),
            None => Due::Later(anyhow),
        }
    }

    fn begin(&mut self, now: Instant, chore: &Chore) {
        self.is_busy |= *chore != Chore::Graph;
        match chore {
            Chore::Flush(..) => self.flush = None,
            Chore::Mend => self.mend.at = None,
            Chore::Merge => self.merge = false,
            Chore::Sweep => self.sweep_at = None,
            Chore::PackLoose => self.loose.at = None,
            Chore::Graph => (self.graph.at, self.is_graph_busy) = (None, true),
            Chore::Figures => (self.figures.at, self.figures.not_before) = (None, Some(now + FIGURES_WAIT)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn flush() -> (PathBuf, Oid) {
        (PathBuf::from("work tree"), [1; 20])
    }

    /// Carries out what is due, in no time.
    fn carry_out(wishes: &mut Wishes, now: Instant, outcome: Outcome) -> Chore {
        let Due::Now(chore) = wishes.take(now, false) else { panic!("nothing is due: {wishes:?}") };
        wishes.go_on(now, &chore, Duration::ZERO, outcome);
        chore
    }

    #[test]
    fn a_flush_waits_for_no_merge_that_rests_and_does_not_shorten_the_rest() {
        let now = Instant::now();
        let mut wishes =
            Wishes { merge: true, flush: Some(flush()), rested_at: Some(now + MINUTE), ..Wishes::default() };
        let (root, revision) = flush();
        assert_eq!(carry_out(&mut wishes, now, Outcome::Done), Chore::Flush(root, revision));
        assert_eq!(wishes.take(now, false), Due::Later(Some(MINUTE)));
        assert_eq!(wishes.take(now + MINUTE, false), Due::Now(Chore::Merge));
        assert_eq!(wishes.take(now + MINUTE, false), Due::Later(None));
    }

    #[test]
    fn lost_indexes_are_looked_for_before_all_else_and_again_as_long_as_git_collects() {
        let now = Instant::now();
        let mut wishes = Wishes { merge: true, rested_at: Some(now + MINUTE), ..Wishes::default() };
        wishes.mend(now);
        assert_eq!(carry_out(&mut wishes, now, Outcome::Mended { again: true }), Chore::Mend);
        wishes.mend(now);
        assert_eq!(wishes.take(now, false), Due::Later(Some(MEND_LOOK_WAIT)));
        let later = now + MEND_LOOK_WAIT;
        assert_eq!(carry_out(&mut wishes, later, Outcome::Mended { again: false }), Chore::Mend);
        assert_eq!(wishes.take(later, false), Due::Later(Some(MINUTE - MEND_LOOK_WAIT)));
    }

    #[test]
    fn loose_objects_are_looked_for_again_when_they_are_old_enough_and_not_too_often() {
        let now = Instant::now();
        let mut wishes = Wishes::default();
        wishes.tidy(now, true, false);
        assert_eq!(carry_out(&mut wishes, now, Outcome::Done), Chore::Merge);
        let again_in = Some(2 * LOOSE_LOOK_WAIT);
        let nothing = Outcome::Looked(Looked::Nothing { again_in });
        assert_eq!(carry_out(&mut wishes, now, nothing), Chore::PackLoose);
        wishes.graph = Planned::default();
        assert_eq!(wishes.take(now, false), Due::Later(again_in));
        wishes.loose.plan(now);
        assert_eq!(wishes.take(now, false), Due::Later(Some(LOOSE_LOOK_WAIT)));
        assert!(wishes.are_done(now), "nobody waits for what is planned");
        let later = now + LOOSE_LOOK_WAIT;
        assert_eq!(carry_out(&mut wishes, later, Outcome::Looked(Looked::Packed)), Chore::PackLoose);
        assert!(!wishes.are_done(later), "there may be more");
    }

    #[test]
    fn parts_of_merged_packs_stay_until_nobody_has_written_for_a_while_or_they_are_too_many() {
        let now = Instant::now();
        let only_sweep = |wishes: &mut Wishes| {
            (wishes.merge, wishes.rested_at) = (false, None);
            (wishes.loose, wishes.graph, wishes.figures) =
                (Planned::default(), Planned::default(), Planned::default());
        };
        let mut wishes = Wishes::default();
        wishes.go_on(now, &Chore::Merge, Duration::ZERO, Outcome::Merged);
        only_sweep(&mut wishes);
        assert_eq!(wishes.take(now, false), Due::Later(Some(SWEEP_WAIT)));
        let later = now + SWEEP_WAIT / 2;
        wishes.tidy(later, true, false);
        only_sweep(&mut wishes);
        assert_eq!(wishes.take(now + SWEEP_WAIT, false), Due::Later(Some(SWEEP_WAIT / 2)));
        assert_eq!(carry_out(&mut wishes, later + SWEEP_WAIT, Outcome::Done), Chore::Sweep);
        wishes.go_on(now, &Chore::Merge, Duration::ZERO, Outcome::Merged);
        wishes.tidy(later, true, true);
        assert_eq!(wishes.take(later, false), Due::Now(Chore::Sweep));
    }

    #[test]
    fn many_packs_and_whoever_waits_for_the_end_allow_no_rest() {
        let now = Instant::now();
        let resting =
            |hurry| Wishes { merge: true, rested_at: Some(now + MINUTE), hurry, ..Wishes::default() };
        assert_eq!(resting(false).take(now, false), Due::Later(Some(MINUTE)));
        assert_eq!(resting(false).take(now, true), Due::Now(Chore::Merge));
        assert_eq!(resting(true).take(now, false), Due::Now(Chore::Merge));
    }

    #[test]
    fn while_the_graph_is_written_only_flushes_and_a_crowd_of_packs_go_on_and_then_all_rests() {
        let now = Instant::now();
        let mut wishes = Wishes::default();
        wishes.tidy(now, false, false);
        assert_eq!(wishes.take(now, false), Due::Now(Chore::Graph), "which removes nothing");
        wishes.tidy(now, true, false);
        let (root, revision) = flush();
        wishes.flush(root.clone(), revision);
        assert_eq!(carry_out(&mut wishes, now, Outcome::Done), Chore::Flush(root, revision));
        assert_eq!(wishes.take(now, false), Due::Later(None));
        assert_eq!(wishes.take(now, true), Due::Now(Chore::Merge));
        assert!(!wishes.are_done(now));
        wishes.go_on(now, &Chore::Merge, Duration::ZERO, Outcome::Merged);
        wishes.go_on(now, &Chore::Graph, MINUTE, Outcome::Graph { is_written: true });
        assert_eq!(wishes.take(now, false), Due::Later(Some(MINUTE * REST_FACTOR)));
    }

    #[test]
    fn the_graph_is_looked_at_once_a_minute_at_most() {
        let now = Instant::now();
        let mut wishes = Wishes::default();
        wishes.tidy(now, false, false);
        assert_eq!(carry_out(&mut wishes, now, Outcome::Graph { is_written: false }), Chore::Graph);
        assert_eq!(wishes.take(now, false), Due::Later(None), "as long as nothing is written");
        wishes.tidy(now, false, false);
        assert_eq!(wishes.take(now, false), Due::Later(Some(GRAPH_LOOK_WAIT)));
        let later = now + GRAPH_LOOK_WAIT;
        assert_eq!(wishes.take(later, false), Due::Now(Chore::Graph));
        wishes.tidy(later, false, false);
        wishes.go_on(later, &Chore::Graph, Duration::ZERO, Outcome::Graph { is_written: true });
        assert!(wishes.graph.at >= Some(later + GRAPH_LOOK_WAIT), "what was wished meanwhile, too");
    }

    #[test]
    fn figures_are_told_after_something_was_done_and_once_an_hour_at_most() {
        let now = Instant::now();
        let mut wishes = Wishes { merge: true, ..Wishes::default() };
        assert_eq!(carry_out(&mut wishes, now, Outcome::Done), Chore::Merge);
        assert!(!wishes.owe_figures());
        wishes.merge = true;
        assert_eq!(carry_out(&mut wishes, now, Outcome::Merged), Chore::Merge);
        assert!(wishes.owe_figures());
        assert_eq!(carry_out(&mut wishes, now, Outcome::Done), Chore::Merge);
        assert_eq!(carry_out(&mut wishes, now, Outcome::Done), Chore::Figures);
        assert!(!wishes.owe_figures());
        wishes.merge = true;
        assert_eq!(carry_out(&mut wishes, now, Outcome::Merged), Chore::Merge);
        (wishes.merge, wishes.sweep_at) = (false, None);
        assert_eq!(wishes.take(now, false), Due::Later(Some(FIGURES_WAIT)));
        assert!(wishes.owe_figures(), "at the end they are told");
    }

    #[test]
    fn after_a_panic_nothing_is_tidied_any_more() {
        let now = Instant::now();
        let mut wishes = Wishes { merge: true, is_busy: true, ..Wishes::default() };
        wishes.give_up();
        wishes.go_on(now, &Chore::Merge, Duration::ZERO, Outcome::Done);
        wishes.tidy(now, true, false);
        assert!(wishes.are_done(now));
        wishes.flush(flush().0, flush().1);
        assert!(matches!(wishes.take(now, false), Due::Now(Chore::Flush(..))));
    }
}
