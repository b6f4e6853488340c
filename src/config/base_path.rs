//! The path below which the API is served.

use std::fmt;
use std::str::FromStr;

/// The path below which the API is served: empty, or `/` and segments without a `/` at the end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BasePath(String);

impl BasePath {
    /// The maximum length of a base path in bytes.
    pub const BYTES_MAX: usize = 256;

    /// Returns the empty base path: the API is at `/collections`.
    #[must_use]
    pub const fn root() -> Self {
        Self(String::new())
    }

    /// Returns the path without a `/` at the end, ready to be put before `/collections`; empty for the root.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for BasePath {
    type Err = String;

    /// Accepts `/`, and `/api` and `/api/` alike. Segments consist of unreserved characters (RFC 3986 section 2.3), so
    /// that no client, proxy or link needs to escape anything.
    fn from_str(text: &str) -> Result<Self, String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '~');
        let Some(rest) = text.strip_prefix('/') else {
            return Err(format!("{text:?} must begin with \"/\""));
        };
        if text.len() > Self::BYTES_MAX {
            return Err(format!("a base path has at most {} bytes", Self::BYTES_MAX));
        }
        if rest.is_empty() {
            return Ok(Self::root());
        }
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        match rest.split('/').find(|part| matches!(*part, "" | "." | "..") || !part.chars().all(plain)) {
            Some(part) => {
                Err(format!("{text:?} has the part {part:?}; write letters, digits, `-`, `.`, `_`, `~`"))
            }
            None => Ok(Self(format!("/{rest}"))),
        }
    }
}

/// Writes the path with a `/` at the end, as in the URL of the service.
impl fmt::Display for BasePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_path_has_one_form() {
        for (text, kept) in [("/", ""), ("/api", "/api"), ("/api/", "/api"), ("/a-b/v1.2", "/a-b/v1.2")] {
            assert_eq!(text.parse::<BasePath>().unwrap().as_str(), kept, "{text}");
        }
        for text in ["", "api", "//", "/a//b", "/..", "/a/./b", "/a b", "/a%20b", "/a?b", "/ä"] {
            assert!(text.parse::<BasePath>().is_err(), "{text:?}");
        }
    }
}
