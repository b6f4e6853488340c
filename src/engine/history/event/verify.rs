//! Does every commit say what it did, and is it signed by whom it should be?
//!
//! A signature that does not hold is a disagreement, whoever made the commit, and so is one of a
//! key that is not among the allowed ones, where somebody said which are. A commit of the service
//! that an allowed person signed instead of it is one too: else whoever may sign could commit in
//! the service's name. No signature is none, unless the [`Rules`] ask for one.

use std::collections::{HashMap, HashSet};
use std::ops::{ControlFlow, Range};

use uuid::Uuid;

use crate::domain::{Actor, Key, Revision};
use crate::engine::history::event::Action;
use crate::engine::history::{HistoryError, View};
use crate::format::message::{self, Message, OriginTrailer};
use crate::store::signature::{BadSignature, Checker, KeyName, NotAllowed, NotChecked, Signature};
use crate::store::{Commit, Damage, StoreError};

/// Who made a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Maker {
    /// The service, for itself or for an actor.
    Service,
    /// A person, with git.
    Person,
}

/// What is asked of signatures.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// Whom to believe.
    pub checker: Checker,
    /// Whether every commit of the service needs a valid signature.
    pub require_signature: bool,
    /// What git finds wrong with what a commit brings.
    pub faults: HashMap<Revision, Vec<String>>,
}

/// In what a commit's message is at odds with the commit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Disagreement {
    /// The service's trailers stand in a commit that somebody else committed.
    #[error("it has the service's trailers, but {} committed it", .0.email())]
    Committer(Actor),
    /// The trailers tell of a collection that the commit did not touch.
    #[error("its trailers tell of `{0}`, which it did not touch")]
    Untouched(Key),
    /// The commit touched a collection that its trailers do not tell of.
    #[error("it touched `{0}`, which its trailers do not tell of")]
    Untold(Key),
    /// The trailers tell something else of a collection than what happened.
    #[error("its trailers say `{told}` of `{key}`, which was {}", .did.as_str())]
    Action {
        /// The collection.
        key: Key,
        /// What the trailers say.
        told: String,
        /// What happened.
        did: Action,
    },
    /// An event has the id of another one.
    #[error("its event `{id}` is one of {earlier} already")]
    Repeated {
        /// The id.
        id: Uuid,
        /// The commit that had it first.
        earlier: Revision,
    },
    /// The service committed it, but there is no trailer, although it touched collections.
    #[error("the service committed it without trailers")]
    Unexplained,
    /// Its signature does not hold.
    #[error("its signature does not hold: {0}")]
    BadSignature(BadSignature),
    /// Its signature holds, and its key is not allowed.
    #[error("its signature is not to be believed: the key is {key}, and {why}")]
    NotAllowed {
        /// The key.
        key: KeyName,
        /// Why not.
        why: NotAllowed,
    },
    /// The service committed it, and somebody else signed it.
    #[error("the service committed it, but {signer} signed it")]
    Signer {
        /// For whom the key is listed.
        signer: String,
    },
    /// The commit is damaged, or what it is compared with.
    #[error("{0}; `git fsck --strict` tells more")]
    Damaged(String),
    /// The commit brings what git finds damaged, or not as git writes it.
    #[error("`git fsck --strict` says: {0}")]
    Fsck(String),
    /// The service committed it, and nothing proves that.
    #[error("the service committed it without a valid signature")]
    Unproven,
}

/// What is to be said of a commit.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The commit.
    pub commit: Commit,
    /// Who made it.
    pub maker: Maker,
    /// How many collections it touched.
    pub events_len: usize,
    /// In what trailers and content do not agree.
    pub disagreements: Vec<Disagreement>,
    /// Its signature.
    pub signature: Signature,
}

