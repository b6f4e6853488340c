//! A group of jobs: decided one after another, appended as one chain of commits, answered at once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::thread;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::domain::{Key, Revision};
use crate::engine::idempotency::{IdempotencyStore, RecordedOutcome, replay};
use crate::engine::mirror::Mirror;
use crate::engine::options::Options;
use crate::engine::plan::edits::EditProgress;
use crate::engine::plan::input::{input, keys_of, names_with_rivals};
use crate::engine::plan::{Plan, PlannedAnswer, plan};
use crate::engine::projection::Projection;
use crate::engine::refuse::{reason, refuse, unavailable};
use crate::engine::signal::{Hint, Job};
use crate::engine::submission::Submission;
use crate::engine::submission::error::SubmitError;
use crate::engine::submission::idempotency_key::Scope;
use crate::engine::writer::inbox::Inbox;
use crate::engine::writer::waiting::deferred_until;
use crate::engine::writer::{make_durable, publish};
use crate::format::message;
use crate::store::remote::RemoteError;
use crate::store::{BlobId, Committed, Draft, StoreError};
use crate::telemetry::{Limit, millis};

/// Wait before checking again whether the current head of the branch is served.
const BRANCH_RETRY_WAIT: Duration = Duration::from_millis(5);

/// Time limit for deciding the jobs of one turn; jobs that arrive later share the next turns with the rest.
const DECIDING_MAX: Duration = Duration::from_millis(50);

/// Everything needed to carry out the jobs of one turn.
pub(crate) struct Group<'a> {
    pub(crate) mirror: &'a mut Mirror,
    pub(crate) options: &'a Options,
    pub(crate) projection: &'a Projection,
    pub(crate) idempotency: &'a IdempotencyStore,
    /// Takes the jobs that wait for a file of their key to be believed; `None` during shutdown, when no job waits.
    pub(crate) deferred: Option<&'a mut VecDeque<Job>>,
    /// Takes the jobs that this turn has no time for.
    pub(crate) rest: &'a mut VecDeque<Job>,
    /// Takes the jobs that need more than one turn.
    pub(crate) unfinished: &'a mut Vec<Job>,
    /// Takes the jobs that must wait until the branch may move; `None` if no job is held.
    pub(crate) held: Option<&'a mut Vec<Job>>,
    /// What has been read and edited for the first job.
    pub(crate) progress: &'a mut EditProgress,
    /// Provides the jobs that arrive in the meantime.
    pub(crate) inbox: &'a mut Inbox,
}

/// The result of one attempt to carry out a group.
enum Attempt {
    /// Commits were made, and all jobs are answered.
    Appended,
    /// No commits were made here, or it is unknown whether they were; all jobs that do not wait are answered.
    Answered,
    /// Some jobs are held, and the decisions about the others may have depended on them.
    DecideAgain,
    /// The branch has moved in the meantime; the jobs that are left are not answered.
    RaceLost,
}

