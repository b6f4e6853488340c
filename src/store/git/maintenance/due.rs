//! Schedules maintenance: what to do next, and when; `runner` has the thread that does it.

use std::time::{Duration, Instant};

/// How many times the duration of its work tidying rests, so that it takes at most a quarter of a core.
const REST_FACTOR: u32 = 3;

/// How long lost indexes are not looked for again; a reader may miss objects during that time.
const REBUILD_WAIT: Duration = Duration::from_millis(200);

/// A task; of those due at the same time, the first comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    /// Flush the file system of the work tree.
    Flush,
    /// Rebuild the lost indexes of our packs.
    RebuildIndexes,
    /// Do a round of everything that makes reading faster.
    Tidy,
}

const TASKS: [Task; 3] = [Task::Flush, Task::RebuildIndexes, Task::Tidy];

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Now(Task),
    /// Nothing yet: look again after this time, or when something is planned.
    Later(Option<Duration>),
}

#[derive(Debug, Default)]
pub(crate) struct Schedule {
    planned: [Option<Instant>; TASKS.len()],
    /// When each task has rested.
    rested: [Option<Instant>; TASKS.len()],
    /// Whether someone waits for the end, so that nothing rests.
    pub(crate) hurry: bool,
    is_busy: bool,
    given_up: bool,
}

impl Schedule {
    /// Schedules a task for this time, unless it is due earlier.
    pub(crate) fn plan(&mut self, task: Task, at: Instant) {
        if self.given_up && task != Task::Flush {
            return;
        }
        let planned = &mut self.planned[task as usize];
        *planned = Some(planned.map_or(at, |planned| planned.min(at)));
    }

    /// Records that a task has ended, and how long it took.
    pub(crate) fn end(&mut self, task: Task, now: Instant, took: Duration) {
        self.is_busy = false;
        self.rested[task as usize] = match task {
            Task::Flush => None,
            Task::RebuildIndexes => Some(now + REBUILD_WAIT),
            Task::Tidy => Some(now + took * REST_FACTOR),
        };
    }

    /// Stops planning anything but flushes.
    pub(crate) fn give_up(&mut self) {
        self.given_up = true;
        [Task::RebuildIndexes, Task::Tidy].iter().for_each(|task| self.planned[*task as usize] = None);
    }

    pub(crate) fn are_done(&self, now: Instant) -> bool {
        !self.is_busy && !TASKS.into_iter().any(|task| self.at(task, now, false).is_some_and(|at| at <= now))
    }

    /// Returns what to do now; `is_urgent` says that tidying must not rest.
    pub(crate) fn next(&mut self, now: Instant, is_urgent: bool) -> Next {
        let due = TASKS.into_iter().filter_map(|task| Some((self.at(task, now, is_urgent)?.max(now), task)));
        match due.min_by_key(|(at, _)| *at) {
            Some((at, task)) if at == now => {
                self.planned[task as usize] = None;
                self.is_busy = true;
                Next::Now(task)
            }
            first => Next::Later(first.map(|(at, _)| at - now)),
        }
    }

    fn at(&self, task: Task, now: Instant, is_urgent: bool) -> Option<Instant> {
        let planned = self.planned[task as usize]?;
        Some(match (task, self.rested[task as usize]) {
            // Also what is planned for later.
            (Task::Tidy, _) if self.hurry => now,
            (Task::Tidy, _) if is_urgent => planned,
            (_, rested) => rested.map_or(planned, |rested| planned.max(rested)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    /// A schedule with these tasks due, in the middle of a rest of three minutes.
    fn resting(now: Instant, tasks: &[Task]) -> Schedule {
        let mut due = Schedule::default();
        due.end(Task::Tidy, now, MINUTE);
        tasks.iter().for_each(|task| due.plan(*task, now));
        due
    }

    #[test]
    fn a_flush_and_a_lost_index_wait_for_no_tidying_that_rests() {
        let now = Instant::now();
        let mut due = resting(now, &[Task::Tidy, Task::RebuildIndexes, Task::Flush]);
        for task in [Task::Flush, Task::RebuildIndexes] {
            assert_eq!(due.next(now, false), Next::Now(task));
            assert!(!due.are_done(now));
            due.end(task, now, Duration::ZERO);
        }
        assert_eq!(due.next(now, false), Next::Later(Some(REST_FACTOR * MINUTE)));
        assert!(due.are_done(now));
        assert_eq!(due.next(now + REST_FACTOR * MINUTE, false), Next::Now(Task::Tidy));
        assert_eq!(due.next(now + REST_FACTOR * MINUTE, false), Next::Later(None));
    }

    #[test]
    fn lost_indexes_are_looked_for_again_after_a_moment() {
        let now = Instant::now();
        let mut due = Schedule::default();
        due.end(Task::RebuildIndexes, now, Duration::ZERO);
        due.plan(Task::RebuildIndexes, now);
        assert_eq!(due.next(now, true), Next::Later(Some(REBUILD_WAIT)));
        assert_eq!(due.next(now + REBUILD_WAIT, false), Next::Now(Task::RebuildIndexes));
    }

    #[test]
    fn many_packs_and_whoever_waits_for_the_end_allow_no_rest() {
        let now = Instant::now();
        assert_eq!(resting(now, &[Task::Tidy]).next(now, true), Next::Now(Task::Tidy));
        let mut due = Schedule { hurry: true, ..Schedule::default() };
        due.plan(Task::Tidy, now + MINUTE);
        assert!(!due.are_done(now));
        assert_eq!(due.next(now, false), Next::Now(Task::Tidy));
    }

    #[test]
    fn after_a_panic_nothing_is_tidied_any_more() {
        let now = Instant::now();
        let mut due = resting(now, &[Task::Tidy, Task::RebuildIndexes]);
        due.give_up();
        due.plan(Task::Tidy, now);
        assert_eq!(due.next(now, true), Next::Later(None));
        due.plan(Task::Flush, now);
        assert_eq!(due.next(now, true), Next::Now(Task::Flush));
    }
}
