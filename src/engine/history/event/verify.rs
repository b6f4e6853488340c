//! Verifies that every commit says what it did, and that it is signed with the right key.
//!
//! An invalid signature is a disagreement, whatever the committer. A signature with a key that is not in the list of
//! allowed keys, if there is a list, is one as well. A commit of the service that is signed by an allowed person
//! instead is one too: otherwise everyone who may sign could commit in the service's name. A missing signature is a
//! disagreement only if the [`Rules`] require one.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use uuid::Uuid;

use crate::domain::{Actor, Key, Revision};
use crate::engine::history::event::Action;
use crate::engine::history::{HistoryError, View};
use crate::format::message::{self, Message, OriginTrailer};
use crate::store::signature::{
    BadSignature, KeyName, NotAllowed, NotChecked, SignatureChecker, SignatureStatus,
};
use crate::store::{Commit, Damage, StoreError};

/// Who made a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitOrigin {
    /// The service, for itself or for an actor.
    Service,
    /// A person, with git.
    Person,
}

/// The rules that commits must follow.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// Checks signatures against the allowed keys.
    pub checker: SignatureChecker,
    /// Whether every commit of the service needs a valid signature.
    pub require_signature: bool,
    /// What `git fsck` finds wrong with the objects that a commit adds.
    pub faults: HashMap<Revision, Vec<String>>,
}

/// A disagreement between a commit and its message or signature.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Disagreement {
    /// The commit has the service's trailers, but another committer.
    #[error("it has the service's trailers, but {email} committed it; if that is the service, give --committer-email {email}", email = .0.email())]
    Committer(Actor),
    /// The trailers name a collection that the commit did not touch.
    #[error("its trailers name `{0}`, which it did not touch")]
    Untouched(Key),
    /// The commit touched a collection that its trailers do not name.
    #[error("it touched `{0}`, which its trailers do not name")]
    Unnamed(Key),
    /// The trailers name another action than what happened to the collection.
    #[error("its trailers say `{claimed}` of `{key}`, which was {}", .did.as_str())]
    Action {
        key: Key,
        /// What the trailers say.
        claimed: String,
        /// What happened.
        did: Action,
    },
    /// An event has the id of another one.
    #[error("its event `{id}` is one of {earlier} already")]
    Repeated {
        id: Uuid,
        /// The commit that had it first.
        earlier: Revision,
    },
    /// The service committed it without trailers, although it touched collections.
    #[error("the service committed it without trailers")]
    Unexplained,
    /// Its signature is invalid.
    #[error("its signature does not hold: {0}")]
    BadSignature(BadSignature),
    /// Its signature is valid, but its key is not allowed.
    #[error("its signature is not to be believed: the key is {key}, and {why}")]
    NotAllowed {
        key: KeyName,
        /// Why the key is not allowed.
        why: NotAllowed,
    },
    /// The service committed it, but it is signed with another signer's key.
    #[error("the service committed it, but {signer} signed it")]
    Signer {
        /// The principals that the key is listed for.
        signer: String,
    },
    /// The commit, or the commit it is compared with, is damaged.
    #[error("{0}; `git fsck --strict` tells more")]
    Damaged(String),
    /// The commit adds an object that git finds damaged or malformed.
    #[error("`git fsck --strict` says: {0}")]
    Fsck(String),
    /// The service committed it, but no valid signature proves that.
    #[error("the service committed it without a valid signature")]
    Unproven,
}

/// The result of verifying a commit.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    pub commit: Commit,
    pub maker: CommitOrigin,
    /// The number of its reported events.
    pub events_len: usize,
    pub disagreements: Vec<Disagreement>,
    pub signature: SignatureStatus,
}

