//! Resolves a user's text to a revision, as `git rev-parse` does, in a subset of its syntax (gitrevisions(7)).
//!
//! | written | means |
//! |---|---|
//! | `9fceb02d…` | the commit with this id, in full or abbreviated to at least 7 digits |
//! | `v1.0`, `main` | a tag, a branch |
//! | `HEAD` | the head of the served branch, whatever is checked out |
//! | `REV~3`, `REV^` | three first parents back, one back; after any of the above, and repeatedly |
//! | `2026-03-01T09:30:00Z` | the commit nearest the head whose committer time is not later |
//! | `2026-03-01` | the same for the end of that day, in UTC |

use crate::domain::Revision;
use crate::engine::history::query::time;
use crate::engine::history::query::time::TimeBound;
use crate::engine::history::{HistoryError, View};
use crate::store::ResolveError;

impl View {
    /// Returns the revision that a user's text names.
    ///
    /// # Errors
    ///
    /// [`HistoryError::BadRevision`] for a text that can't name one, [`HistoryError::UnknownRevision`] where nothing
    /// has the name, [`HistoryError::BeforeFirst`] for a time before the first commit, [`HistoryError::CutOff`] where
    /// that may be because the clone is shallow, and [`HistoryError::NotOnBranch`] for a commit that the served
    /// branch does not reach.
    pub fn resolve(&self, text: &str) -> Result<Revision, HistoryError> {
        let missing = |of_all: fn(String) -> HistoryError| match self.shared.archive.shallow_boundary() {
            Ok(cut) if cut.is_empty() => of_all(text.to_owned()),
            Ok(_) => HistoryError::CutOff(text.to_owned()),
            Err(error) => error.into(),
        };
        let unknown = || missing(HistoryError::UnknownRevision);
        if let Some(time) = time::parse(text, TimeBound::Until) {
            return self.at_time(time).ok_or_else(|| missing(HistoryError::BeforeFirst));
        }
        let (name, steps) = split(text).ok_or_else(|| HistoryError::BadRevision {
            text: text.to_owned(),
            why: "behind a name may stand `~` with a number, or `^`".to_owned(),
        })?;
        let named = match name {
            "HEAD" => self.head().ok_or_else(unknown)?,
            _ => self.shared.archive.resolve(name).map_err(|error| match error {
                ResolveError::Unknown => unknown(),
                ResolveError::Bad(why) => HistoryError::BadRevision { text: text.to_owned(), why },
                ResolveError::Store(error) => error.into(),
            })?,
        };
        // The named commit itself does not matter: the branch may reach an ancestor of it.
        let meant = self.first_parent(named, steps)?.ok_or_else(unknown)?;
        if self.reaches(meant)? { Ok(meant) } else { Err(HistoryError::NotOnBranch(text.to_owned())) }
    }

    /// Returns the commit after which a follower begins that wants everything since `text`; `None` is before the
    /// first commit. A time means everything from its first instant on, a revision everything after it.
    ///
    /// # Errors
    ///
    /// As [`resolve`](Self::resolve).
    pub fn start_of(&self, text: &str) -> Result<Option<Revision>, HistoryError> {
        match time::parse(text, TimeBound::Since) {
            Some(time) => {
                let earlier = self.index.commits().take_while(|commit| commit.time() < time);
                Ok(earlier.last().map(|commit| commit.revision))
            }
            None => self.resolve(text).map(Some),
        }
    }

    /// Returns the commit `steps` first parents back; the index knows it for the commits of the branch.
    fn first_parent(&self, revision: Revision, steps: u32) -> Result<Option<Revision>, HistoryError> {
        let mut at = revision;
        for left in (0..=steps).rev() {
            if let Some(commit) = self.index.find(at) {
                let back = self.index.forks().back(commit, left);
                return Ok(back.map(|commit| self.index.commit(commit).revision));
            }
            self.check_client()?;
            let Some(commit) = self.shared.archive.commit(at)? else { return Ok(None) };
            if left > 0 {
                let Some(parent) = commit.parents.first() else { return Ok(None) };
                at = *parent;
            }
        }
        Ok(Some(at))
    }
}

/// Splits `~n` and `^` off the end of a name. Returns how many first parents they go back, which may be more than
/// there are commits; `None` for any other suffix.
fn split(text: &str) -> Option<(&str, u32)> {
    let (name, mut rest) = text.split_at(text.find(['~', '^']).unwrap_or(text.len()));
    let mut steps = 0_u32;
    while !rest.is_empty() {
        let (mark, behind) = rest.split_at(1);
        let digits = behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len());
        let step = match (mark, &behind[..digits]) {
            ("~" | "^", "") => 1,
            ("~", number) => number.parse().unwrap_or(u32::MAX),
            _ => return None,
        };
        steps = steps.saturating_add(step);
        rest = &behind[digits..];
        if !rest.is_empty() && !rest.starts_with(['~', '^']) {
            return None;
        }
    }
    Some((name, steps))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_are_counted_from_the_marks_behind_a_name() {
        assert_eq!(split("main"), Some(("main", 0)));
        assert_eq!(split("HEAD~2"), Some(("HEAD", 2)));
        assert_eq!(split("v1.0^"), Some(("v1.0", 1)));
        assert_eq!(split("v1.0^^~3~"), Some(("v1.0", 6)));
        assert_eq!(split("x~99999999999"), Some(("x", u32::MAX)));
        for text in ["main^2", "main~a", "main^{tree}", "main~1@{1}", "main~é"] {
            assert_eq!(split(text), None, "{text}");
        }
    }
}
