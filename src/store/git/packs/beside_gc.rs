//! Writing beside `git gc`, which must not take a fresh index for garbage.
//!
//! At its end `git gc` lists the folder of the packs and removes each index beside which it has seen no pack
//! (`clean_pack_garbage` in `builtin/gc.c`, `report_pack_garbage` in `packfile.c`). Of two names that are given in the
//! middle of a listing it may show the second and not the first (readdir(3p)), and a mark of ours is removed along.
//!
//! ```text
//! git gc          ├─ lists ──── P? ──────────────────── I? ──┤ removes I unless it has seen P
//! else                                 P I                     the pack is named, and its index at once
//! beside git gc   P  …                   I                     the pack was named long before
//! ```
//!
//! So while git says in `gc.pid` that it collects, a pack gets a name that was reserved for it: a marked and empty
//! `.pack`, which stands there since [`RESERVED_LEN`] packs were named and without an index is no pack to git. At
//! other times there is none, for other readers (go-git) stumble over it. Should an index get lost all the same, it
//! is made anew; see `lost_index`.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::sync::PoisonError;
use std::time::Duration;

use crate::store::git::disk::barrier::{Unflushed, remove_if_there};
use crate::store::git::disk::open::create_own;
use crate::store::git::packs::store::{Packs, new_name};
use crate::store::{AtPath as _, StoreError};

/// How many names are reserved: some hundred packs are named in a second, and git lists the folder in a
/// few hundredths of it.
const RESERVED_LEN: usize = 256;

/// How long a `gc.pid` is believed, as by git itself (`lock_repo_for_gc` in `builtin/gc.c`).
const COLLECTING_TIME_MAX: Duration = Duration::from_secs(12 * 3_600);

/// Names whose packs are there and empty, oldest first.
pub(super) type Reserved = VecDeque<String>;

impl Packs {
    /// Whether git says that somebody collects garbage.
    pub(crate) fn is_git_collecting(&self) -> bool {
        let pid = self.objects().with_file_name("gc.pid");
        let since = fs::metadata(pid).and_then(|metadata| metadata.modified());
        since.is_ok_and(|since| since.elapsed().is_ok_and(|age| age < COLLECTING_TIME_MAX))
    }

    /// Takes a reserved name while git collects, and sees to it that there are more; `None` at other times.
    pub(super) fn take_reserved(&self) -> Result<Option<String>, StoreError> {
        if !self.is_git_collecting() {
            self.give_up_reserved();
            return Ok(None);
        }
        let mut reserved = self.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        while reserved.len() <= RESERVED_LEN {
            reserved.push_back(self.reserve()?);
        }
        Ok(reserved.pop_front())
    }

    /// Makes an empty pack, marked before it has its name.
    fn reserve(&self) -> Result<String, StoreError> {
        let name = new_name();
        let path = self.file(&name, "pack");
        self.keep_files.put(&name)?;
        File::create_new(&path).at("make", &path)?;
        Ok(name)
    }

    /// Writes the content of a pack under its reserved name.
    pub(super) fn fill_reserved(&self, name: &str, content: &[u8]) -> Result<Unflushed, StoreError> {
        let path = self.file(name, "pack");
        Unflushed::fill(create_own(&path), path, content)
    }

    /// Removes what was reserved and not used; what can't be removed now is at the next start.
    pub(crate) fn give_up_reserved(&self) {
        let mut reserved = self.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        for name in reserved.drain(..) {
            drop(remove_if_there(&self.file(&name, "pack")));
            self.release(&name);
        }
    }
}