impl View {
    /// Verifies the indexed commits that `until` (the head without it) reaches and `after` (none without it) does not,
    /// oldest first. Ends early when `each` breaks.
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
            let verdict = match self.verify_commit(number, rules) {
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

    /// Returns the commits that [`verify`](Self::verify) checks.
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

    /// Returns the indexed commits that `until` reaches and `after` does not, by number.
    fn between(
        &self,
        after: Option<Revision>,
        until: Option<Revision>,
    ) -> Result<impl Iterator<Item = u32>, HistoryError> {
        let newest = |revision| self.newest_reached(revision);
        let until = until.map_or(Ok(Some(u32::MAX)), newest)?;
        let after = after.map_or(Ok(None), newest)?;
        let forks = self.index.forks();
        let reaches = |from: Option<u32>, commit| from.is_some_and(|from| forks.reaches(from, commit));
        Ok((0..self.index.len()).filter(move |commit| reaches(until, *commit) && !reaches(after, *commit)))
    }

    /// Checks the signature of a commit against the keys that this history trusts.
    ///
    /// # Errors
    ///
    /// Fails when the commit can't be read.
    pub fn signature(&self, revision: Revision) -> Result<SignatureStatus, HistoryError> {
        let Some(commit) = self.shared.archive.commit(revision)? else { return Ok(SignatureStatus::None) };
        self.signature_by(&self.shared.options.checker, &commit)
    }

    fn signature_by(
        &self,
        checker: &SignatureChecker,
        commit: &Commit,
    ) -> Result<SignatureStatus, HistoryError> {
        match self.shared.archive.signature(commit.revision) {
            Err(StoreError::Damaged { damage: Damage::TooLarge(len), .. }) => {
                Ok(SignatureStatus::NotChecked(NotChecked::TooLarge(len)))
            }
            raw => Ok(checker.check(raw?.as_ref(), commit)),
        }
    }

    /// Returns the verdict on a commit that can't be read any more, or whose comparison can't.
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
            maker: CommitOrigin::Person,
            events_len: self.index.reported_len(self.index.events_of(number)),
            disagreements: vec![Disagreement::Damaged(why)],
            signature: SignatureStatus::None,
        }
    }

    fn verify_commit(&self, number: u32, rules: &Rules) -> Result<Verdict, HistoryError> {
        let revision = self.index.commit(number).revision;
        let Some(commit) = self.shared.archive.commit(revision)? else {
            return Ok(self.unreadable(number, "it is missing".to_owned()));
        };
        let message = message::parse(&commit.message);
        let by_service = self.shared.options.committers.iter().any(|it| it == commit.committer.email());
        let events = self.index.events_of(number);
        // What a commit did is unknown if a shallow clone lacks its parent.
        let is_cut_off = self.shared.archive.shallow_boundary()?.contains(&commit.revision);
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
        let maker = if by_service { CommitOrigin::Service } else { CommitOrigin::Person };
        disagreements.extend(signature_disagreement(&signature, maker, rules));
        let events_len = self.index.reported_len(events);
        Ok(Verdict { commit, maker, events_len, disagreements, signature })
    }

    /// Compares the trailers with what happened.
    fn compare(
        &self,
        number: u32,
        message: &Message,
        disagreements: &mut Vec<Disagreement>,
    ) -> Result<(), HistoryError> {
        let events: Vec<u32> = self.index.events_of(number).collect();
        for trailers in &message.events {
            disagreements.extend(trailers.id.and_then(|id| self.duplicate_id(id, number)));
            let Ok(at) = events.binary_search_by(|event| self.index.key_of(*event).cmp(&trailers.key)) else {
                disagreements.push(Disagreement::Untouched(trailers.key.clone()));
                continue;
            };
            let (event, did) = (events[at], self.index.event(events[at]).action);
            let Some(action) = &trailers.action else { continue };
            if !self.is_fair(event, action.trim_start_matches("collection."), did)? {
                let (key, claimed) = (trailers.key.clone(), action.clone());
                disagreements.push(Disagreement::Action { key, claimed, did });
            }
        }
        if message.origin == Some(OriginTrailer::Merge) {
            // What a merge decided follows from its parents.
            return Ok(());
        }
        let named: HashSet<&Key> = message.events.iter().map(|named| &named.key).collect();
        let unnamed = events.iter().map(|event| self.index.key_of(*event)).filter(|key| !named.contains(key));
        disagreements.extend(unnamed.cloned().map(Disagreement::Unnamed));
        Ok(())
    }

    /// Returns a disagreement if an event of another commit has this id.
    fn duplicate_id(&self, id: Uuid, commit: u32) -> Option<Disagreement> {
        let owner = self.index.event(self.index.find_event(id)?).commit;
        let earlier = self.index.commit(owner).revision;
        (owner != commit).then_some(Disagreement::Repeated { id, earlier })
    }

    /// Reports whether a trailer's action is what happened. A collection whose file could never be read counts as
    /// created by its first readable file.
    fn is_fair(&self, event: u32, claimed: &str, did: Action) -> Result<bool, HistoryError> {
        match (Action::parse(claimed), did) {
            (Some(claimed), did) if claimed == did => Ok(true),
            (Some(Action::Created), Action::Updated) => Ok(self.good_version_before(event)?.is_none()),
            (Some(_) | None, _) => Ok(false),
        }
    }
}

/// Returns what is wrong with a signature, if anything.
fn signature_disagreement(
    signature: &SignatureStatus,
    maker: CommitOrigin,
    rules: &Rules,
) -> Option<Disagreement> {
    let is_needed = rules.require_signature && maker == CommitOrigin::Service;
    match signature {
        SignatureStatus::Bad(why) => Some(Disagreement::BadSignature(why.clone())),
        SignatureStatus::NotAllowed { key, why } => {
            Some(Disagreement::NotAllowed { key: key.clone(), why: *why })
        }
        SignatureStatus::Valid { signer, .. } if maker == CommitOrigin::Service && !signer.is_committer => {
            Some(Disagreement::Signer { signer: signer.principals.clone() })
        }
        SignatureStatus::Valid { .. } => None,
        SignatureStatus::None | SignatureStatus::Unattributed(_) | SignatureStatus::NotChecked(_) => {
            is_needed.then_some(Disagreement::Unproven)
        }
    }
}
