//! Following a policy file while people and programs write it.
//!
//! Requests look after the file: the first one after [`policy_age_ms_max`] compares its metadata (one
//! system call), all others use what is known. There is no thread to watch, and an idle service does
//! nothing.
//!
//! A file that somebody is still writing must not be taken for a finished one, so a changed file is
//! read when it has been left alone for [`policy_quiet_ms`], and one that was renamed into place (it is
//! another file than before) at the next look. It must be whole, which is to say end with a line end,
//! and valid; else it is told, in the log and by `/readyz`, and the last good one stays. What is cut
//! short at the end of a line all the same can only take rights away, which the form of the file sees
//! to.
//!
//! [`policy_age_ms_max`]: crate::config::PolicyLimits::policy_age_ms_max
//! [`policy_quiet_ms`]: crate::config::PolicyLimits::policy_quiet_ms

use std::fs::Metadata;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use sha2::{Digest as _, Sha256};

use crate::config::{PolicyLimits, Stamp, open_named};
use crate::domain::Token;
use crate::http::context::Clock;
use crate::http::policy::ReadPolicy;

/// The most bytes that are read of a policy file; a larger one is broken.
const READ_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// For how long after a change the metadata of a file is not trusted: a second write within the
/// clock's grain may leave them as they were (git's "racy" index entries are the same trouble).
const SETTLING: Duration = Duration::from_secs(2);

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

/// What came of reading the file.
#[derive(Debug)]
pub(crate) struct PolicyReading {
    /// The tokens of a file that can be used.
    pub(crate) tokens: Option<Vec<Token>>,
    /// What is wrong with it, told without its contents.
    pub(crate) trouble: Option<String>,
}

/// A policy file, and what it was when somebody last looked.
#[derive(Debug)]
pub(crate) struct PolicyFile {
    path: PathBuf,
    read: ReadPolicy,
    quiet: Duration,
    age_max: Duration,
    pub(crate) clock: Clock,
    stamp: Option<Stamp>,
    /// Since when it has had this stamp.
    since: Instant,
    /// What it was when it was read, whatever came of it.
    judged: Option<Stamp>,
    content: PolicyContent,
}

/// What the file held when it was read.
#[derive(Debug, PartialEq, Eq)]
enum PolicyContent {
    /// These bytes, by their hash.
    Bytes([u8; 32]),
    /// Nothing that could be read.
    Unreadable(io::ErrorKind),
}

/// How long ago a file was changed.
fn age(stamp: &Stamp, now: DateTime<Utc>) -> Duration {
    let (seconds, nanos) = stamp.changed;
    let changed = DateTime::from_timestamp(seconds, u32::try_from(nanos).unwrap_or(0));
    changed.and_then(|changed| (now - changed).to_std().ok()).unwrap_or_default()
}

impl PolicyFile {
    pub(crate) fn open(
        path: PathBuf,
        read: ReadPolicy,
        limits: &PolicyLimits,
        clock: Clock,
    ) -> Result<(Self, PolicyReading), PolicyError> {
        let (bytes, metadata) = match contents(&path) {
            Ok(contents) => contents,
            Err(source) => return Err(PolicyError::Read { path, source }),
        };
        let tokens = match whole(&bytes).and_then(|()| read(&bytes)) {
            Ok(tokens) => tokens,
            Err(fault) => return Err(PolicyError::Broken { path, fault }),
        };
        if tokens.is_empty() {
            tracing::warn!(path = %path.display(), "the policy file has no tokens: everything is denied");
        }
        let stamp = Stamp::of(&metadata);
        let file = Self {
            path,
            read,
            quiet: Duration::from_millis(limits.policy_quiet_ms),
            age_max: limits.policy_age_max(),
            clock,
            stamp: Some(stamp),
            since: Instant::now(),
            judged: Some(stamp),
            content: PolicyContent::Bytes(Sha256::digest(&bytes).into()),
        };
        let found = file.usable(tokens, &metadata);
        Ok((file, found))
    }

