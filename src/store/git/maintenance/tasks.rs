//! What the maintenance is to do, and when; see `runner` for the thread that does it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::domain::Revision;
use crate::store::git::maintenance::loose_objects::LooseOutcome;

/// How many times as long as it worked the maintenance rests: it takes a quarter of a core at most.
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

/// How long no statistics are told after some were.
const STATISTICS_WAIT: Duration = Duration::from_secs(3_600);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Task {
    /// The file system of this work tree, which was brought to this revision.
    Flush(PathBuf, Option<Revision>),
    /// Packs of ours that have lost their index.
    Mend,
    Merge,
    /// The parts of merged packs.
    Sweep,
    /// One pack of loose objects.
    PackLoose,
    /// The commit-graph, by another process.
    Graph,
    /// What has come of it all.
    Statistics,
}

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
    Loose(LooseOutcome),
    /// The commit-graph was looked at, and perhaps written.
    Graph {
        /// Whether it was.
        is_written: bool,
    },
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Now(Task),
    /// Nothing yet; look again after this time, or when something is planned.
    Later(Option<Duration>),
}

/// A task that is due at a time, but not too often.
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

#[derive(Debug, Default)]
pub(crate) struct Schedule {
    flush: Option<(PathBuf, Option<Revision>)>,
    mend: Planned,
    merge: bool,
    // When to remove the parts of merged packs.
    sweep_at: Option<Instant>,
    loose: Planned,
    graph: Planned,
    statistics: Planned,
    is_busy: bool,
    // Beside which the graph may be.
    is_graph_busy: bool,
    pace: Pace,
}

/// How fast it is to go.
#[derive(Debug, Default)]
struct Pace {
    // Someone waits for the end, so there is no rest.
    hurry: bool,
    // No other tidying begins before.
    rested_at: Option<Instant>,
    given_up: bool,
}

impl Schedule {
    pub(crate) fn flush(&mut self, root: PathBuf, revision: Option<Revision>) {
        self.flush = Some((root, revision));
    }

    pub(crate) fn mend(&mut self, now: Instant) {
        if !self.pace.given_up {
            self.mend.plan(now);
        }
    }

