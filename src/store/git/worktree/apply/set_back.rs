//! Repairs files that a `git checkout` of the served branch has set back.
//!
//! `git checkout main` reads `main`, and only then takes `index.lock` and reads `HEAD`'s commit (`cmd_checkout` and
//! `switch_branches` in git's `builtin/checkout.c`). If we write in between, it sets files and index back by one
//! write, and leaves both branch and `HEAD` as they are. A person who does that on purpose (`git restore
//! --source=HEAD~1`) leaves the same state, but only the checkout of a branch is in the reflog of `HEAD`. So a file
//! that has what we replaced in the last [moment](super::recent::STALE_AGE_MAX), with an index entry that agrees,
//! after a checkout from the branch to itself, is not a person's edit, and is brought forward again. Without a reflog
//! (`core.logAllRefUpdates`) it is taken for an edit, because the two can't be distinguished.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::time::Duration;

use crate::domain::Revision;
use crate::store::git::disk::open::open;
use crate::store::git::read::reader::Reader;
use crate::store::git::worktree::apply::checkout::Checkout;
use crate::store::git::worktree::apply::update::is_outdated;
use crate::store::git::worktree::scan::checkout_in_progress::may_be_checkout;
use crate::store::{AtPath as _, BlobId, Edit, StoreError, WorkTree};

/// How many bytes at the end of a reflog are searched: some thousand moves, more than happen in a moment.
const REFLOG_BYTES_MAX: u64 = 1 << 20;

/// How many times longer to wait for the reflog if files were set back: a mistake would be committed as a person's.
const REFLOG_TURNS: u32 = 5;

/// A file, and the content that it was set back to.
type SetBack = (String, Option<BlobId>);

impl Checkout {
    /// Brings forward the files among `seen` that a racing checkout has set back. Returns whether there were any, in
    /// which case `seen` is outdated.
    pub(crate) fn undo_set_back(&mut self, reader: &mut Reader, seen: &WorkTree) -> Result<bool, StoreError> {
        let set_back = self.set_back(reader, seen)?;
        if set_back.is_empty() {
            return Ok(false);
        }
        let lock = match self.lock_index(Duration::ZERO) {
            Ok(Some(lock)) => lock,
            // The next look finds out what git is doing.
            Ok(None) | Err(StoreError::Locked { .. }) => return Ok(true),
            Err(error) => return Err(error),
        };
        tracing::info!("a `git checkout` that raced with a write took files one write back; they are mended");
        set_back.into_iter().for_each(|(name, was)| self.lagging.add(&name, was));
        self.retry_lagging(reader, &lock)?;
        self.repair_index_under(lock)?;
        Ok(true)
    }

    /// Returns whether `seen` may be half of a checkout.
    pub(crate) fn may_be_checkout(&self, seen: &WorkTree) -> Result<bool, StoreError> {
        let turns = if self.recent.has_replaced_any(seen) { REFLOG_TURNS } else { 1 };
        may_be_checkout(&self.layout, seen, self.scan.checkout_time_max * turns)
    }

    fn set_back(&mut self, reader: &mut Reader, seen: &WorkTree) -> Result<Vec<SetBack>, StoreError> {
        let WorkTree::Available { edits, operation_in_progress: None, .. } = seen else {
            return Ok(Vec::new());
        };
        if edits.is_empty() || self.recent.is_empty() {
            return Ok(Vec::new());
        }
        self.forget_what_is_not_on_the_branch(reader, self.branch.tip()?)?;
        let Some(index) = self.index.read()? else { return Ok(Vec::new()) };
        let recent = self.recent.get();
        let is_set_back = |name: &str, was: Option<BlobId>| {
            let staged = index.get(&self.layout.path_in_repository(name));
            staged.blob() == Some(was) && recent.get(name).is_some_and(|change| is_outdated(&staged, change))
        };
        let each = edits.iter().filter_map(|Edit { name, current: now }| Some((name.clone(), now.blob()?)));
        let mut set_back: Vec<SetBack> = each.filter(|(name, was)| is_set_back(name, *was)).collect();
        if !set_back.is_empty() {
            let reflog = self.end_of_reflog()?;
            set_back.retain(|(name, was)| {
                self.recent
                    .replaced_by(name, *was)
                    .is_some_and(|ours| self.is_checked_out_after(&reflog, ours))
            });
        }
        Ok(set_back)
    }

    /// Returns whether the served branch was checked out from itself after a write of ours.
    fn is_checked_out_after(&self, reflog: &str, ours: Revision) -> bool {
        let branch = self.branch.short_name();
        let ours = reflog.find(&format!(" {ours} "));
        let checkout = reflog.rfind(&format!("\tcheckout: moving from {branch} to {branch}\n"));
        ours.is_some() && ours < checkout
    }

    /// Returns the last moves of `HEAD`, oldest first; nothing if no reflog is kept.
    fn end_of_reflog(&self) -> Result<String, StoreError> {
        let path = self.layout.git_dir.join("logs/HEAD");
        let read = || {
            let mut file = open(&path)?;
            let len = file.metadata()?.len();
            file.seek(SeekFrom::Start(len.saturating_sub(REFLOG_BYTES_MAX)))?;
            let mut end = Vec::new();
            file.read_to_end(&mut end).map(|_| String::from_utf8_lossy(&end).into_owned())
        };
        Ok(read().at_if_there("read", &path)?.unwrap_or_default())
    }
}
