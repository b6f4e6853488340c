//! What the maintenance is to do, and when; see `runner` for the thread that does it.

use std::mem;
use std::time::{Duration, Instant};

use crate::domain::Revision;

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

/// What is to be done; of what is due, the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    /// The file system of the work tree.
    Flush,
    /// Packs of ours that have lost their index.
    Mend,
    /// The parts of merged packs.
    Sweep,
    Merge,
    /// One pack of loose objects.
    PackLoose,
    /// The commit-graph, by another process.
    Graph,
    /// What has come of it all.
    Statistics,
}

impl Task {
    const ALL: [Self; 7] =
        [Self::Flush, Self::Mend, Self::Sweep, Self::Merge, Self::PackLoose, Self::Graph, Self::Statistics];
}

/// What has come of a task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Whether something was tidied up.
    pub(crate) is_tidier: bool,
    /// When to do it again, whether it is asked for or not.
    pub(crate) again_in: Option<Duration>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Now(Task),
    /// Nothing yet; look again after this time, or when something is planned.
    Later(Option<Duration>),
}

/// When a task is due, but not too often.
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
}

#[derive(Debug, Default)]
pub(crate) struct Schedule {
    planned: [Planned; Task::ALL.len()],
    /// Which revision a flush brings to the disk.
    pub(crate) unflushed: Option<Revision>,
    is_busy: bool,
    // Beside which the graph may be.
    is_graph_busy: bool,
    // Someone waits for the end, so there is no rest.
    hurry: bool,
    // No other tidying begins before.
    rested_at: Option<Instant>,
    given_up: bool,
}

impl Schedule {
    const fn planned(&mut self, task: Task) -> &mut Planned {
        &mut self.planned[task as usize]
    }

    /// Plans a flush of the work tree, which was brought to this revision.
    pub(crate) fn flush(&mut self, now: Instant, revision: Option<Revision>) {
        self.unflushed = revision;
        self.planned(Task::Flush).plan(now);
    }

    pub(crate) fn mend(&mut self, now: Instant) {
        if !self.given_up {
            self.planned(Task::Mend).plan(now);
        }
    }

    /// Plans all that makes reading faster, and for what removes objects only if that may be.
    /// Somebody has just written, so that parts of merged packs stay for a while, unless there are
    /// `too_many`.
    pub(crate) fn tidy(&mut self, now: Instant, may_remove: bool, too_many: bool) {
        if self.given_up {
            return;
        }
        self.planned(Task::Graph).plan(now);
        if may_remove {
            self.planned(Task::Merge).plan(now);
            self.planned(Task::PackLoose).plan(now);
        }
        let sweep = self.planned(Task::Sweep);
        sweep.at = sweep.at.map(|_| if too_many { now } else { now + SWEEP_WAIT });
    }

    /// Plans without a rest, or with one again.
    pub(crate) const fn hurry(&mut self, hurry: bool) {
        self.hurry = hurry;
    }

    /// Plans on what came of a task that took so long and ended now.
    pub(crate) fn go_on(&mut self, now: Instant, task: Task, took: Duration, outcome: Outcome) {
        *self.busy(task) = false;
        if !matches!(task, Task::Flush | Task::Mend) {
            let rested_at = now + took * REST_FACTOR;
            self.rested_at = Some(self.rested_at.map_or(rested_at, |at| at.max(rested_at)));
        }
        let look_wait = match task {
            Task::Mend => MEND_LOOK_WAIT,
            Task::PackLoose if !outcome.is_tidier => LOOSE_LOOK_WAIT,
            Task::Graph => GRAPH_LOOK_WAIT,
            Task::Statistics => STATISTICS_WAIT,
            Task::Flush | Task::Sweep | Task::Merge | Task::PackLoose => Duration::ZERO,
        };
        let planned = self.planned(task);
        planned.postpone(now + look_wait);
        outcome.again_in.into_iter().for_each(|wait| planned.plan(now + wait));
        if outcome.is_tidier {
            self.planned(Task::Statistics).plan(now);
            if task == Task::Merge {
                self.planned(Task::Sweep).plan(now + SWEEP_WAIT);
            }
        }
    }

