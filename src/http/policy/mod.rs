//! The built-in authorizer: bearer tokens from a policy file.
//!
//! What the file does not grant is denied: a missing, unknown or expired token is 401, a token without the right
//! is 403, and a list shows only the keys that its token may read. A changed file is loaded while the service runs
//! (`file`): a removed entry is refused from then on. An open stream is authorized again before more is sent on
//! it, so it ends or shows other keys.
//!
//! # What a token needs
//!
//! | right | what it allows |
//! |---|---|
//! | `read` | list and read collections, follow what is served, problems, `/sync-token`, `/changes`, capabilities, the OpenAPI documents |
//! | `write` | create, update and delete; answers and dry runs show the current state of what is written |
//! | `audit` | the past: `asOf`, events and their streams, `/diff`, blame |
//! | `write` and `audit` | undo an event, restore a collection; both show its past |
//! | `operate` | operate the service itself |
//!
//! A right is granted for some keys. A token is refused everything about other keys, and lists of collections,
//! problems, events, differences and changes leave them out. An event that does not exist is refused like one of
//! another key, so that a token can't be used to probe for events.

mod file;
mod required_rights;
#[cfg(test)]
mod tests;
mod wrong;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use sha2::{Digest as _, Sha256};
use warp::http::HeaderMap;
use warp::http::header::AUTHORIZATION;

use crate::config::PolicyLimits;
use crate::domain::{Right, SecretHash, Token};
use crate::http::authorize::{
    Action, Allowed, Authorizer, Authorizing, Denied, Identifying, Identity, RequestHead,
};
use crate::http::context::Clock;
pub use crate::http::policy::file::PolicyError;
use crate::http::policy::file::{PolicyFile, PolicyReading};
use crate::http::policy::required_rights::{denial, missing_right, required_rights};
use crate::http::policy::wrong::WrongTokens;
use crate::telemetry::millis;

/// Parses the bytes of a policy file. An error says what is wrong and where.
///
/// The format of the file is defined elsewhere; see [`format`](crate::format::policy).
pub type ReadPolicy = fn(&[u8]) -> Result<Vec<Token>, String>;

/// Allows what the tokens of a policy file grant.
#[derive(Debug)]
pub struct Policy {
    /// Keyed by the hashes of the secrets. The lookup key is a hash too, so its duration reveals nothing about a
    /// secret.
    tokens: ArcSwap<HashMap<SecretHash, Entry>>,
    /// What is wrong with the file.
    trouble: ArcSwapOption<String>,
    file: Mutex<PolicyFile>,
    age_max: Duration,
    /// The instant from which `next_look_ms` counts.
    opened: Instant,
    next_look_ms: AtomicU64,
    /// How often a file was loaded.
    readings: AtomicU64,
    wrong: WrongTokens,
    clock: Clock,
}

/// A token, and the number of the reading in which it first appeared in its present form.
#[derive(Debug, Clone)]
struct Entry {
    token: Arc<Token>,
    since: u64,
}

impl Policy {
    /// Opens a policy file, and follows its changes from now on.
    ///
    /// # Errors
    ///
    /// Fails if the file can't be used: a service does not start on a policy that it can't read.
    pub fn open(
        path: impl Into<PathBuf>,
        read: ReadPolicy,
        limits: &PolicyLimits,
    ) -> Result<Self, PolicyError> {
        let clock = Clock::system();
        let (file, found) = PolicyFile::open(path.into(), read, limits, clock)?;
        let policy = Self {
            tokens: ArcSwap::default(),
            trouble: ArcSwapOption::empty(),
            file: Mutex::new(file),
            age_max: limits.policy_age_max(),
            opened: Instant::now(),
            next_look_ms: AtomicU64::new(0),
            readings: AtomicU64::new(0),
            wrong: WrongTokens::new(limits.wrong_tokens_per_s_max),
            clock,
        };
        policy.take_over(found);
        Ok(policy)
    }

