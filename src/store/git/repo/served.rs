//! Records which revision of which branch was served last, in `collectory/served`: `refs/heads/main 9fceb02d…` and
//! a line end.
//!
//! From this note the next start detects that the branch was rewritten while no service ran. It also names the
//! branch to serve where `HEAD` names none, as in the middle of a rebase. The note is written after the branch has
//! moved, for each of our moves and whenever another's is noticed, and it is not flushed. So it is never newer than
//! the branch, except after a power cut that undid what git had not flushed; then the noted commit is missing.

use std::path::PathBuf;

use crate::domain::Revision;
use crate::store::StoreError;
use crate::store::git::disk::barrier::read_own_if_there;
use crate::store::git::disk::state_file::overwrite;
use crate::store::git::object::id::unhex;
use crate::store::git::repo::layout::Layout;

/// Returns the full name of the branch that was served last, and its revision; `None` if there is no note or it is
/// malformed.
pub(crate) fn read(layout: &Layout) -> Result<Option<(String, Revision)>, StoreError> {
    let text = read_own_if_there(&path(layout))?.unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let noted = text.split_once(' ').and_then(|(name, id)| Some((name, unhex(id.trim_end().as_bytes())?)));
    Ok(noted.map(|(name, id)| (name.to_owned(), Revision::new(id))))
}

/// Records a revision; see [`Journal::note_served`](crate::store::Journal::note_served).
pub(crate) fn note(layout: &Layout, branch: &str, revision: Revision) {
    let text = format!("{branch} {revision}\n");
    if let Err(error) = overwrite(&path(layout), text.as_bytes()) {
        tracing::warn!(%error, cause = error.cause(), "which revision was served last could not be noted");
    }
}

pub(crate) fn path(layout: &Layout) -> PathBuf {
    layout.state().join("served")
}
