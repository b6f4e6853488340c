//! Patterns of keys.

use std::fmt;

use crate::domain::Key;

/// A pattern of keys: the characters of a key, and `*` for any run of them, even an empty one.
///
/// ```
/// use collectory::{Key, KeyPattern};
///
/// let pattern = KeyPattern::parse("blog-*").unwrap();
/// assert!(pattern.matches(&Key::parse("blog-posts").unwrap()));
/// assert!(!pattern.matches(&Key::parse("my-blog-posts").unwrap()));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPattern(String);

impl KeyPattern {
    /// Parses a pattern.
    ///
    /// # Errors
    ///
    /// Returns a message with the syntax. A character that no key has is an error, because the pattern
    /// could match no key.
    pub fn parse(text: &str) -> Result<Self, String> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '*');
        if text.is_empty() || text.len() > Key::BYTES_MAX || !text.chars().all(fits) {
            return Err(format!(
                "{text:?} is no pattern of keys; write up to {} of `A-Z a-z 0-9 . _ -`, and `*` for any run of them",
                Key::BYTES_MAX
            ));
        }
        Ok(Self(text.to_owned()))
    }

    /// The pattern that matches every key.
    #[must_use]
    pub fn every() -> Self {
        Self("*".to_owned())
    }

    /// The pattern as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the pattern matches every possible key.
    #[must_use]
    pub fn is_every(&self) -> bool {
        self.0.bytes().all(|byte| byte == b'*')
    }

    /// Whether the pattern matches this key, which is case-sensitive.
    #[must_use]
    pub fn matches(&self, key: &Key) -> bool {
        matches(self.0.as_bytes(), key.as_str().as_bytes())
    }
}

/// Backtracks to the last `*` only, so the cost is bounded by the product of the lengths.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p, t));
            p += 1;
        } else if pattern.get(p) == Some(&text[t]) {
            p += 1;
            t += 1;
        } else if let Some((star_at, taken)) = star {
            p = star_at + 1;
            t = taken + 1;
            star = Some((star_at, t));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

impl fmt::Display for KeyPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_run() {
        for (pattern, keys, others) in [
            ("*", &["posts", "a"][..], &[][..]),
            ("blog-*", &["blog-a", "blog-"], &["blog", "a-blog-a", "Blog-a"]),
            ("*-blog", &["a-blog", "a-blog-blog"], &["blog", "a-blog-a"]),
            ("a*b*c", &["abc", "axxbxbc", "abcbc"], &["ab", "acb", "xabc"]),
            ("posts", &["posts"], &["post", "postss"]),
            ("**", &["a"], &[]),
        ] {
            let parsed = KeyPattern::parse(pattern).unwrap();
            for (texts, expected) in [(keys, true), (others, false)] {
                for text in texts {
                    assert_eq!(parsed.matches(&Key::parse(text).unwrap()), expected, "{pattern} and {text}");
                }
            }
        }
    }

    #[test]
    fn a_pattern_that_could_match_no_key_is_refused() {
        for text in ["", "blog/?", "blog/*", "a b", "ä*", "[ab]"] {
            assert!(KeyPattern::parse(text).is_err(), "{text:?}");
        }
    }
}
