//! Follows a policy file while people and programs write it.
//!
//! Requests check the file: the first one after [`policy_age_ms_max`] compares its metadata (one system call), and
//! all others use the current policy. No thread watches the file, so an idle service does nothing.
//!
//! A file that is still being written must not be taken for a complete one. A changed file is therefore read after
//! it has been left alone for [`policy_quiet_ms`], and a file that was renamed into place (its inode differs) at
//! the next check. It must be valid, and one that was written in place must end with a newline. Otherwise the fault
//! is reported, in the log and by `/readyz`, and the last good policy stays in use. A file that is cut off exactly at
//! the end of a line can only lose rights, which the format of the file ensures.
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

/// Maximum size of a policy file. A larger one can't be used.
const READ_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// How long after a change the metadata of a file is not trusted: a second write within the clock's granularity
/// may leave the metadata unchanged (git has the same problem with "racy" index entries).
const SETTLING: Duration = Duration::from_secs(2);

/// Why a policy can't be used.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The file can't be read.
    #[error("cannot read the policy file {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
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

#[derive(Debug)]
pub(crate) struct PolicyReading {
    /// The tokens, if the file can be used.
    pub(crate) tokens: Option<Vec<Token>>,
    /// What is wrong with the file, without its contents.
    pub(crate) trouble: Option<String>,
}

/// A policy file, and its state at the last check.
#[derive(Debug)]
pub(crate) struct PolicyFile {
    path: PathBuf,
    read: ReadPolicy,
    quiet: Duration,
    age_max: Duration,
    pub(crate) clock: Clock,
    stamp: Option<Stamp>,
    /// When this stamp was first seen.
    since: Instant,
    /// The stamp at the last reading, whether that succeeded or not.
    judged: Option<Stamp>,
    /// The hash of its bytes at the last reading, or why it could not be read.
    content: Result<[u8; 32], io::ErrorKind>,
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
        let tokens = match read(&bytes) {
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
            content: Ok(Sha256::digest(&bytes).into()),
        };
        let found = file.usable(tokens, &metadata);
        Ok((file, found))
    }

    /// Checks whether the file has changed, and reads it if it seems complete.
    pub(crate) fn reload_if_changed(&mut self) -> Option<PolicyReading> {
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

    /// Reports whether the writer of the file seems to have finished.
    fn is_quiet(&self) -> bool {
        let enough = if self.is_other_file(self.stamp) { self.age_max.min(self.quiet) } else { self.quiet };
        // The change may be older than this check, because an idle service does not check. Where the clocks
        // differ, the time since the change was first seen counts.
        let age = self.stamp.map(|stamp| age(&stamp, self.clock.now())).unwrap_or_default();
        age.max(self.since.elapsed()) >= enough
    }

    /// Reports whether this is not the file that was read last: another one was renamed into its place.
    fn is_other_file(&self, stamp: Option<Stamp>) -> bool {
        stamp.is_some_and(|stamp| self.judged.is_none_or(|judged| judged.inode != stamp.inode))
    }

    /// Reads the file. Returns `None` if its content has not changed, or if it changes during the reading.
    pub(crate) fn read_now(&mut self) -> Option<PolicyReading> {
        let read = contents(&self.path);
        let content = match &read {
            Ok((bytes, _)) => Ok(Sha256::digest(bytes).into()),
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => return None,
            Err(error) => Err(error.kind()),
        };
        let stamp = read.as_ref().ok().map(|(_, metadata)| Stamp::of(metadata));
        let is_renamed = self.is_other_file(stamp);
        let is_cut = read.as_ref().is_ok_and(|(bytes, _)| !bytes.ends_with(b"\n"));
        self.judged = stamp;
        // The same bytes may have been refused in place, where they seemed cut short.
        if content == self.content && !(is_renamed && is_cut) {
            return None;
        }
        self.content = content;
        let judged = read.map_err(|error| error.to_string()).and_then(|(bytes, metadata)| {
            if !is_renamed {
                whole(&bytes)?;
            }
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

    /// Accepts a file that can be used, and reports what is odd about it.
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

/// Checks that the last line is complete. A file that was cut off seldom ends at a line end.
fn whole(bytes: &[u8]) -> Result<(), String> {
    if bytes.ends_with(b"\n") {
        return Ok(());
    }
    let line = 1 + bytes.iter().filter(|&&byte| byte == b'\n').count();
    Err(format!("{line}:1: the last line has no line end, so the file may be cut short"))
}

/// Reads the file, and fails if it changes while it is read.
fn contents(path: &Path) -> io::Result<(Vec<u8>, Metadata)> {
    let (mut file, before) = open_named(path)?;
    let mut bytes = Vec::new();
    (&mut file).take(READ_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > READ_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 16 MiB"));
    }
    let after = file.metadata()?;
    if Stamp::of(&before) != Stamp::of(&after) {
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, "it changed while it was read"));
    }
    Ok((bytes, after))
}