    /// Reads the file now. The caller knows that it is complete.
    pub fn reload(&self) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the file's lock, so that readings take effect in the order in which they were made.
        if let Some(found) = file.read_now() {
            self.take_over(found);
        }
    }

    /// Checks the file for changes, if it is time to.
    fn refresh(&self) {
        let now_ms = millis(self.opened.elapsed());
        if now_ms < self.next_look_ms.load(Ordering::Acquire) {
            return;
        }
        // If another request is checking the file, the current policy is used.
        let Ok(mut file) = self.file.try_lock() else { return };
        if let Some(found) = file.reload_if_changed() {
            self.take_over(found);
        }
        self.next_look_ms.store(now_ms.saturating_add(millis(self.age_max)), Ordering::Release);
    }

    fn take_over(&self, found: PolicyReading) {
        if let Some(tokens) = found.tokens {
            let known = self.tokens.load();
            let since = self.readings.fetch_add(1, Ordering::Relaxed) + 1;
            let entry = |token: Token| match known.get(&token.secret_hash) {
                Some(entry) if *entry.token == token => entry.clone(),
                _ => Entry { token: Arc::new(token), since },
            };
            let by_hash = tokens.into_iter().map(|token| (token.secret_hash, entry(token))).collect();
            self.tokens.store(Arc::new(by_hash));
        }
        self.trouble.store(found.trouble.map(Arc::new));
    }

    /// Returns the entry of the request's token.
    fn entry(&self, head: &RequestHead<'_>) -> Result<Entry, Denied> {
        self.refresh();
        let secret = bearer(head.headers)
            .ok_or_else(|| Denied::unauthenticated("Send a token as `Authorization: Bearer TOKEN`."))?;
        let tokens = self.tokens.load();
        let entry = tokens.get(&SecretHash::new(Sha256::digest(secret).into()));
        let refused = match entry {
            None => "The token is not known here.",
            Some(Entry { token, .. })
                if token.expires.is_some_and(|expiry| expiry.has_passed(self.clock.now())) =>
            {
                "The token has expired."
            }
            Some(entry) => return Ok(entry.clone()),
        };
        self.wrong.count(head.remote)?;
        Err(Denied::unauthenticated(refused))
    }

    fn decide(&self, head: &RequestHead<'_>, action: Action<'_>) -> Result<Allowed, Denied> {
        let token = self.entry(head)?.token;
        let (rights, of) = required_rights(action);
        if let Some(right) = missing_right(&token, rights, of) {
            return Err(denial(right, of));
        }
        let allowed = Allowed::by(token.actor.clone());
        if rights.iter().all(|&right| token.has_right_for_all(right)) {
            return Ok(allowed);
        }
        // This also applies to an action on one key, because its answer may name other keys.
        Ok(allowed.with_visibility(move |key| rights.iter().all(|&right| token.has_right_for(right, key))))
    }
}

impl Authorizer for Policy {
    fn identify<'a>(&'a self, head: &'a RequestHead<'a>) -> Identifying<'a> {
        let identity = self.entry(head).map(|Entry { token, since }| Identity {
            may_write: token.has_right(Right::Write),
            policy_generation: since,
            ..Identity::new(token.actor.clone(), Arc::clone(&token.grants))
        });
        Box::pin(std::future::ready(identity))
    }

    fn authorize<'a>(&'a self, head: &'a RequestHead<'a>, action: Action<'a>) -> Authorizing<'a> {
        Box::pin(std::future::ready(self.decide(head, action)))
    }

    fn rules_error(&self) -> Option<String> {
        self.refresh();
        self.trouble.load().as_deref().cloned()
    }
}

/// Returns the token of the only `Authorization` header, if its scheme is `Bearer` (RFC 6750 section 2.1).
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next()?.as_bytes();
    if values.next().is_some() {
        return None;
    }
    let (scheme, token) = value.split_at_checked(b"Bearer ".len())?;
    (scheme.eq_ignore_ascii_case(b"Bearer ")).then(|| token.trim_ascii()).filter(|token| !token.is_empty())
}