impl Group<'_> {
    /// Carries out and answers all jobs that do not wait; returns whether anything was appended.
    pub(crate) fn carry_out(&mut self, mut jobs: Vec<Job>) -> bool {
        jobs.retain(|job| !job.reply.is_closed());
        let mut races = 0;
        while !jobs.is_empty() {
            match self.attempt(&mut jobs).or_else(|error| self.after(error, races)) {
                Ok(Attempt::Appended) => {
                    self.projection.set_write_error(None);
                    return true;
                }
                Ok(Attempt::Answered) => return false,
                Ok(Attempt::DecideAgain) => {}
                Ok(Attempt::RaceLost) if races < self.options.writer.races_max => {
                    races += 1;
                    self.take_in(&mut jobs);
                }
                Ok(Attempt::RaceLost) => {
                    let keeps_moving = unavailable("the branch keeps moving, try again");
                    self.options.reached.count(Limit::Races);
                    for job in jobs.drain(..) {
                        job.span.in_scope(|| {
                            tracing::warn!(races, "gave up on a write, the branch moved each time");
                        });
                        job.answer(Err(keeps_moving.clone()));
                    }
                }
                // Only one of them may need what is damaged: each is tried alone.
                Err(StoreError::Damaged { .. }) if jobs.len() > 1 => {
                    for job in jobs.drain(1..).rev() {
                        self.rest.push_front(job);
                    }
                }
                Err(error) => self.give_up(std::mem::take(&mut jobs), &error),
            }
        }
        false
    }

    /// Refuses the jobs that could not be carried out, and reports why.
    fn give_up(&mut self, mut jobs: Vec<Job>, error: &StoreError) {
        match error {
            StoreError::Locked { .. } => self.options.reached.count(Limit::LockWait),
            StoreError::Remote(RemoteError::FarAhead { .. }) => {
                self.options.reached.count(Limit::AheadCommits);
            }
            _ => {}
        }
        publish(self.projection, self.idempotency, self.mirror);
        // The state of the remote is reported separately; it may have recovered before the next write.
        if !matches!(error, StoreError::Remote(_)) {
            self.projection.set_write_error(Some(reason(error)));
        }
        if matches!(error, StoreError::Remote(RemoteError::Pending)) {
            answer_asked_again(self.idempotency, &mut jobs);
        }
        refuse(jobs, error);
    }

    /// Adds the jobs that arrived during a lost race: all of them are decided on the same head.
    fn take_in(&mut self, jobs: &mut Vec<Job>) {
        jobs.extend(self.rest.drain(..));
        self.inbox.take_jobs(jobs, self.options.writer.batch_len_max);
    }

    /// Repeats the earlier answer to jobs whose idempotency key is recorded.
    fn answer_known(&mut self, jobs: &mut Vec<Job>) -> Result<(), StoreError> {
        let is_known = |job: &Job| {
            let idempotency_key = job.submission.recorded_idempotency_key();
            idempotency_key.is_some_and(|it| self.idempotency.is_recorded(&job.submission.author, it))
        };
        if jobs.iter().any(is_known) {
            make_durable(self.mirror)?;
        }
        replay::answer_known(self.mirror, self.idempotency, jobs)
    }

    /// Decides, appends, publishes and answers. On an error, the jobs that are left have not been answered.
    fn attempt(&mut self, jobs: &mut Vec<Job>) -> Result<Attempt, StoreError> {
        self.check_files(jobs)?;
        publish(self.projection, self.idempotency, self.mirror);
        self.answer_known(jobs)?;
        self.defer(jobs);
        let expected = self.mirror.snapshot().revision;
        let EditProgress { sources, edits } = &mut *self.progress;
        let input = input(self.mirror, self.options, jobs, sources)?;
        let started = Instant::now();
        let in_time = in_time(jobs, started, self.deferred.is_none());
        let Plan { drafts, answers, catalog, fallbacks } = plan(&input, in_time, edits);
        let now = input.now;
        if !drafts.is_empty() && self.hold(jobs, &answers) {
            return Ok(Attempt::DecideAgain);
        }
        let answers = self.set_aside(jobs, answers);
        if jobs.is_empty() {
            return Ok(Attempt::Answered);
        }
        let mut committed = Vec::new();
        if !drafts.is_empty() {
            committed = match self.mirror.journal.append(expected, &drafts) {
                Err(StoreError::Remote(RemoteError::OutcomeUnknown)) => {
                    answer_unknown(self.idempotency, std::mem::take(jobs), &answers, &drafts);
                    return Ok(Attempt::Answered);
                }
                committed => committed?,
            };
            let head = committed.last().expect("BUG: a chain without commits").revision;
            log_batch(jobs.len(), drafts.len(), head, started.elapsed());
            self.log_fallbacks(fallbacks);
            self.mirror.adopt(head, files_of(&drafts, &committed), &catalog)?;
            self.idempotency.note_fast_forward(expected, head);
        } else {
            self.confirm(jobs, expected)?;
        }
        self.idempotency.all_known();
        // Recorded before the change is visible, so that a reader who sees the change finds the record.
        let revisions = revisions(&answers, expected, &committed);
        for ((job, answer), revision) in jobs.iter().zip(&answers).zip(&revisions) {
            record(self.idempotency, job, answer, *revision, now);
        }
        publish(self.projection, self.idempotency, self.mirror);
        self.count(jobs, &answers, drafts.len());
        for ((job, answer), revision) in std::mem::take(jobs).into_iter().zip(answers).zip(revisions) {
            job.answer(answer.map(|granted| granted.at(revision)));
        }
        Ok(if drafts.is_empty() { Attempt::Answered } else { Attempt::Appended })
    }

    /// Makes sure that answers without a commit hold: they promise durability, except those of dry runs.
    fn confirm(&mut self, jobs: &[Job], head: Option<Revision>) -> Result<(), StoreError> {
        match jobs.iter().all(|job| job.submission.dry_run) {
            true => self.mirror.journal.confirm_head(head),
            false => make_durable(self.mirror),
        }
    }

    /// Holds the jobs that make commits while the branch may not move, and the jobs behind them that concern the same
    /// collections; returns whether there are any.
    fn hold(&mut self, jobs: &mut Vec<Job>, answers: &[Option<Result<PlannedAnswer, SubmitError>>]) -> bool {
        let Some(held) = &mut self.held else { return false };
        if self.mirror.journal.paused_until().is_none() {
            return false;
        }
        let makes_commits =
            |at: usize| matches!(answers.get(at), Some(Some(Ok(granted))) if granted.draft.is_some());
        let mut keys: BTreeSet<Key> = BTreeSet::new();
        let before = held.len();
        for (at, job) in std::mem::take(jobs).into_iter().enumerate() {
            let of_job = || keys_of(std::slice::from_ref(&job));
            if makes_commits(at) || !job.submission.dry_run && of_job().any(|key| keys.contains(key)) {
                keys.extend(of_job().cloned());
                held.push(job);
            } else {
                jobs.push(job);
            }
        }
        let count = held.len() - before;
        if count > 0 {
            tracing::debug!(count, "writes wait until the branch may go on");
        }
        count > 0
    }

    /// Sets aside the jobs that were not decided: the first one needs more than one turn, the others had no time or
    /// room beside it. Leaves the decided jobs and returns their answers.
    fn set_aside(
        &mut self,
        jobs: &mut Vec<Job>,
        answers: Vec<Option<Result<PlannedAnswer, SubmitError>>>,
    ) -> Vec<Result<PlannedAnswer, SubmitError>> {
        let mut answers = answers.into_iter();
        let mut decided = Vec::with_capacity(answers.len());
        for (at, job) in std::mem::take(jobs).into_iter().enumerate() {
            match answers.next().flatten() {
                Some(answer) => {
                    jobs.push(job);
                    decided.push(answer);
                }
                None if at == 0 => self.unfinished.push(job),
                None => self.rest.push_back(job),
            }
        }
        decided
    }

    /// Looks at the branch after a failed attempt.
    fn after(&mut self, error: StoreError, race: usize) -> Result<Attempt, StoreError> {
        let refreshed = self.mirror.refresh(&Hint::Branch);
        let StoreError::HeadMoved { expected, found } = error else {
            // The branch may have moved before the failure; its current head is served.
            return Err(error);
        };
        tracing::debug!(?expected, ?found, race, "the branch moved while committing, deciding again");
        refreshed.and_then(|()| self.wait_for_the_branch()).map(|()| Attempt::RaceLost)
    }

    /// Waits until the current head of the branch is served. It may not be while git is changing the work tree, and
    /// whatever is decided on the old head loses every race.
    fn wait_for_the_branch(&mut self) -> Result<(), StoreError> {
        let began = Instant::now();
        while self.mirror.journal.head()? != self.mirror.snapshot().revision
            && began.elapsed() < self.options.mirror.busy_max
        {
            thread::sleep(BRANCH_RETRY_WAIT);
            self.mirror.refresh(&Hint::Branch)?;
        }
        Ok(())
    }

    /// Looks at the files of the jobs. They can't be seen while git is changing the work tree, and a decision made
    /// without them would undo what a person has saved.
    fn check_files(&mut self, jobs: &[Job]) -> Result<(), StoreError> {
        let keys: BTreeSet<&Key> = keys_of(jobs).collect();
        let names: BTreeSet<String> =
            keys.into_iter().flat_map(|key| names_with_rivals(self.mirror, key)).collect();
        let files = Hint::Files(names.into_iter().collect());
        self.mirror.refresh(&files)?;
        while self.mirror.is_unseen() {
            self.mirror.journal.wait_for_git()?;
            thread::sleep(BRANCH_RETRY_WAIT);
            self.mirror.refresh(&files)?;
        }
        if jobs.iter().any(|job| job.submission.dry_run) {
            // A dry run appends nothing, so a moved branch would go unnoticed.
            self.mirror.refresh(&Hint::Branch)?;
        }
        Ok(())
    }

    /// Sets aside the jobs that wait for a file of their key to be believed.
    fn defer(&mut self, jobs: &mut Vec<Job>) {
        let Some(deferred) = &mut self.deferred else { return };
        let (wait, go) = std::mem::take(jobs).into_iter().partition::<Vec<_>, _>(|job| {
            Instant::now() < deferred_until(job)
                && keys_of(std::slice::from_ref(job)).any(|key| self.mirror.is_suspect(key))
        });
        deferred.extend(wait);
        *jobs = go;
    }

    fn log_fallbacks(&self, fallbacks: Vec<(Key, String)>) {
        for (key, why) in fallbacks {
            tracing::warn!(collection.key = %key, why, "more of the file than the changed values was rewritten");
        }
    }

    /// Counts the writes that made commits, and the commits of hand edits that they required.
    fn count(&self, jobs: &[Job], answers: &[Result<PlannedAnswer, SubmitError>], drafts: usize) {
        let mut counted = BTreeSet::new();
        // A request that is repeated in the group shares the commit of the first one.
        let mut is_first = |answer: &Result<PlannedAnswer, SubmitError>| {
            answer.as_ref().ok().and_then(|it| it.draft).is_some_and(|draft| counted.insert(draft))
        };
        let made = jobs.iter().zip(answers).filter(|(_, answer)| is_first(answer));
        let took: Vec<_> = made.map(|(job, _)| job.asked_at.elapsed()).collect();
        if !took.is_empty() {
            self.options.metrics.committed_group(&took, drafts.saturating_sub(took.len()));
        }
    }
}

