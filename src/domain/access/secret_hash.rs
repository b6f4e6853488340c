//! Hashes of secrets.

use std::fmt;

use crate::domain::unhex;

/// The SHA-256 of a token's secret, written as `sha256:` and 64 hexadecimal digits.
///
/// ```
/// use collectory::SecretHash;
///
/// let hash = SecretHash::new([0xab; 32]);
/// assert_eq!(SecretHash::parse(&hash.to_string()), Some(hash));
/// assert!(hash.digits().starts_with("abab"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SecretHash([u8; 32]);

impl SecretHash {
    /// The prefix before the digits.
    pub const PREFIX: &str = "sha256:";

    /// Wraps a hash.
    #[must_use]
    pub const fn new(hash: [u8; 32]) -> Self {
        Self(hash)
    }

    /// Parses a hash in its written form.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        text.strip_prefix(Self::PREFIX).and_then(unhex).map(Self)
    }

    /// The hexadecimal digits without the prefix.
    #[must_use]
    pub fn digits(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Display for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", Self::PREFIX, self.digits())
    }
}
