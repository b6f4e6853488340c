//! Lists the names in the collections folder, in any encoding.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use rustix::fs::Dir;

use crate::domain::file_name::is_collection_file;
use crate::store::git::object::tree::{Pointer, RawTree};
use crate::store::git::worktree::scan::folder::Folder;
use crate::store::{AtPath as _, StoreError};

/// A name in the folder. Invalid UTF-8 is shown with replacement characters, as in differences between commits.
#[derive(Debug)]
pub(crate) struct ListedName {
    /// The name for people and the engine.
    pub(crate) shown: String,
    /// The original name, if it differs.
    raw: Option<OsString>,
}

impl ListedName {
    fn of(bytes: &[u8]) -> Self {
        let shown = String::from_utf8_lossy(bytes);
        let raw = matches!(shown, Cow::Owned(_)).then(|| OsString::from_vec(bytes.to_vec()));
        Self { shown: shown.into_owned(), raw }
    }

    /// Finds the name that is shown like this, in the folder or in the head.
    pub(crate) fn find(folder: &Folder, head: &RawTree, shown: &str) -> Result<Self, StoreError> {
        let mut found = None;
        if shown.contains(char::REPLACEMENT_CHARACTER) {
            found = list(folder)?.into_iter().find(|name| name.shown == shown);
            found = found
                .or_else(|| head.iter().map(|entry| Self::of(entry.name)).find(|name| name.shown == shown));
        }
        Ok(found.unwrap_or_else(|| Self { shown: shown.to_owned(), raw: None }))
    }

    /// Returns the original name.
    pub(crate) fn os(&self) -> &OsStr {
        self.raw.as_deref().unwrap_or(self.shown.as_ref())
    }

    /// Returns the entry that the head has under it.
    pub(crate) fn in_head(&self, head: &RawTree) -> Option<Pointer> {
        head.get(self.os().as_bytes())
    }
}

/// Returns the names in the folder that may be collection files, sorted.
pub(crate) fn list(folder: &Folder) -> Result<Vec<ListedName>, StoreError> {
    let mut names = Vec::new();
    for entry in Dir::read_from(&folder.fd).at("read the folder", &folder.path)? {
        let name = ListedName::of(entry.at("read the folder", &folder.path)?.file_name().to_bytes());
        if is_collection_file(&name.shown) {
            names.push(name);
        }
    }
    names.sort_unstable_by(|a, b| a.shown.cmp(&b.shown));
    Ok(names)
}
