//! Recognises a git command that has changed the work tree and is about to move `HEAD` or the branch.
//!
//! `git checkout`, `merge`, `rebase` and `reset` write files and index, release `index.lock`, and only then move
//! `HEAD` or the branch. For that moment the work tree looks as if a person had staged what belongs to another commit,
//! and as a hand edit it would be committed to the served branch. So files that equal the index but not the head are
//! looked at again until the index has been left alone for a while: what a person has staged is still there then, and
//! what git has checked out is explained by `HEAD` or the branch.

use std::fs;
use std::time::{Duration, SystemTime};

use crate::store::git::index::file;
use crate::store::git::repo::layout::Layout;
use crate::store::{Edit, StoreError, WorkTree};

/// How long git may take from the index to `HEAD` or the branch; both are flushed in between.
pub(crate) const CHECKOUT_TIME_MAX: Duration = Duration::from_millis(100);

/// The interval between two looks.
pub(crate) const RETRY_WAIT: Duration = Duration::from_millis(5);

/// Returns whether `seen` may be half of a checkout, judging by an index younger than `checkout_time_max`.
pub(crate) fn may_be_checkout(
    layout: &Layout,
    seen: &WorkTree,
    checkout_time_max: Duration,
) -> Result<bool, StoreError> {
    let WorkTree::Available { edits, .. } = seen else { return Ok(false) };
    let path = layout.git_dir.join("index");
    if edits.is_empty() || !is_younger(&path, checkout_time_max) {
        return Ok(false);
    }
    let Some(index) = file::read(&path)? else { return Ok(false) };
    let is_staged = |edit: &Edit| {
        let saved = edit.current.blob();
        saved.is_some() && index.get(&layout.path_in_repository(&edit.name)).blob() == saved
    };
    Ok(edits.iter().any(is_staged))
}

#[expect(clippy::disallowed_methods, reason = "compared with a time that the file system's clock gave")]
fn is_younger(path: &std::path::Path, than: Duration) -> bool {
    let written = fs::metadata(path).and_then(|metadata| metadata.modified());
    // A time in the future is from another clock and proves nothing.
    written.is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age < than))
}
