//! What is carried out together: decided one on another, appended as one chain, answered at once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::thread;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::domain::{Key, Revision};
use crate::engine::idempotency::{Ledger, RecordedOutcome, replay};
use crate::engine::mirror::Mirror;
use crate::engine::options::Options;
use crate::engine::plan::edits::EditProgress;
use crate::engine::plan::input::{input, keys_of, names_with_rivals};
use crate::engine::plan::{Granted, Plan, plan};
use crate::engine::projection::Projection;
use crate::engine::refuse::{reason, refuse, unavailable};
use crate::engine::signal::{Hint, Job};
use crate::engine::submission::Submission;
use crate::engine::submission::answer::Written;
use crate::engine::submission::error::SubmitError;
use crate::engine::submission::once::Scope;
use crate::engine::writer::inbox::Inbox;
use crate::engine::writer::{make_durable, publish};
use crate::format::message;
use crate::store::remote::RemoteError;
use crate::store::{BlobId, Committed, Draft, StoreError};
use crate::telemetry::Limit;

/// How long a job waits for a file of its key to stay as it is, or to be closed; then it is decided on what is
/// believed.
const DEFERRED_WAIT_MAX: Duration = Duration::from_secs(1);

/// How long to wait before looking again at a branch that is not served as it is yet.
const BRANCH_LOOK_WAIT: Duration = Duration::from_millis(5);

/// For how long the jobs of one turn are decided: who comes after much has the rest of it before or beside them.
const DECIDING_MAX: Duration = Duration::from_millis(50);

/// What it takes to carry out the jobs of one turn.
pub(crate) struct Group<'a> {
    pub(crate) mirror: &'a mut Mirror,
    pub(crate) options: &'a Options,
    pub(crate) projection: &'a Projection,
    pub(crate) ledger: &'a Ledger,
    /// Takes the jobs that wait for a file of their key to be believed; none waits when the service
    /// ends.
    pub(crate) deferred: Option<&'a mut VecDeque<Job>>,
    /// Takes the jobs for which there was no time in this turn.
    pub(crate) rest: &'a mut VecDeque<Job>,
    /// Takes the jobs that one turn has no time for.
    pub(crate) unfinished: &'a mut Vec<Job>,
    /// Takes the jobs for which the branch would have to go on before it may.
    pub(crate) held: Option<&'a mut Vec<Job>>,
    /// What has been read and edited for the first job.
    pub(crate) progress: &'a mut EditProgress,
    /// Has the jobs that come meanwhile.
    pub(crate) inbox: &'a mut Inbox,
}

/// What came of one attempt to carry out a group.
enum Attempt {
    /// Commits were made, and all are answered.
    Appended,
    /// All that did not wait is answered without.
    NothingToAppend,
    /// Some are held, on which the decision about the others may have rested.
    DecideAgain,
    /// The branch has moved meanwhile; nobody is answered.
    RaceLost,
}

