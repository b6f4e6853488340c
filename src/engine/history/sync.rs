//! What changed since somebody looked last, for those who poll.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use super::event::Position;
use super::{HistoryError, View};
use crate::domain::{Key, Revision};
use crate::store::BlobId;

/// How far somebody has read: opaque to them. Before the first commit it is git's own name for
/// nothing, since an empty text is easily taken for no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SyncToken(Option<Revision>);

/// The id that git writes where there is no commit.
const NOTHING: Revision = Revision::new([0; 20]);

impl fmt::Display for SyncToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.unwrap_or(NOTHING), f)
    }
}

impl FromStr for SyncToken {
    type Err = HistoryError;

    fn from_str(text: &str) -> Result<Self, HistoryError> {
        let revision: Revision = text.parse().map_err(|_| HistoryError::BadToken)?;
        Ok(Self((revision != NOTHING).then_some(revision)))
    }
}

/// What changed since a token was given.
#[derive(Debug, Clone, PartialEq)]
pub struct Changes {
    /// The token for the next time.
    pub token: SyncToken,
    /// What changed, by key.
    pub changes: Vec<ChangeSummary>,
}

/// A collection that changed.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangeSummary {
    /// The collection.
    pub key: Key,
    /// The id of the bytes that it is served from now; none when it is gone.
    pub version: Option<BlobId>,
}

impl ChangeSummary {
    /// Whether the collection is gone.
    #[must_use]
    pub const fn is_deleted(&self) -> bool {
        self.version.is_none()
    }
}

impl View {
    /// The token of what is committed now.
    #[must_use]
    pub fn sync_token(&self) -> SyncToken {
        SyncToken(self.head())
    }

    /// One summary for each collection that any commit touched since, even if it is again as it
    /// was. A file that never could be read is told as gone: there is nothing to fetch.
    ///
    /// # Errors
    ///
    /// [`HistoryError::Gone`] when the branch does not descend from the token's revision.
    pub fn changes_since(&self, token: SyncToken) -> Result<Changes, HistoryError> {
        let from = match token.0 {
            None => 0,
            Some(revision) => self.seen_until(Position::from(revision))?.ok_or(HistoryError::Gone)?,
        };
        let touched: BTreeMap<&Key, u32> =
            self.index.events_from(from).map(|row| (self.index.key(row.key), row.key)).collect();
        let mut changes = Vec::with_capacity(touched.len());
        for (key, number) in touched {
            let standing = self.standing_at(number, u32::MAX)?;
            changes.push(ChangeSummary { key: key.clone(), version: standing.map(|it| it.good.blob) });
        }
        Ok(Changes { token: self.sync_token(), changes })
    }
}