/// Returns the revision of each answer: the commit that was made for it, or, where none was needed, the revision that
/// it was decided on, which the newest commit before it in the group left.
fn revisions(
    answers: &[Result<PlannedAnswer, SubmitError>],
    expected: Option<Revision>,
    committed: &[Committed],
) -> Vec<Option<Revision>> {
    let mut newest = None;
    let of_answer = |answer: &Result<PlannedAnswer, SubmitError>| {
        let draft = answer.as_ref().ok().and_then(|granted| granted.draft);
        newest = newest.max(draft);
        draft.or(newest).map(|draft| committed[draft].revision).or(expected)
    };
    answers.iter().map(of_answer).collect()
}

/// Yields the submissions while there is time, at least the first one; all of them during shutdown.
fn in_time(jobs: &[Job], started: Instant, is_last: bool) -> impl Iterator<Item = &Submission> {
    let has_time = move |at: usize| is_last || at == 0 || started.elapsed() < DECIDING_MAX;
    jobs.iter().enumerate().map_while(move |(at, job)| has_time(at).then_some(&job.submission))
}

/// Answers a group whose commits may or may not be on the branch; jobs without commits depend on that branch too.
fn answer_unknown(
    idempotency: &IdempotencyStore,
    jobs: Vec<Job>,
    answers: &[Result<PlannedAnswer, SubmitError>],
    drafts: &[Draft],
) {
    for (job, answer) in jobs.into_iter().zip(answers) {
        let draft = answer.as_ref().ok().and_then(|granted| granted.draft);
        let refusal = draft.map_or(SubmitError::RemoteUnreachable, |draft| {
            let trailers = message::parse(&drafts[draft].message).events;
            let events: Vec<Uuid> = trailers.iter().filter_map(|event| event.id).collect();
            if let Some(idempotency_key) = &job.submission.idempotency_key {
                idempotency.note_unknown(&job.submission.author, idempotency_key, events.clone());
            }
            SubmitError::OutcomeUnknown { events }
        });
        job.answer(Err(refusal));
    }
}

