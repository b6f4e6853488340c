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

use super::authorize::{Action, Allowed, Authorizer, Authorizing, Denied, RequestHead};
use crate::domain::{Grant, Key, Permission};

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

/// What an action is about.
#[derive(Clone, Copy)]
enum Of<'a> {
    /// Whatever keys the token covers.
    Any,
    /// This key.
    Key(&'a Key),
    /// An event of this key, which the request does not name, and the answer to it must not.
    Hidden(&'a Key),
    /// Something that there is not: for those only to whom no key is hidden.
    Nothing,
}

/// What an action needs: the permission, and what must be covered.
///
/// Creating without a key that could be read will be refused as bad data; whoever may write is
/// told so.
fn needed(action: Action<'_>) -> (Permission, Of<'_>) {
    use Permission::{Audit, Read, Write};
    match action {
        Action::List | Action::ReadProblems | Action::ReadOpenApi | Action::ReadCapabilities => {
            (Read, Of::Any)
        }
        Action::Read { key } => (Read, Of::Key(key)),
        Action::Create { key, .. } => (Write, key.map_or(Of::Any, Of::Key)),
        Action::Update { key, .. } | Action::Delete { key } | Action::Restore { key } => {
            (Write, Of::Key(key))
        }
        Action::UndoEvent { key } => (Write, key.map_or(Of::Nothing, Of::Hidden)),
        Action::ListPast | Action::ReadDifference | Action::ReadSyncToken | Action::ReadChanges => {
            (Audit, Of::Any)
        }
        Action::ListEvents { key } | Action::StreamEvents { key } => (Audit, key.map_or(Of::Any, Of::Key)),
        Action::ReadPast { key } | Action::ReadBlame { key } => (Audit, Of::Key(key)),
        Action::ReadEvent { key } => (Audit, key.map_or(Of::Nothing, Of::Hidden)),
    }
}

fn denial(permission: Permission, of: Of<'_>) -> Denied {
    let verb = permission.as_str();
    let detail = match of {
        Of::Key(key) => format!("This token may not {verb} '{key}'."),
        Of::Any | Of::Hidden(_) | Of::Nothing => format!("This token may not {verb}."),
    };
    Denied::forbidden().with_detail(detail)
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

#[cfg(test)]
mod tests {
    use warp::http::{HeaderValue, Method, StatusCode};

    use super::*;
    use crate::domain::{Actor, KeyPattern};

    /// One grant a line: `SECRET PERMISSIONS [PATTERN]`.
    fn read(bytes: &[u8]) -> Result<Vec<Grant>, String> {
        let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
        text.lines()
            .enumerate()
            .map(|(index, line)| grant(line).ok_or(format!("{}:1: broken", index + 1)))
            .collect()
    }

    fn grant(line: &str) -> Option<Grant> {
        let mut words = line.split(' ');
        let (secret, may) = (words.next()?, words.next()?);
        Some(Grant {
            actor: Actor::new(secret, ""),
            secret_hash: Sha256::digest(secret).into(),
            may: may.split(',').map(Permission::parse).collect::<Option<_>>()?,
            keys: words.next().map(|pattern| vec![KeyPattern::parse(pattern).unwrap()]),
        })
    }

    struct Given {
        policy: Policy,
        file: PathBuf,
        _folder: tempfile::TempDir,
    }

    fn policy(text: &str) -> Given {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("policy.yaml");
        std::fs::write(&file, text).unwrap();
        let policy = Policy::open(&file, read, Duration::ZERO).unwrap();
        Given { policy, file, _folder: folder }
    }

    impl Given {
        fn asks(&self, authorization: &[&str], action: Action<'_>) -> Result<Allowed, Denied> {
            let mut headers = HeaderMap::new();
            for value in authorization {
                headers.append(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
            }
            let head = RequestHead {
                method: &Method::GET,
                path: "/",
                query: "",
                headers: &headers,
                remote: None,
                request_id: "1",
            };
            self.policy.decide(&head, action)
        }

        fn status(&self, token: &str, action: Action<'_>) -> u16 {
            let answer = self.asks(&[&format!("Bearer {token}")], action);
            answer.map_or_else(|denied| denied.status().as_u16(), |_| 200)
        }
    }

    fn key(text: &str) -> Key {
        Key::parse(text).unwrap()
    }

    #[test]
    fn without_a_known_token_everything_is_401() {
        let given = policy("mara read,write");
        for authorization in [
            &[][..],
            &[""],
            &["Bearer"],
            &["Bearer "],
            &["Bearer other"],
            &["Basic mara"],
            &["mara"],
            &["Bearer mara", "Bearer mara"],
            &["Bearer mara, Bearer other"],
        ] {
            for action in [Action::List, Action::ReadOpenApi, Action::Delete { key: &key("a") }] {
                let denied = given.asks(authorization, action).unwrap_err();
                assert_eq!(denied.status(), StatusCode::UNAUTHORIZED, "{authorization:?}");
            }
        }
        for authorization in ["Bearer mara", "bearer mara", "BEARER  mara "] {
            assert_eq!(given.asks(&[authorization], Action::List).unwrap().actor().name(), "mara");
        }
    }

    #[test]
    fn what_is_not_granted_is_403() {
        let given = policy("reader read\nwriter write\nnobody read b-*\nblogger read,write blog-*");
        let (posts, blog) = (key("posts"), key("blog-a"));
        let write = |key| Action::Update { key, content: None };
        let create = |key| Action::Create { key, content: None };
        for (token, action, status) in [
            ("reader", Action::List, 200),
            ("reader", Action::Read { key: &posts }, 200),
            ("reader", Action::ReadProblems, 200),
            ("reader", Action::ReadOpenApi, 200),
            ("reader", write(&posts), 403),
            ("reader", create(None), 403),
            ("writer", Action::List, 403),
            ("writer", Action::ReadOpenApi, 403),
            ("writer", Action::Delete { key: &posts }, 200),
            ("writer", create(None), 200),
            ("nobody", Action::Read { key: &blog }, 403),
            ("blogger", write(&blog), 200),
            ("blogger", write(&posts), 403),
            ("blogger", create(Some(&posts)), 403),
            ("blogger", create(Some(&blog)), 200),
            ("blogger", Action::Read { key: &posts }, 403),
        ] {
            assert_eq!(given.status(token, action), status, "{token} {action:?}");
        }
    }

    #[test]
    fn the_past_needs_a_permission_of_its_own() {
        let given = policy("reader read,write\nauditor audit\nblogger audit,write blog-*");
        let (posts, blog) = (key("posts"), key("blog-a"));
        for (action, reader, auditor, blogger) in [
            (Action::ListPast, 403, 200, 200),
            (Action::ReadPast { key: &posts }, 403, 200, 403),
            (Action::ListEvents { key: None }, 403, 200, 200),
            (Action::ListEvents { key: Some(&posts) }, 403, 200, 403),
            (Action::StreamEvents { key: None }, 403, 200, 200),
            (Action::ReadEvent { key: Some(&blog) }, 403, 200, 200),
            (Action::ReadEvent { key: Some(&posts) }, 403, 200, 403),
            (Action::ReadEvent { key: None }, 403, 200, 403),
            (Action::ReadDifference, 403, 200, 200),
            (Action::ReadBlame { key: &posts }, 403, 200, 403),
            (Action::ReadSyncToken, 403, 200, 200),
            (Action::ReadChanges, 403, 200, 200),
            (Action::UndoEvent { key: Some(&posts) }, 200, 403, 403),
            (Action::UndoEvent { key: Some(&blog) }, 200, 403, 200),
            (Action::UndoEvent { key: None }, 200, 403, 403),
            (Action::Restore { key: &posts }, 200, 403, 403),
            (Action::ReadCapabilities, 200, 403, 403),
        ] {
            for (token, status) in [("reader", reader), ("auditor", auditor), ("blogger", blogger)] {
                assert_eq!(given.status(token, action), status, "{token} {action:?}");
            }
        }
    }

    /// A refusal that named the key of an event would tell that there is such an event.
    #[test]
    fn an_event_of_another_key_is_refused_like_one_that_there_is_not() {
        let given = policy("blogger audit,write blog-*");
        let posts = key("posts");
        let told = |action| format!("{:?}", given.asks(&["Bearer blogger"], action).unwrap_err());
        assert_eq!(told(Action::ReadEvent { key: Some(&posts) }), told(Action::ReadEvent { key: None }));
        assert_eq!(told(Action::UndoEvent { key: Some(&posts) }), told(Action::UndoEvent { key: None }));
        let events = given.asks(&["Bearer blogger"], Action::ListEvents { key: None }).unwrap();
        assert!(events.sees(&key("blog-a")) && !events.sees(&posts));
    }

    #[test]
    fn a_list_shows_the_keys_that_the_token_may_read() {
        let given = policy("all read\nblogger read blog-*");
        for action in [Action::List, Action::ReadProblems] {
            let seen = given.asks(&["Bearer blogger"], action).unwrap();
            assert!(seen.sees(&key("blog-a")) && !seen.sees(&key("posts")));
            assert!(given.asks(&["Bearer all"], action).unwrap().sees(&key("posts")));
        }
    }

    #[test]
    fn a_changed_file_holds_from_the_next_request_on() {
        let given = policy("mara read");
        assert_eq!(given.status("mara", Action::List), 200);
        // The same length, within the same grain of the clock.
        std::fs::write(&given.file, "anna read").unwrap();
        assert_eq!(given.status("mara", Action::List), 401);
        assert_eq!(given.status("anna", Action::List), 200);
    }

    #[test]
    fn a_broken_or_missing_file_keeps_the_last_good_policy() {
        let given = policy("mara read");
        std::fs::write(&given.file, "mara").unwrap();
        assert_eq!(given.status("mara", Action::List), 200);
        std::fs::remove_file(&given.file).unwrap();
        assert_eq!(given.status("mara", Action::List), 200);
        std::fs::write(&given.file, "anna read").unwrap();
        assert_eq!(given.status("mara", Action::List), 401);
    }

    #[test]
    fn a_start_on_a_broken_or_missing_file_fails_with_a_sentence() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("policy.yaml");
        let missing = Policy::open(&file, read, Duration::ZERO).unwrap_err();
        assert_eq!(missing.to_string(), format!("cannot read the policy file {}", file.display()));
        std::fs::write(&file, "mara read\nmara").unwrap();
        let broken = Policy::open(&file, read, Duration::ZERO).unwrap_err();
        assert_eq!(
            broken.to_string(),
            format!("the policy file can't be used: {}:2:1: broken", file.display())
        );
    }
}
