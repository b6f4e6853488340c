//! Former heads that a rewritten branch has left behind, and the names under which they are kept.

use chrono::{DateTime, NaiveDateTime, SubsecRound as _, Utc};

use crate::domain::Revision;

/// The format of the time in a name, to the second.
const TIME: &str = "%Y%m%dT%H%M%SZ";

/// The number of digits of the revision in a name.
const SHORT_LEN: usize = 8;

/// A former head of the branch that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptHead {
    /// `20260301T093000Z-9fceb02d`: when it was kept and which revision, readable for people.
    pub name: String,
    /// When it was kept, to the second.
    pub at: DateTime<Utc>,
    /// The former head.
    pub revision: Revision,
}

impl KeptHead {
    /// The prefix of the ref; the name follows.
    pub const REFS: &str = "refs/collectory/kept/";

    /// Names a head that is kept from now on.
    #[must_use]
    pub fn new(revision: Revision, now: DateTime<Utc>) -> Self {
        let at = now.trunc_subsecs(0);
        let name = format!("{}-{:.SHORT_LEN$}", at.format(TIME), revision.to_string());
        Self { name, at, revision }
    }

    /// Parses the name of a kept head; `None` when the service did not make it.
    #[must_use]
    pub fn parse(name: &str, revision: Revision) -> Option<Self> {
        let (time, _) = name.split_once('-')?;
        let at = NaiveDateTime::parse_from_str(time, TIME).ok()?.and_utc();
        Some(Self { name: name.to_owned(), at, revision })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_when_and_what() {
        let revision = Revision::new([0x9f; 20]);
        let now = DateTime::from_timestamp_millis(1_772_357_400_123).unwrap();
        let kept = KeptHead::new(revision, now);
        assert_eq!(kept.name, "20260301T093000Z-9f9f9f9f");
        assert_eq!(KeptHead::parse(&kept.name, revision), Some(kept));
        for name in ["", "mine", "20260301-9f9f9f9f", "20260301T093000Z"] {
            assert_eq!(KeptHead::parse(name, revision), None, "{name}");
        }
    }
}