/// Answers jobs that repeat a request whose outcome is unknown; the other jobs must wait for that outcome too.
fn answer_asked_again(idempotency: &IdempotencyStore, jobs: &mut Vec<Job>) {
    for job in std::mem::take(jobs) {
        let idempotency_key = job.submission.recorded_idempotency_key();
        match idempotency_key.and_then(|it| idempotency.unknown(&job.submission.author, it)) {
            Some(events) => job.answer(Err(SubmitError::OutcomeUnknown { events })),
            None => jobs.push(job),
        }
    }
}

/// Returns the final content of each file that a chain of commits changed.
fn files_of(drafts: &[Draft], committed: &[Committed]) -> Vec<(String, Option<BlobId>)> {
    let each = drafts.iter().zip(committed).flat_map(|(draft, made)| {
        draft.files.iter().map(|(name, _)| name.clone()).zip(made.blobs.iter().copied())
    });
    each.collect::<BTreeMap<_, _>>().into_iter().collect()
}

/// Records what was granted under an idempotency key, at the revision of its answer.
fn record(
    idempotency: &IdempotencyStore,
    job: &Job,
    answer: &Result<PlannedAnswer, SubmitError>,
    at: Option<Revision>,
    now: DateTime<Utc>,
) {
    let Job { submission, .. } = job;
    if let (Some(idempotency_key), Ok(granted)) = (submission.recorded_idempotency_key(), answer) {
        let made = match (granted.draft, at) {
            (Some(_), Some(revision)) => RecordedOutcome::Commit(revision),
            _ => RecordedOutcome::Nothing { at, outcomes: granted.outcomes.clone() },
        };
        idempotency.record(
            Scope::of(&submission.author, idempotency_key),
            idempotency_key.fingerprint,
            now,
            made,
        );
    }
}

fn log_batch(submissions: usize, commits: usize, revision: Revision, took: Duration) {
    tracing::debug!(
        batch.len = submissions,
        commits,
        %revision,
        duration_ms = millis(took),
        "committed"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_repeated_in_a_group_takes_no_answer_behind_it_back() {
        let granted = |draft| Ok(PlannedAnswer { outcomes: Vec::new(), preview: None, draft });
        let [before, one, two] = [[1; 20], [2; 20], [3; 20]].map(Revision::new);
        let committed = [one, two].map(|revision| Committed { revision, blobs: Vec::new() });
        let answers = [granted(None), granted(Some(0)), granted(Some(1)), granted(Some(0)), granted(None)];
        let expected = [before, one, two, one, two].map(Some);
        assert_eq!(revisions(&answers, Some(before), &committed), expected);
    }
}
