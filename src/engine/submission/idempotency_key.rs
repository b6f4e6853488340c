//! The idempotency key of a request (`Idempotency-Key`), under which it is carried out once however often it is sent.

use sha2::{Digest as _, Sha256};

use crate::domain::{Actor, unhex};

/// The idempotency key that a caller gave to a request, and the request's fingerprint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// The idempotency key: visible ASCII characters.
    pub key: String,
    /// The fingerprint, equal for equal requests.
    pub fingerprint: Fingerprint,
}

/// A digest of everything that identifies a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Digests the parts, each with its length, so that the boundaries between them count.
    #[must_use]
    pub fn of(parts: &[&[u8]]) -> Self {
        let mut digest = Sha256::new();
        for part in parts {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        }
        Self(digest.finalize().into())
    }

    /// Parses the output of [`Display`](std::fmt::Display).
    pub(crate) fn parse(text: &str) -> Option<Self> {
        text.strip_prefix("sha256:").and_then(unhex).map(Self)
    }
}

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// An idempotency key together with its author, so that authors can't see each other's keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Scope([u8; 32]);

impl Scope {
    pub(crate) fn of(author: &Actor, once: &IdempotencyKey) -> Self {
        let parts = [author.name().as_bytes(), author.email().as_bytes(), once.key.as_bytes()];
        Self(Fingerprint::of(&parts).0)
    }
}