    /// Plans no tidying any more, whatever is under way.
    pub(crate) fn give_up(&mut self) {
        let flush = mem::take(self.planned(Task::Flush));
        self.planned = Default::default();
        *self.planned(Task::Flush) = flush;
        (self.rested_at, self.given_up) = (None, true);
    }

    /// Whether there is nothing to do at this time.
    pub(crate) fn are_done(&self, now: Instant) -> bool {
        let is_due = |task: Task| {
            let at = self.planned[task as usize].at;
            at.is_some_and(|at| at <= now || task == Task::Sweep && self.hurry)
        };
        !self.is_busy && !self.is_graph_busy && !Task::ALL.into_iter().any(is_due)
    }

    /// Whether something was done that no statistics were told of.
    pub(crate) const fn owe_statistics(&self) -> bool {
        self.planned[Task::Statistics as usize].at.is_some()
    }

    pub(crate) fn take(&mut self, now: Instant, is_crowd: bool) -> Due {
        let is_urgent = self.hurry || is_crowd;
        let due = |task| Some((self.due_at(task, now, is_urgent)?.max(now), task));
        match Task::ALL.into_iter().filter_map(due).min_by_key(|(at, _)| *at) {
            Some((at, task)) if at == now => {
                self.planned(task).at = None;
                *self.busy(task) = true;
                Due::Now(task)
            }
            first => Due::Later(first.map(|(at, _)| at - now)),
        }
    }

    /// When a task may begin, as things are.
    fn due_at(&self, task: Task, now: Instant, is_urgent: bool) -> Option<Instant> {
        let at = self.planned[task as usize].at?;
        match task {
            Task::Flush | Task::Mend => Some(at),
            // Once more packs are merged, more are to be swept.
            Task::Sweep if self.hurry && self.planned[Task::Merge as usize].at.is_none() => Some(now),
            Task::Sweep => Some(at),
            // Its end is told.
            Task::Graph | Task::Statistics if self.is_graph_busy => None,
            Task::Merge | Task::PackLoose if self.is_graph_busy && !is_urgent => None,
            Task::Merge | Task::PackLoose | Task::Graph | Task::Statistics => {
                let rested_at = self.rested_at.filter(|_| !is_urgent);
                Some(rested_at.map_or(at, |rested_at| at.max(rested_at)))
            }
        }
    }