impl Group<'_> {
    /// Carries out and answers all that does not wait; says whether anything was appended.
    pub(crate) fn carry_out(&mut self, mut jobs: Vec<Job>) -> bool {
        jobs.retain(|job| !job.reply.is_closed());
        let mut races = 0;
        while !jobs.is_empty() {
            match self.attempt(&mut jobs).or_else(|error| self.after(error, races)) {
                Ok(Attempt::Appended) => {
                    self.projection.note_write_trouble(None);
                    return true;
                }
                Ok(Attempt::NothingToAppend) => return false,
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
                Err(error) => self.give_up(std::mem::take(&mut jobs), &error),
            }
        }
        false
    }

    /// Refuses what could not be carried out, and tells why.
    fn give_up(&mut self, mut jobs: Vec<Job>, error: &StoreError) {
        match error {
            StoreError::Locked { .. } => self.options.reached.count(Limit::LockWait),
            StoreError::Remote(RemoteError::FarAhead { .. }) => {
                self.options.reached.count(Limit::AheadCommits);
            }
            _ => {}
        }
        publish(self.projection, self.ledger, self.mirror);
        // How it stands with the remote is told of the remote, which may be up again before the next write.
        if !matches!(error, StoreError::Remote(_)) {
            self.projection.note_write_trouble(Some(reason(error)));
        }
        if matches!(error, StoreError::Remote(RemoteError::Pending)) {
            answer_asked_again(self.ledger, &mut jobs);
        }
        refuse(jobs, error);
    }

    /// Takes in what has come while a race was lost: all of it is decided on the same head.
    fn take_in(&mut self, jobs: &mut Vec<Job>) {
        jobs.extend(self.rest.drain(..));
        self.inbox.take_jobs(jobs, self.options.writer.batch_len_max);
    }

    /// Answers what an earlier request of the same name was answered.
    fn answer_known(&mut self, jobs: &mut Vec<Job>) -> Result<(), StoreError> {
        if needs_disk(jobs.iter().filter(|job| self.is_known(job))) {
            make_durable(self.mirror)?;
        }
        replay::answer_known(self.mirror, self.ledger, jobs)
    }

    /// Whether something was granted under the name of a job.
    fn is_known(&self, job: &Job) -> bool {
        let Submission { author, once, .. } = &job.submission;
        once.as_ref().is_some_and(|once| self.ledger.is_recorded(author, once))
    }

    /// Decides, appends, publishes and answers. On an error nobody has been answered.
    fn attempt(&mut self, jobs: &mut Vec<Job>) -> Result<Attempt, StoreError> {
        self.look_at_files(jobs)?;
        publish(self.projection, self.ledger, self.mirror);
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
            return Ok(Attempt::NothingToAppend);
        }
        let mut committed = Vec::new();
        if !drafts.is_empty() {
            committed = match self.mirror.journal.append(expected, &drafts) {
                Err(StoreError::Remote(RemoteError::Unknown)) => {
                    answer_unknown(self.ledger, std::mem::take(jobs), &answers, &drafts);
                    return Ok(Attempt::NothingToAppend);
                }
                committed => committed?,
            };
            let head = committed
                .last()
                .map_or_else(|| expected.expect("BUG: a chain without commits"), |it| it.revision);
            log_batch(jobs.len(), drafts.len(), head, started.elapsed());
            self.tell_fallbacks(fallbacks);
            self.mirror.adopt(head, files_of(&drafts, &committed), &catalog)?;
            self.ledger.went_on(expected, head);
        } else if needs_disk(jobs.iter()) {
            make_durable(self.mirror)?;
        } else {
            self.mirror.journal.confirm_head(expected)?;
        }
        self.ledger.all_known();
        // Recorded before anybody can see the change, so that whoever sees it finds the record.
        let mut at = expected;
        for (job, answer) in jobs.iter().zip(&answers) {
            let draft = answer.as_ref().ok().and_then(|granted| granted.draft);
            at = draft.map(|draft| committed[draft].revision).or(at);
            record(self.ledger, job, answer, at, now);
        }
        publish(self.projection, self.ledger, self.mirror);
        self.count(jobs, &answers, drafts.len());
        answer(std::mem::take(jobs), answers, expected, &committed);
        Ok(if drafts.is_empty() { Attempt::NothingToAppend } else { Attempt::Appended })
    }

    /// Holds the jobs that make commits while the branch may not go on, and those behind them that are about the same
    /// collections; says whether there were some.
    fn hold(&mut self, jobs: &mut Vec<Job>, answers: &[Option<Result<Granted, SubmitError>>]) -> bool {
        let Some(held) = &mut self.held else { return false };
        if self.mirror.journal.goes_on_at().is_none() {
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

    /// Sets aside the jobs that were not decided: the first one needs more than one turn, the others had no
    /// time or room beside it. What is left are those that are answered, and how.
    fn set_aside(
        &mut self,
        jobs: &mut Vec<Job>,
        answers: Vec<Option<Result<Granted, SubmitError>>>,
    ) -> Vec<Result<Granted, SubmitError>> {
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

    /// Looks at the branch after an attempt that failed.
    fn after(&mut self, error: StoreError, race: usize) -> Result<Attempt, StoreError> {
        let looked = self.mirror.refresh(&Hint::Branch);
        let StoreError::HeadMoved { expected, found } = error else {
            // The branch may have moved before it failed; what is there is served.
            return Err(error);
        };
        tracing::debug!(?expected, ?found, race, "the branch moved while committing, deciding again");
        looked.and_then(|()| self.wait_for_the_branch()).map(|()| Attempt::RaceLost)
    }

    /// Waits until the branch is served as it is. While git is in the middle of changing the work tree it may not
    /// be, and what is decided on what it was loses every race.
    fn wait_for_the_branch(&mut self) -> Result<(), StoreError> {
        let began = Instant::now();
        while self.mirror.journal.head()? != self.mirror.snapshot().revision
            && began.elapsed() < self.options.mirror.busy_max
        {
            thread::sleep(BRANCH_LOOK_WAIT);
            self.mirror.refresh(&Hint::Branch)?;
        }
        Ok(())
    }

    /// Looks at the files of the jobs. While git is in the middle of changing the work tree they can't be seen, and what
    /// is decided without them would undo what a person has saved.
    fn look_at_files(&mut self, jobs: &[Job]) -> Result<(), StoreError> {
        let keys: BTreeSet<&Key> = keys_of(jobs).collect();
        let names: BTreeSet<String> =
            keys.into_iter().flat_map(|key| names_with_rivals(self.mirror, key)).collect();
        let files = Hint::Files(names.into_iter().collect());
        self.mirror.refresh(&files)?;
        while self.mirror.is_unseen() {
            self.mirror.journal.wait_for_git()?;
            thread::sleep(BRANCH_LOOK_WAIT);
            self.mirror.refresh(&files)?;
        }
        if jobs.iter().any(|job| job.submission.dry_run) {
            // Nothing is appended for it, so nothing else would notice that the branch has moved.
            self.mirror.refresh(&Hint::Branch)?;
        }
        Ok(())
    }

    /// Sets aside the jobs that wait for a file of their key to be believed.
    fn defer(&mut self, jobs: &mut Vec<Job>) {
        let Some(deferred) = &mut self.deferred else { return };
        let (wait, go) = std::mem::take(jobs).into_iter().partition::<Vec<_>, _>(|job| {
            job.asked_at.elapsed() < DEFERRED_WAIT_MAX
                && keys_of(std::slice::from_ref(job)).any(|key| self.mirror.is_suspect(key))
        });
        deferred.extend(wait);
        *jobs = go;
    }

    fn tell_fallbacks(&self, fallbacks: Vec<(Key, String)>) {
        for (key, why) in fallbacks {
            tracing::warn!(collection.key = %key, why, "more of the file than the changed values was rewritten");
        }
    }

    /// Counts the writes that became commits, and the commits of hand edits that were in their way.
    fn count(&self, jobs: &[Job], answers: &[Result<Granted, SubmitError>], drafts: usize) {
        let took = jobs.iter().zip(answers).filter_map(|(job, answer)| {
            answer.as_ref().ok()?.draft?;
            Some(job.asked_at.elapsed())
        });
        let took: Vec<_> = took.collect();
        if !took.is_empty() {
            self.options.metrics.committed_group(&took, drafts.saturating_sub(took.len()));
        }
    }
}

/// Answers each with the commit that was made for it; one that needed none, with what its predecessors in the group had
/// left, on which it was decided.
fn answer(
    jobs: Vec<Job>,
    answers: Vec<Result<Granted, SubmitError>>,
    mut revision: Option<Revision>,
    committed: &[Committed],
) {
    for (job, answer) in jobs.into_iter().zip(answers) {
        job.answer(answer.map(|Granted { outcomes, preview, draft }| {
            revision = draft.map(|draft| committed[draft].revision).or(revision);
            Written { revision, outcomes, preview }
        }));
    }
}

/// The submissions as long as there is time, at least the first; all of them when the service ends.
fn in_time(jobs: &[Job], started: Instant, is_last: bool) -> impl Iterator<Item = &Submission> {
    let has_time = move |at: usize| is_last || at == 0 || started.elapsed() < DECIDING_MAX;
    jobs.iter().enumerate().map_while(move |(at, job)| has_time(at).then_some(&job.submission))
}

/// Answers a group of which nobody knows whether its commits are on the branch. What needs none of them rests on
/// a branch that nobody knows either.
fn answer_unknown(
    ledger: &Ledger,
    jobs: Vec<Job>,
    answers: &[Result<Granted, SubmitError>],
    drafts: &[Draft],
) {
    for (job, answer) in jobs.into_iter().zip(answers) {
        let draft = answer.as_ref().ok().and_then(|granted| granted.draft);
        let refusal = draft.map_or(SubmitError::RemoteUnreachable, |draft| {
            let told = message::parse(&drafts[draft].message).events;
            let events: Vec<Uuid> = told.iter().filter_map(|event| event.id).collect();
            if let Some(once) = &job.submission.once {
                ledger.note_unknown(&job.submission.author, once, events.clone());
            }
            SubmitError::OutcomeUnknown { events }
        });
        job.answer(Err(refusal));
    }
}

/// Answers those who ask again for what nobody knows of yet; the others wait for that too.
fn answer_asked_again(ledger: &Ledger, jobs: &mut Vec<Job>) {
    let (again, others) =
        std::mem::take(jobs).into_iter().partition::<Vec<_>, _>(|job| events_of(ledger, job).is_some());
    *jobs = others;
    for job in again {
        let events = events_of(ledger, &job).unwrap_or_default();
        job.answer(Err(SubmitError::OutcomeUnknown { events }));
    }
}

fn events_of(ledger: &Ledger, job: &Job) -> Option<Vec<Uuid>> {
    ledger.unknown(&job.submission.author, job.submission.recorded_once()?)
}

/// What became of each file that a chain of commits changed.
fn files_of(drafts: &[Draft], committed: &[Committed]) -> Vec<(String, Option<BlobId>)> {
    let each = drafts.iter().zip(committed).flat_map(|(draft, made)| {
        draft.files.iter().map(|(name, _)| name.clone()).zip(made.blobs.iter().copied())
    });
    each.collect::<BTreeMap<_, _>>().into_iter().collect()
}

/// Whether the answer to one of these is to be relied on.
fn needs_disk<'a>(mut jobs: impl Iterator<Item = &'a Job>) -> bool {
    jobs.any(|job| !job.submission.dry_run)
}

/// Notes what was granted under a name, at the revision that its answer has.
fn record(
    ledger: &Ledger,
    job: &Job,
    answer: &Result<Granted, SubmitError>,
    at: Option<Revision>,
    now: DateTime<Utc>,
) {
    let Job { submission, .. } = job;
    if let (Some(once), Ok(granted)) = (submission.recorded_once(), answer) {
        let made = match (granted.draft, at) {
            (Some(_), Some(revision)) => RecordedOutcome::Commit(revision),
            _ => RecordedOutcome::Nothing { at, outcomes: granted.outcomes.clone() },
        };
        ledger.record(Scope::of(&submission.author, once), once.fingerprint, now, made);
    }
}

fn log_batch(submissions: usize, commits: usize, revision: Revision, took: Duration) {
    tracing::debug!(
        batch.len = submissions,
        commits,
        %revision,
        duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        "committed"
    );
}