    /// Looks whether the file has changed, and reads it if it is finished.
    pub(crate) fn look(&mut self) -> Option<PolicyReading> {
        let stamp = std::fs::metadata(&self.path).ok().map(|metadata| Stamp::of(&metadata));
        if stamp != self.stamp {
            self.stamp = stamp;
            self.since = Instant::now();
        }
        if stamp.is_some() && stamp == self.judged && self.since.elapsed() > SETTLING {
            return None;
        }
        if self.is_quiet() { self.read_now() } else { None }
    }

    /// Whether whoever writes the file has finished, as far as one can tell.
    fn is_quiet(&self) -> bool {
        let inode = |stamp: Option<Stamp>| stamp.map(|stamp| stamp.inode);
        let is_renamed = self.stamp.is_some() && inode(self.stamp) != inode(self.judged);
        let enough = if is_renamed { self.age_max.min(self.quiet) } else { self.quiet };
        // The service may have been idle since; where the clocks differ, what was seen counts.
        let age = self.stamp.map(|stamp| age(&stamp, self.clock.now())).unwrap_or_default();
        age.max(self.since.elapsed()) >= enough
    }

    /// Reads the file as it is; `None` when it says what it said before, or changes meanwhile.
    pub(crate) fn read_now(&mut self) -> Option<PolicyReading> {
        let read = contents(&self.path);
        let content = match &read {
            Ok((bytes, _)) => PolicyContent::Bytes(Sha256::digest(bytes).into()),
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => return None,
            Err(error) => PolicyContent::Unreadable(error.kind()),
        };
        self.judged = read.as_ref().ok().map(|(_, metadata)| Stamp::of(metadata));
        if content == self.content {
            return None;
        }
        self.content = content;
        let judged = read.map_err(|error| error.to_string()).and_then(|(bytes, metadata)| {
            whole(&bytes)?;
            Ok(((self.read)(&bytes)?, metadata))
        });
        Some(match judged {
            Ok((tokens, metadata)) => {
                tracing::info!(path = %self.path.display(), tokens = tokens.len(), "took over the changed policy file");
                self.usable(tokens, &metadata)
            }
            Err(fault) => {
                tracing::warn!(path = %self.path.display(), fault, "kept the last good policy, the file can't be used");
                let trouble = "The policy file can't be used, so the last good one holds; the log says why.";
                PolicyReading { tokens: None, trouble: Some(trouble.to_owned()) }
            }
        })
    }

    /// Says what is odd about a file that can be used.
    fn usable(&self, tokens: Vec<Token>, metadata: &Metadata) -> PolicyReading {
        let path = self.path.display();
        if metadata.permissions().mode() & 0o022 != 0 {
            tracing::warn!(%path, "others than its owner may write the policy file: chmod go-w");
        }
        let vain: Vec<_> =
            tokens.iter().filter(|token| token.grants.iter().any(|grant| grant.keys.is_empty())).collect();
        for token in &vain {
            let name = token.actor.name();
            tracing::warn!(%path, name, "`may` without `keys` grants nothing; write `keys: [\"*\"]` for every key");
        }
        let trouble = (!vain.is_empty()).then(|| {
            let count = vain.len();
            format!("{count} of the policy's tokens have `may` without `keys`, which grants nothing.")
        });
        PolicyReading { tokens: Some(tokens), trouble }
    }
}

/// A file that was cut short seldom ends where a line does.
fn whole(bytes: &[u8]) -> Result<(), String> {
    if bytes.ends_with(b"\n") {
        return Ok(());
    }
    let line = 1 + bytes.iter().filter(|&&byte| byte == b'\n').count();
    Err(format!("{line}:1: the last line has no line end, so the file may be cut short"))
}

/// The bytes of a file that nobody changed while it was read.
fn contents(path: &Path) -> io::Result<(Vec<u8>, Metadata)> {
    let (mut file, before) = open_named(path)?;
    let mut bytes = Vec::new();
    (&mut file).take(READ_BYTES_MAX).read_to_end(&mut bytes)?;
    let after = file.metadata()?;
    if Stamp::of(&before) != Stamp::of(&after) {
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, "it changed while it was read"));
    }
    Ok((bytes, after))
}
