//! The built-in authorizer: bearer tokens from a policy file.
//!
//! Whatever the file does not grant is denied: no token or an unknown one is 401, a token without
//! the right is 403, and a list shows the keys that its token may read. The file is re-read when
//! it changes; a version that can't be read is logged once and the last good one kept, so a typing
//! error locks nobody out and lets nobody in.
//!
//! Requests look after the file: the first one after [`policy_age_ms_max`] compares its metadata
//! (one system call), all others use what is known. So a removed token is refused at most that
//! much later, there is no thread to watch, and an idle service does nothing.
//!
//! An open stream of events is asked about again before more is sent on it, so it ends, or shows
//! other keys, with the same delay.
//!
//! # What a token needs
//!
//! | permission | what it allows |
//! |---|---|
//! | `read` | list and read collections, problems, capabilities and the OpenAPI documents |
//! | `write` | create, update and delete; undo an event, restore a collection |
//! | `audit` | the past: `asOf`, events and their stream, `/diff`, blame, `/sync-token`, `/changes` |
//!
//! A token with `keys` is for those keys in all of it: it is refused everything about another
//! key, and lists of events, differences and changes leave the others out. An event that there is
//! not is refused to it like one of another key, so that nobody can probe for events.
//!
//! [`policy_age_ms_max`]: crate::config::Limits::policy_age_ms_max

mod need;
#[cfg(test)]
mod tests;

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use warp::http::HeaderMap;
use warp::http::header::AUTHORIZATION;

use self::need::{Of, denial, needed};
use super::authorize::{Action, Allowed, Authorizer, Authorizing, Denied, RequestHead};
use crate::domain::Grant;

/// Reads the bytes of a policy file; what is wrong with them is told with its place.
///
/// The form of the file is not this layer's business; see [`format`](crate::format::policy).
pub type ReadPolicy = fn(&[u8]) -> Result<Vec<Grant>, String>;

/// The most bytes that are read of a policy file; a larger one is broken.
const READ_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// For how long after a change the metadata of a file is not trusted: a second write within the
/// clock's grain may leave them as they were (git's "racy" index entries are the same trouble).
const SETTLING: Duration = Duration::from_secs(2);

/// Allows what the tokens of a policy file grant.
#[derive(Debug)]
pub struct Policy {
    path: PathBuf,
    read: ReadPolicy,
    age_max: Duration,
    grants: ArcSwap<Vec<Arc<Grant>>>,
    /// When `next_look_ms` counts from.
    opened: Instant,
    next_look_ms: AtomicU64,
    seen: Mutex<Seen>,
}

/// Why a policy can't be used.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The file can't be read.
    #[error("cannot read the policy file {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file is broken.
    #[error("the policy file can't be used: {path}:{fault}")]
    Broken {
        /// The file.
        path: PathBuf,
        /// The place and what is wrong there.
        fault: String,
    },
}

/// What the file was when somebody last looked.
#[derive(Debug)]
struct Seen {
    stamp: Option<Stamp>,
    content: Content,
    changed: Instant,
}

/// What the file held.
#[derive(Debug, PartialEq, Eq)]
enum Content {
    /// These bytes, by their hash.
    Bytes([u8; 32]),
    /// Nothing that could be read.
    Unreadable(io::ErrorKind),
}

/// What changes when a file does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    modified: (i64, i64),
    changed: (i64, i64),
    inode: (u64, u64),
    bytes: u64,
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            inode: (metadata.dev(), metadata.ino()),
            bytes: metadata.len(),
        }
    }
}

impl Policy {
    /// Opens a policy file, and follows it from now on.
    ///
    /// # Errors
    ///
    /// Says why the file can't be used: a service does not start on a policy that is not
    /// understood.
    pub fn open(path: impl Into<PathBuf>, read: ReadPolicy, age_max: Duration) -> Result<Self, PolicyError> {
        let path = path.into();
        let stamp = std::fs::metadata(&path).ok().map(|metadata| Stamp::of(&metadata));
        let bytes = match contents(&path) {
            Ok(bytes) => bytes,
            Err(source) => return Err(PolicyError::Read { path, source }),
        };
        let grants = match read(&bytes) {
            Ok(grants) => grants,
            Err(fault) => return Err(PolicyError::Broken { path, fault }),
        };
        if grants.is_empty() {
            tracing::warn!(path = %path.display(), "the policy file has no tokens: everything is denied");
        }
        let opened = Instant::now();
        let content = Content::Bytes(Sha256::digest(&bytes).into());
        Ok(Self {
            path,
            read,
            age_max,
            grants: ArcSwap::from_pointee(shared(grants)),
            opened,
            next_look_ms: AtomicU64::new(0),
            seen: Mutex::new(Seen { stamp, content, changed: opened }),
        })
    }