    const fn busy(&mut self, task: Task) -> &mut bool {
        if matches!(task, Task::Graph) { &mut self.is_graph_busy } else { &mut self.is_busy }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    const TIDIER: Outcome = Outcome { is_tidier: true, again_in: None };

    fn again_in(wait: Duration) -> Outcome {
        Outcome { again_in: Some(wait), ..Outcome::default() }
    }

    /// A schedule by which this is due.
    fn planned(now: Instant, tasks: &[Task]) -> Schedule {
        let mut schedule = Schedule::default();
        tasks.iter().for_each(|task| schedule.planned(*task).plan(now));
        schedule
    }

    /// The same in the middle of a rest.
    fn resting(now: Instant, tasks: &[Task]) -> Schedule {
        Schedule { rested_at: Some(now + MINUTE), ..planned(now, tasks) }
    }

    /// Carries out what is due, in no time.
    fn carry_out(schedule: &mut Schedule, now: Instant, outcome: Outcome) -> Task {
        let Due::Now(task) = schedule.take(now, false) else { panic!("nothing is due: {schedule:?}") };
        schedule.go_on(now, task, Duration::ZERO, outcome);
        task
    }

    #[test]
    fn a_flush_waits_for_no_merge_that_rests_and_does_not_shorten_the_rest() {
        let now = Instant::now();
        let mut schedule = resting(now, &[Task::Merge]);
        schedule.flush(now, None);
        assert_eq!(carry_out(&mut schedule, now, Outcome::default()), Task::Flush);
        assert_eq!(schedule.take(now, false), Due::Later(Some(MINUTE)));
        assert_eq!(schedule.take(now + MINUTE, false), Due::Now(Task::Merge));
        assert_eq!(schedule.take(now + MINUTE, false), Due::Later(None));
    }

    #[test]
    fn lost_indexes_are_looked_for_before_all_else_and_again_as_long_as_git_collects() {
        let now = Instant::now();
        let mut schedule = resting(now, &[Task::Merge, Task::Mend]);
        assert_eq!(carry_out(&mut schedule, now, again_in(Duration::ZERO)), Task::Mend);
        schedule.mend(now);
        assert_eq!(schedule.take(now, false), Due::Later(Some(MEND_LOOK_WAIT)));
        let later = now + MEND_LOOK_WAIT;
        assert_eq!(carry_out(&mut schedule, later, Outcome::default()), Task::Mend);
        assert_eq!(schedule.take(later, false), Due::Later(Some(MINUTE - MEND_LOOK_WAIT)));
    }

    #[test]
    fn loose_objects_are_looked_for_again_when_they_are_old_enough_and_not_too_often() {
        let now = Instant::now();
        let mut schedule = planned(now, &[Task::PackLoose]);
        let wait = 2 * LOOSE_LOOK_WAIT;
        assert_eq!(carry_out(&mut schedule, now, again_in(wait)), Task::PackLoose);
        assert_eq!(schedule.take(now, false), Due::Later(Some(wait)));
        schedule.planned(Task::PackLoose).plan(now);
        assert_eq!(schedule.take(now, false), Due::Later(Some(LOOSE_LOOK_WAIT)));
        assert!(schedule.are_done(now), "nobody waits for what is planned");
        let later = now + LOOSE_LOOK_WAIT;
        let packed = Outcome { again_in: Some(Duration::ZERO), ..TIDIER };
        assert_eq!(carry_out(&mut schedule, later, packed), Task::PackLoose);
        assert!(!schedule.are_done(later), "there may be more");
    }

    #[test]
    fn parts_of_merged_packs_stay_until_nobody_has_written_for_a_while_or_they_are_too_many() {
        let now = Instant::now();
        let only_sweep = |schedule: &mut Schedule| {
            let sweep = mem::take(schedule.planned(Task::Sweep));
            *schedule = Schedule::default();
            *schedule.planned(Task::Sweep) = sweep;
        };
        let mut schedule = Schedule::default();
        schedule.go_on(now, Task::Merge, Duration::ZERO, TIDIER);
        only_sweep(&mut schedule);
        assert_eq!(schedule.take(now, false), Due::Later(Some(SWEEP_WAIT)));
        let later = now + SWEEP_WAIT / 2;
        schedule.tidy(later, true, false);
        only_sweep(&mut schedule);
        assert_eq!(schedule.take(now + SWEEP_WAIT, false), Due::Later(Some(SWEEP_WAIT / 2)));
        assert_eq!(carry_out(&mut schedule, later + SWEEP_WAIT, Outcome::default()), Task::Sweep);
        schedule.go_on(now, Task::Merge, Duration::ZERO, TIDIER);
        schedule.tidy(later, true, true);
        assert_eq!(schedule.take(later, false), Due::Now(Task::Sweep));
    }

    #[test]
    fn many_packs_and_whoever_waits_for_the_end_allow_no_rest() {
        let now = Instant::now();
        let in_a_hurry = |hurry| Schedule { hurry, ..resting(now, &[Task::Merge]) };
        assert_eq!(in_a_hurry(false).take(now, false), Due::Later(Some(MINUTE)));
        assert_eq!(in_a_hurry(false).take(now, true), Due::Now(Task::Merge));
        assert_eq!(in_a_hurry(true).take(now, false), Due::Now(Task::Merge));
    }

    #[test]
    fn who_waits_for_the_end_waits_for_the_parts_of_what_is_merged_last() {
        let now = Instant::now();
        let mut schedule = Schedule { hurry: true, ..planned(now, &[Task::Merge]) };
        schedule.planned(Task::Sweep).plan(now + SWEEP_WAIT);
        assert!(!schedule.are_done(now));
        assert_eq!(carry_out(&mut schedule, now, Outcome::default()), Task::Merge);
        assert_eq!(carry_out(&mut schedule, now, Outcome::default()), Task::Sweep);
        assert!(schedule.are_done(now));
    }

    #[test]
    fn while_the_graph_is_written_only_flushes_and_a_crowd_of_packs_go_on_and_then_all_rests() {
        let now = Instant::now();
        let mut schedule = Schedule::default();
        schedule.tidy(now, false, false);
        assert_eq!(schedule.take(now, false), Due::Now(Task::Graph), "which removes nothing");
        schedule.tidy(now, true, false);
        schedule.flush(now, None);
        assert_eq!(carry_out(&mut schedule, now, Outcome::default()), Task::Flush);
        assert_eq!(schedule.take(now, false), Due::Later(None));
        assert_eq!(schedule.take(now, true), Due::Now(Task::Merge));
        assert!(!schedule.are_done(now));
        schedule.go_on(now, Task::Merge, Duration::ZERO, TIDIER);
        schedule.go_on(now, Task::Graph, MINUTE, TIDIER);
        assert_eq!(schedule.take(now, false), Due::Later(Some(MINUTE * REST_FACTOR)));
    }

    #[test]
    fn the_graph_is_looked_at_once_a_minute_at_most() {
        let now = Instant::now();
        let mut schedule = planned(now, &[Task::Graph]);
        assert_eq!(carry_out(&mut schedule, now, Outcome::default()), Task::Graph);
        assert_eq!(schedule.take(now, false), Due::Later(None), "as long as nothing is written");
        schedule.tidy(now, false, false);
        assert_eq!(schedule.take(now, false), Due::Later(Some(GRAPH_LOOK_WAIT)));
        let later = now + GRAPH_LOOK_WAIT;
        assert_eq!(schedule.take(later, false), Due::Now(Task::Graph));
        schedule.tidy(later, false, false);
        schedule.go_on(later, Task::Graph, Duration::ZERO, TIDIER);
        let planned = schedule.planned(Task::Graph).at;
        assert!(planned >= Some(later + GRAPH_LOOK_WAIT), "what was wished meanwhile, too");
    }

    #[test]
    fn figures_are_told_after_something_was_done_and_once_an_hour_at_most() {
        let now = Instant::now();
        let mut schedule = planned(now, &[Task::Merge]);
        assert_eq!(carry_out(&mut schedule, now, Outcome::default()), Task::Merge);
        assert!(!schedule.owe_statistics());
        schedule.planned(Task::Merge).plan(now);
        assert_eq!(carry_out(&mut schedule, now, TIDIER), Task::Merge);
        assert!(schedule.owe_statistics());
        assert_eq!(carry_out(&mut schedule, now, Outcome::default()), Task::Statistics);
        assert!(!schedule.owe_statistics());
        schedule.planned(Task::Merge).plan(now);
        assert_eq!(carry_out(&mut schedule, now, TIDIER), Task::Merge);
        schedule.planned(Task::Sweep).at = None;
        assert_eq!(schedule.take(now, false), Due::Later(Some(STATISTICS_WAIT)));
        assert!(schedule.owe_statistics(), "at the end they are told");
    }

    #[test]
    fn after_a_panic_nothing_is_tidied_any_more() {
        let now = Instant::now();
        let mut schedule = Schedule { is_busy: true, ..planned(now, &[Task::Merge, Task::Mend]) };
        schedule.give_up();
        schedule.go_on(now, Task::Merge, Duration::ZERO, Outcome::default());
        schedule.tidy(now, true, false);
        schedule.mend(now);
        assert!(schedule.are_done(now));
        schedule.flush(now, None);
        assert_eq!(schedule.take(now, false), Due::Now(Task::Flush));
    }
}
