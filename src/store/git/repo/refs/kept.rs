//! Former heads of the branch, kept as refs so that `git gc` preserves what they reach.
//!
//! They are released after the time for which git keeps reflogs, because people are used to having that long to
//! undo a mistaken move of a branch.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use crate::domain::Revision;
use crate::store::git::disk::barrier::Barrier;
use crate::store::git::disk::lock::LockDraft;
use crate::store::git::disk::stamp::now;
use crate::store::git::repo::layout::Layout;
use crate::store::git::repo::refs;
use crate::store::{AtPath as _, KeptHead, StoreError, git_command};

/// Keeps a commit, unless it is kept already. Everything that it reaches is flushed first, because git flushes
/// little of what people commit.
pub(crate) fn keep(layout: &Layout, kept: KeptHead, barrier: &Barrier) -> Result<KeptHead, StoreError> {
    if let Some(known) = all(layout)?.into_iter().find(|known| known.revision == kept.revision) {
        return Ok(known);
    }
    barrier.file_system(&layout.common_dir)?;
    create(layout, &name_of(&kept), kept.revision, barrier)?;
    Ok(kept)
}

/// Returns what is kept now; see [`Journal::kept`](crate::store::Journal::kept).
pub(crate) fn current(layout: &Layout, now: DateTime<Utc>) -> Result<Vec<KeptHead>, StoreError> {
    if let Err(error) = expire(layout, now) {
        tracing::warn!(%error, cause = error.cause(), "what was kept for long enough could not be let go; it is tried again");
    }
    all(layout)
}

pub(crate) fn remove(layout: &Layout, kept: &[KeptHead]) -> Result<(), StoreError> {
    for name in kept.iter().map(name_of) {
        if refs::read(&layout.common_dir, &name)?.is_some() {
            // Git deletes the ref, because git may have packed it.
            git_command::delete_ref(&layout.common_dir, &name).at("remove", &layout.common_dir.join(name))?;
        }
    }
    Ok(())
}

fn name_of(kept: &KeptHead) -> String {
    format!("{}{}", KeptHead::REFS, kept.name)
}

/// Returns what is kept, oldest first. Refs with other names, or that can't be read, are not ours and are left out.
fn all(layout: &Layout) -> Result<Vec<KeptHead>, StoreError> {
    let read = |name: String| {
        let revision = refs::read(&layout.common_dir, &name).ok()??;
        KeptHead::parse(name.strip_prefix(KeptHead::REFS)?, Revision::new(revision))
    };
    Ok(refs::names(&layout.common_dir, KeptHead::REFS)?.into_iter().filter_map(read).collect())
}

fn expire(layout: &Layout, now: DateTime<Utc>) -> Result<(), StoreError> {
    let mut kept = all(layout)?;
    if kept.is_empty() {
        return Ok(());
    }
    let Some(age) = reflog_age(layout)? else { return Ok(()) };
    kept.retain(|kept| now - kept.at >= age);
    if !kept.is_empty() {
        let refs = kept.iter().map(name_of).collect::<Vec<_>>().join(" ");
        tracing::info!(refs, "what was kept of a rewritten branch is let go (gc.reflogExpire)");
    }
    remove(layout, &kept)
}

/// Creates a ref that nobody else creates, durably; its target must be on disk already.
fn create(layout: &Layout, name: &str, target: Revision, barrier: &Barrier) -> Result<(), StoreError> {
    let path = layout.common_dir.join(name);
    let folder = path.parent().expect("a ref is below refs");
    barrier.make_folder(&layout.common_dir, folder)?;
    let content = format!("{target}\n");
    let draft = LockDraft::write(&layout.state(), &path, content.as_bytes())?;
    barrier.files(&[draft.content()])?;
    draft.take(Duration::ZERO)?.commit()?;
    barrier.folder(folder)
}

/// Returns for how long git keeps reflogs here, and we keep what a rewritten branch had; `None` for ever.
pub(crate) fn reflog_age(layout: &Layout) -> Result<Option<TimeDelta>, StoreError> {
    git_command::reflog_age(&layout.common_dir, now()).at("read the configuration of", &layout.common_dir)
}