    /// Takes a changed file into account, if it is time to look.
    fn refresh(&self) {
        let now_ms = millis(self.opened.elapsed());
        if now_ms < self.next_look_ms.load(Ordering::Acquire) {
            return;
        }
        // Whoever finds somebody looking goes on with what is known.
        let Ok(mut seen) = self.seen.try_lock() else { return };
        self.look(&mut seen);
        self.next_look_ms.store(now_ms.saturating_add(millis(self.age_max)), Ordering::Release);
    }

    fn look(&self, seen: &mut Seen) {
        let stamp = std::fs::metadata(&self.path).ok().map(|metadata| Stamp::of(&metadata));
        let is_trusted = stamp.is_some() && seen.changed.elapsed() > SETTLING;
        if is_trusted && stamp == seen.stamp {
            return;
        }
        if stamp != seen.stamp {
            seen.stamp = stamp;
            seen.changed = Instant::now();
        }
        let read = contents(&self.path);
        let content = match &read {
            Ok(bytes) => Content::Bytes(Sha256::digest(bytes).into()),
            Err(error) => Content::Unreadable(error.kind()),
        };
        if content == seen.content {
            return;
        }
        seen.content = content;
        seen.changed = Instant::now();
        match read.map_err(|error| error.to_string()).and_then(|bytes| (self.read)(&bytes)) {
            Ok(grants) => {
                tracing::info!(path = %self.path.display(), tokens = grants.len(), "took over the changed policy file");
                self.grants.store(Arc::new(shared(grants)));
            }
            Err(fault) => {
                tracing::warn!(path = %self.path.display(), fault, "kept the last good policy, the file can't be used");
            }
        }
    }

    /// The grant of the token that the request carries.
    fn grant(&self, headers: &HeaderMap) -> Result<Arc<Grant>, Denied> {
        let secret = bearer(headers)
            .ok_or_else(|| Denied::unauthenticated("Send a token as `Authorization: Bearer TOKEN`."))?;
        let hash: [u8; 32] = Sha256::digest(secret).into();
        let grants = self.grants.load();
        // All of them are looked at, whichever fits: how long it takes tells nothing.
        let mut found = None;
        for grant in grants.iter() {
            if bool::from(grant.secret_hash.ct_eq(&hash)) {
                found = Some(Arc::clone(grant));
            }
        }
        found.ok_or_else(|| Denied::unauthenticated("The token is not known here."))
    }

    fn decide(&self, head: &RequestHead<'_>, action: Action<'_>) -> Result<Allowed, Denied> {
        self.refresh();
        let grant = self.grant(head.headers)?;
        let (permission, key) = needed(action);
        let is_covered = match key {
            Of::Key(key) | Of::Hidden(key) => grant.covers(key),
            Of::Nothing => grant.keys.is_none(),
            Of::Any => true,
        };
        if !grant.permits(permission) || !is_covered {
            return Err(denial(permission, key));
        }
        let allowed = Allowed::by(grant.actor.clone());
        Ok(match (&grant.keys, key) {
            (Some(_), Of::Any) => allowed.seeing(move |key| grant.covers(key)),
            (Some(_) | None, _) => allowed,
        })
    }
}

impl Authorizer for Policy {
    fn authorize<'a>(&'a self, head: &'a RequestHead<'a>, action: Action<'a>) -> Authorizing<'a> {
        Box::pin(std::future::ready(self.decide(head, action)))
    }
}

/// The token of the one `Authorization` header, if that is `Bearer` (RFC 6750 section 2.1).
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next()?.as_bytes();
    if values.next().is_some() {
        return None;
    }
    let (scheme, token) = value.split_at_checked(b"Bearer ".len())?;
    (scheme.eq_ignore_ascii_case(b"Bearer ")).then(|| token.trim_ascii()).filter(|token| !token.is_empty())
}

fn contents(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(READ_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn shared(grants: Vec<Grant>) -> Vec<Arc<Grant>> {
    grants.into_iter().map(Arc::new).collect()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