    /// Plans all that makes reading faster, and for what removes objects only if that may be.
    /// Somebody has just written, so that parts of merged packs stay for a while, unless there are
    /// `too_many`.
    pub(crate) fn tidy(&mut self, now: Instant, may_remove: bool, too_many: bool) {
        if self.pace.given_up {
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

    /// Plans without a rest, or with one again.
    pub(crate) const fn hurry(&mut self, hurry: bool) {
        self.pace.hurry = hurry;
    }

    /// Plans on what came of a task that took so long and ended now.
    pub(crate) fn go_on(&mut self, now: Instant, task: &Task, took: Duration, outcome: Outcome) {
        match task {
            Task::Graph => self.is_graph_busy = false,
            Task::Flush(..) | Task::Mend | Task::Merge | Task::Sweep | Task::PackLoose | Task::Statistics => {
                self.is_busy = false;
            }
        }
        if !matches!(task, Task::Flush(..) | Task::Mend) {
            let rested_at = now + took * REST_FACTOR;
            self.pace.rested_at = Some(self.pace.rested_at.map_or(rested_at, |at| at.max(rested_at)));
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
                self.statistics.plan(now);
            }
            Outcome::Loose(LooseOutcome::Packed) => {
                self.loose.plan(now);
                self.statistics.plan(now);
            }
            Outcome::Loose(LooseOutcome::Nothing { again_in }) => {
                self.loose.postpone(now + LOOSE_LOOK_WAIT);
                again_in.into_iter().for_each(|wait| self.loose.plan(now + wait));
            }
            Outcome::Graph { is_written } => {
                self.graph.postpone(now + GRAPH_LOOK_WAIT);
                if is_written {
                    self.statistics.plan(now);
                }
            }
        }
    }

    /// Plans no tidying any more, whatever is under way.
    pub(crate) fn give_up(&mut self) {
        *self = Self {
            flush: self.flush.take(),
            is_busy: self.is_busy,
            is_graph_busy: self.is_graph_busy,
            pace: Pace { hurry: self.pace.hurry, rested_at: None, given_up: true },
            ..Self::default()
        };
    }

    /// Whether there is nothing to do at this time.
    pub(crate) fn are_done(&self, now: Instant) -> bool {
        let is_swept = self.sweep_at.is_none_or(|at| at > now && !self.pace.hurry);
        let is_idle = !self.is_busy && !self.is_graph_busy && !self.merge && self.flush.is_none();
        is_idle
            && is_swept
            && [&self.mend, &self.loose, &self.graph, &self.statistics]
                .iter()
                .all(|planned| planned.is_done(now))
    }

    /// Whether something was done that no statistics were told of.
    pub(crate) const fn owe_statistics(&self) -> bool {
        self.statistics.at.is_some()
    }

    pub(crate) fn take(&mut self, now: Instant, is_crowd: bool) -> Due {
        if let Some((root, revision)) = self.flush.take() {
            self.is_busy = true;
            return Due::Now(Task::Flush(root, revision));
        }
        let mend = self.mend.wait(now, Duration::ZERO);
        if mend == Some(Duration::ZERO) {
            self.begin(now, &Task::Mend);
            return Due::Now(Task::Mend);
        }
        if self.sweep_at.is_some_and(|at| at <= now || (self.pace.hurry && !self.merge)) {
            self.begin(now, &Task::Sweep);
            return Due::Now(Task::Sweep);
        }
        let sweep = self.sweep_at.map(|at| at.saturating_duration_since(now));
        let anyhow = mend.into_iter().chain(sweep).min();
        let is_urgent = self.pace.hurry || is_crowd;
        if self.is_graph_busy && !is_urgent {
            // Its end is told.
            return Due::Later(anyhow);
        }
        let rested_at = self.pace.rested_at.filter(|_| !is_urgent);
        let rest = rested_at.map_or(Duration::ZERO, |at| at.saturating_duration_since(now));
        let waits = [
            (Task::Merge, self.merge.then_some(rest)),
            (Task::PackLoose, self.loose.wait(now, rest)),
            (Task::Graph, self.graph.wait(now, rest).filter(|_| !self.is_graph_busy)),
            (Task::Statistics, self.statistics.wait(now, rest).filter(|_| !self.is_graph_busy)),
        ];
        let first =
            waits.into_iter().filter_map(|(task, wait)| Some((wait?, task))).min_by_key(|(wait, _)| *wait);
        match first {
            Some((Duration::ZERO, task)) => {
                self.begin(now, &task);
                Due::Now(task)
            }
            Some((wait, _)) => Due::Later(Some(anyhow.map_or(wait, |sooner| sooner.min(wait)))),
            None => Due::Later(anyhow),
        }
    }

    fn begin(&mut self, now: Instant, task: &Task) {
        self.is_busy |= *task != Task::Graph;
        match task {
            Task::Flush(..) => self.flush = None,
            Task::Mend => self.mend.at = None,
            Task::Merge => self.merge = false,
            Task::Sweep => self.sweep_at = None,
            Task::PackLoose => self.loose.at = None,
            Task::Graph => (self.graph.at, self.is_graph_busy) = (None, true),
            Task::Statistics => {
                (self.statistics.at, self.statistics.not_before) = (None, Some(now + STATISTICS_WAIT));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn flush() -> (PathBuf, Option<Revision>) {
        (PathBuf::from("work tree"), Some(Revision::new([1; 20])))
    }

    fn resting(now: Instant) -> Pace {
        Pace { rested_at: Some(now + MINUTE), ..Pace::default() }
    }

    /// Carries out what is due, in no time.
    fn carry_out(schedule: &mut Schedule, now: Instant, outcome: Outcome) -> Task {
        let Due::Now(task) = schedule.take(now, false) else { panic!("nothing is due: {schedule:?}") };
        schedule.go_on(now, &task, Duration::ZERO, outcome);
        task
    }

    #[test]
    fn a_flush_waits_for_no_merge_that_rests_and_does_not_shorten_the_rest() {
        let now = Instant::now();
        let mut schedule =
            Schedule { merge: true, flush: Some(flush()), pace: resting(now), ..Schedule::default() };
        let (root, revision) = flush();
        assert_eq!(carry_out(&mut schedule, now, Outcome::Done), Task::Flush(root, revision));
        assert_eq!(schedule.take(now, false), Due::Later(Some(MINUTE)));
        assert_eq!(schedule.take(now + MINUTE, false), Due::Now(Task::Merge));
        assert_eq!(schedule.take(now + MINUTE, false), Due::Later(None));
    }

    #[test]
    fn lost_indexes_are_looked_for_before_all_else_and_again_as_long_as_git_collects() {
        let now = Instant::now();
        let mut schedule = Schedule { merge: true, pace: resting(now), ..Schedule::default() };
        schedule.mend(now);
        assert_eq!(carry_out(&mut schedule, now, Outcome::Mended { again: true }), Task::Mend);
        schedule.mend(now);
        assert_eq!(schedule.take(now, false), Due::Later(Some(MEND_LOOK_WAIT)));
        let later = now + MEND_LOOK_WAIT;
        assert_eq!(carry_out(&mut schedule, later, Outcome::Mended { again: false }), Task::Mend);
        assert_eq!(schedule.take(later, false), Due::Later(Some(MINUTE - MEND_LOOK_WAIT)));
    }

    #[test]
    fn loose_objects_are_looked_for_again_when_they_are_old_enough_and_not_too_often() {
        let now = Instant::now();
        let mut schedule = Schedule::default();
        schedule.tidy(now, true, false);
        assert_eq!(carry_out(&mut schedule, now, Outcome::Done), Task::Merge);
        let again_in = Some(2 * LOOSE_LOOK_WAIT);
        let nothing = Outcome::Loose(LooseOutcome::Nothing { again_in });
        assert_eq!(carry_out(&mut schedule, now, nothing), Task::PackLoose);
        schedule.graph = Planned::default();
        assert_eq!(schedule.take(now, false), Due::Later(again_in));
        schedule.loose.plan(now);
        assert_eq!(schedule.take(now, false), Due::Later(Some(LOOSE_LOOK_WAIT)));
        assert!(schedule.are_done(now), "nobody waits for what is planned");
        let later = now + LOOSE_LOOK_WAIT;
        assert_eq!(carry_out(&mut schedule, later, Outcome::Loose(LooseOutcome::Packed)), Task::PackLoose);
        assert!(!schedule.are_done(later), "there may be more");
    }

    #[test]
    fn parts_of_merged_packs_stay_until_nobody_has_written_for_a_while_or_they_are_too_many() {
        let now = Instant::now();
        let only_sweep = |schedule: &mut Schedule| {
            (schedule.merge, schedule.pace.rested_at) = (false, None);
            (schedule.loose, schedule.graph, schedule.statistics) =
                (Planned::default(), Planned::default(), Planned::default());
        };
        let mut schedule = Schedule::default();
        schedule.go_on(now, &Task::Merge, Duration::ZERO, Outcome::Merged);
        only_sweep(&mut schedule);
        assert_eq!(schedule.take(now, false), Due::Later(Some(SWEEP_WAIT)));
        let later = now + SWEEP_WAIT / 2;
        schedule.tidy(later, true, false);
        only_sweep(&mut schedule);
        assert_eq!(schedule.take(now + SWEEP_WAIT, false), Due::Later(Some(SWEEP_WAIT / 2)));
        assert_eq!(carry_out(&mut schedule, later + SWEEP_WAIT, Outcome::Done), Task::Sweep);
        schedule.go_on(now, &Task::Merge, Duration::ZERO, Outcome::Merged);
        schedule.tidy(later, true, true);
        assert_eq!(schedule.take(later, false), Due::Now(Task::Sweep));
    }

    #[test]
    fn many_packs_and_whoever_waits_for_the_end_allow_no_rest() {
        let now = Instant::now();
        let in_a_hurry =
            |hurry| Schedule { merge: true, pace: Pace { hurry, ..resting(now) }, ..Schedule::default() };
        assert_eq!(in_a_hurry(false).take(now, false), Due::Later(Some(MINUTE)));
        assert_eq!(in_a_hurry(false).take(now, true), Due::Now(Task::Merge));
        assert_eq!(in_a_hurry(true).take(now, false), Due::Now(Task::Merge));
    }

    #[test]
    fn while_the_graph_is_written_only_flushes_and_a_crowd_of_packs_go_on_and_then_all_rests() {
        let now = Instant::now();
        let mut schedule = Schedule::default();
        schedule.tidy(now, false, false);
        assert_eq!(schedule.take(now, false), Due::Now(Task::Graph), "which removes nothing");
        schedule.tidy(now, true, false);
        let (root, revision) = flush();
        schedule.flush(root.clone(), revision);
        assert_eq!(carry_out(&mut schedule, now, Outcome::Done), Task::Flush(root, revision));
        assert_eq!(schedule.take(now, false), Due::Later(None));
        assert_eq!(schedule.take(now, true), Due::Now(Task::Merge));
        assert!(!schedule.are_done(now));
        schedule.go_on(now, &Task::Merge, Duration::ZERO, Outcome::Merged);
        schedule.go_on(now, &Task::Graph, MINUTE, Outcome::Graph { is_written: true });
        assert_eq!(schedule.take(now, false), Due::Later(Some(MINUTE * REST_FACTOR)));
    }

    #[test]
    fn the_graph_is_looked_at_once_a_minute_at_most() {
        let now = Instant::now();
        let mut schedule = Schedule::default();
        schedule.tidy(now, false, false);
        assert_eq!(carry_out(&mut schedule, now, Outcome::Graph { is_written: false }), Task::Graph);
        assert_eq!(schedule.take(now, false), Due::Later(None), "as long as nothing is written");
        schedule.tidy(now, false, false);
        assert_eq!(schedule.take(now, false), Due::Later(Some(GRAPH_LOOK_WAIT)));
        let later = now + GRAPH_LOOK_WAIT;
        assert_eq!(schedule.take(later, false), Due::Now(Task::Graph));
        schedule.tidy(later, false, false);
        schedule.go_on(later, &Task::Graph, Duration::ZERO, Outcome::Graph { is_written: true });
        assert!(schedule.graph.at >= Some(later + GRAPH_LOOK_WAIT), "what was wished meanwhile, too");
    }

    #[test]
    fn figures_are_told_after_something_was_done_and_once_an_hour_at_most() {
        let now = Instant::now();
        let mut schedule = Schedule { merge: true, ..Schedule::default() };
        assert_eq!(carry_out(&mut schedule, now, Outcome::Done), Task::Merge);
        assert!(!schedule.owe_statistics());
        schedule.merge = true;
        assert_eq!(carry_out(&mut schedule, now, Outcome::Merged), Task::Merge);
        assert!(schedule.owe_statistics());
        assert_eq!(carry_out(&mut schedule, now, Outcome::Done), Task::Merge);
        assert_eq!(carry_out(&mut schedule, now, Outcome::Done), Task::Statistics);
        assert!(!schedule.owe_statistics());
        schedule.merge = true;
        assert_eq!(carry_out(&mut schedule, now, Outcome::Merged), Task::Merge);
        (schedule.merge, schedule.sweep_at) = (false, None);
        assert_eq!(schedule.take(now, false), Due::Later(Some(STATISTICS_WAIT)));
        assert!(schedule.owe_statistics(), "at the end they are told");
    }

    #[test]
    fn after_a_panic_nothing_is_tidied_any_more() {
        let now = Instant::now();
        let mut schedule = Schedule { merge: true, is_busy: true, ..Schedule::default() };
        schedule.give_up();
        schedule.go_on(now, &Task::Merge, Duration::ZERO, Outcome::Done);
        schedule.tidy(now, true, false);
        assert!(schedule.are_done(now));
        schedule.flush(flush().0, flush().1);
        assert!(matches!(schedule.take(now, false), Due::Now(Task::Flush(..))));
    }
}