impl View {
    /// Judges the commits along first parents, oldest first: those behind `after` (all without
    /// it), up to and with `until` (the head without it). Ends early when `each` breaks.
    ///
    /// # Errors
    ///
    /// Fails when the repository can't be read.
    pub fn verify(
        &self,
        after: Option<Revision>,
        until: Option<Revision>,
        rules: &Rules,
        each: &mut dyn FnMut(Verdict) -> ControlFlow<()>,
    ) -> Result<(), HistoryError> {
        for number in self.between(after, until)? {
            let verdict = match self.judge(number, rules) {
                Err(error @ (HistoryError::Store(StoreError::Damaged { .. }) | HistoryError::Lost(_))) => {
                    self.unreadable(number, error.to_string())
                }
                verdict => verdict?,
            };
            if each(verdict).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// The commits that [`verify`](Self::verify) judges.
    ///
    /// # Errors
    ///
    /// Fails when the repository can't be read.
    pub fn line(
        &self,
        after: Option<Revision>,
        until: Option<Revision>,
    ) -> Result<Vec<Revision>, HistoryError> {
        Ok(self.between(after, until)?.map(|number| self.index.commit(number).revision).collect())
    }

    fn between(&self, after: Option<Revision>, until: Option<Revision>) -> Result<Range<u32>, HistoryError> {
        let behind = |revision: Option<Revision>| -> Result<Option<u32>, HistoryError> {
            let Some(revision) = revision else { return Ok(None) };
            Ok(Some(self.newest_reached(revision)?.map_or(0, |commit| commit + 1)))
        };
        Ok(behind(after)?.unwrap_or(0)..behind(until)?.unwrap_or_else(|| self.index.len()))
    }

    /// The signature of a commit, by whom this history believes.
    ///
    /// # Errors
    ///
    /// Fails when the commit can't be read.
    pub fn signature(&self, revision: Revision) -> Result<Signature, HistoryError> {
        let Some(commit) = self.shared.archive.commit(revision)? else { return Ok(Signature::None) };
        self.signature_by(&self.shared.options.checker, &commit)
    }

    fn signature_by(&self, checker: &Checker, commit: &Commit) -> Result<Signature, HistoryError> {
        match self.shared.archive.signature(commit.revision) {
            Err(StoreError::Damaged { damage: Damage::TooLarge(len), .. }) => {
                Ok(Signature::NotChecked(NotChecked::TooLarge(len)))
            }
            raw => Ok(checker.check(raw?.as_ref(), commit)),
        }
    }

    /// What is to be said of a commit that can't be read any more, or what it is compared with.
    fn unreadable(&self, number: u32, why: String) -> Verdict {
        let row = self.index.commit(number);
        let commit = Commit {
            revision: row.revision,
            parents: Vec::new(),
            author: Actor::clone(self.index.actor(row.actor)),
            committer: Actor::anonymous(),
            at: row.time(),
            message: String::new(),
        };
        Verdict {
            commit,
            maker: Maker::Person,
            events_len: self.index.events_of(number).len(),
            disagreements: vec![Disagreement::Damaged(why)],
            signature: Signature::None,
        }
    }

    fn judge(&self, number: u32, rules: &Rules) -> Result<Verdict, HistoryError> {
        let revision = self.index.commit(number).revision;
        let Some(commit) = self.shared.archive.commit(revision)? else {
            return Ok(self.unreadable(number, "it is missing".to_owned()));
        };
        let message = message::parse(&commit.message);
        let by_service = self.shared.options.committers.iter().any(|it| it == commit.committer.email());
        let events = self.index.events_of(number);
        // What a commit did that a shallow clone cut off nobody can tell.
        let is_cut_off = self.shared.archive.cut_off()?.contains(&commit.revision);
        let claims = !is_cut_off && (!message.events.is_empty() || message.origin.is_some());
        let mut disagreements = Vec::new();
        match rules.faults.get(&revision) {
            Some(faults) => disagreements.extend(faults.iter().cloned().map(Disagreement::Fsck)),
            None if self.index.commit(number).is_damaged => {
                disagreements.extend(self.shared.damage(revision)?.map(Disagreement::Damaged));
            }
            None => {}
        }
        if claims && !by_service {
            disagreements.push(Disagreement::Committer(commit.committer.clone()));
        }
        if claims {
            self.compare(number, &message, &mut disagreements)?;
        } else if by_service && !events.is_empty() && !is_cut_off {
            disagreements.push(Disagreement::Unexplained);
        }
        let signature = self.signature_by(&rules.checker, &commit)?;
        let maker = if by_service { Maker::Service } else { Maker::Person };
        disagreements.extend(objection(&signature, maker, rules));
        let events_len = events.filter(|event| !self.index.is_quiet(*event)).count();
        Ok(Verdict { commit, maker, events_len, disagreements, signature })
    }

    /// Compares what the trailers tell with what happened.
    fn compare(
        &self,
        number: u32,
        message: &Message,
        disagreements: &mut Vec<Disagreement>,
    ) -> Result<(), HistoryError> {
        let events: Vec<u32> = self.index.events_of(number).collect();
        for told in &message.events {
            disagreements.extend(told.id.and_then(|id| self.repeated(id, number)));
            let Ok(at) = events.binary_search_by(|event| self.index.key_of(*event).cmp(&told.key)) else {
                disagreements.push(Disagreement::Untouched(told.key.clone()));
                continue;
            };
            let (event, did) = (events[at], self.index.event(events[at]).action);
            let Some(action) = &told.action else { continue };
            if !self.is_fair(event, action.trim_start_matches("collection."), did)? {
                let (key, told) = (told.key.clone(), action.clone());
                disagreements.push(Disagreement::Action { key, told, did });
            }
        }
        if message.origin == Some(OriginTrailer::Merge) {
            // What it decided follows from its parents.
            return Ok(());
        }
        let told: HashSet<&Key> = message.events.iter().map(|told| &told.key).collect();
        let untold = events.iter().map(|event| self.index.key_of(*event)).filter(|key| !told.contains(key));
        disagreements.extend(untold.cloned().map(Disagreement::Untold));
        Ok(())
    }

    /// Says so of an id that an event of another commit has.
    fn repeated(&self, id: Uuid, commit: u32) -> Option<Disagreement> {
        let owner = self.index.event(self.index.find_event(id)?).commit;
        let earlier = self.index.commit(owner).revision;
        (owner != commit).then_some(Disagreement::Repeated { id, earlier })
    }

    /// Whether a word says what happened. A collection whose file never could be read counts as
    /// created by the first one that can.
    fn is_fair(&self, event: u32, told: &str, did: Action) -> Result<bool, HistoryError> {
        match (Action::parse(told), did) {
            (Some(told), did) if told == did => Ok(true),
            (Some(Action::Created), Action::Updated) => Ok(self.standing_before(event)?.is_none()),
            (Some(_) | None, _) => Ok(false),
        }
    }
}

/// What is wrong with a signature, if anything.
fn objection(signature: &Signature, maker: Maker, rules: &Rules) -> Option<Disagreement> {
    let is_needed = rules.require_signature && maker == Maker::Service;
    match signature {
        Signature::Bad(why) => Some(Disagreement::BadSignature(why.clone())),
        Signature::NotAllowed { key, why } => Some(Disagreement::NotAllowed { key: key.clone(), why: *why }),
        Signature::Valid { signer, .. } if maker == Maker::Service && !signer.is_committer => {
            Some(Disagreement::Signer { signer: signer.principals.clone() })
        }
        Signature::Valid { .. } => None,
        Signature::None | Signature::Unattributed(_) | Signature::NotChecked(_) => {
            is_needed.then_some(Disagreement::Unproven)
        }
    }
}
