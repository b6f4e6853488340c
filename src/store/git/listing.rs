//! The names in the collections folder, whatever bytes they are made of.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use rustix::fs::Dir;

use super::folder::Folder;
use super::read::is_told;
use super::tree::{Pointer, RawTree};
use crate::store::StoreError;

/// A name in the folder. One that is not UTF-8 is shown with replacement characters, as it is in
/// the differences between commits.
#[derive(Debug)]
pub(super) struct Name {
    /// For people and the engine.
    pub(super) shown: String,
    /// As it is, where that is something else.
    raw: Option<OsString>,
}

impl Name {
    fn of(bytes: &[u8]) -> Self {
        let shown = String::from_utf8_lossy(bytes);
        let raw = matches!(shown, Cow::Owned(_)).then(|| OsString::from_vec(bytes.to_vec()));
        Self { shown: shown.into_owned(), raw }
    }

    /// Finds what a shown name stands for, in the folder or in the head.
    pub(super) fn find(folder: &Folder, head: &RawTree, shown: &str) -> Result<Self, StoreError> {
        let mut found = None;
        if shown.contains(char::REPLACEMENT_CHARACTER) {
            found = list(folder)?.into_iter().find(|name| name.shown == shown);
            found = found
                .or_else(|| head.iter().map(|entry| Self::of(entry.name)).find(|name| name.shown == shown));
        }
        Ok(found.unwrap_or_else(|| Self { shown: shown.to_owned(), raw: None }))
    }

    /// As the system has it.
    pub(super) fn os(&self) -> &OsStr {
        self.raw.as_deref().unwrap_or(self.shown.as_ref())
    }

    /// What the head has under it.
    pub(super) fn in_head(&self, head: &RawTree) -> Option<Pointer> {
        head.get(self.os().as_bytes())
    }
}

/// The names in the folder that may be collection files, sorted.
pub(super) fn list(folder: &Folder) -> Result<Vec<Name>, StoreError> {
    let failed = |errno: rustix::io::Errno| StoreError::at("read the folder", &folder.path, errno.into());
    let mut names = Vec::new();
    for entry in Dir::read_from(&folder.fd).map_err(failed)? {
        let name = Name::of(entry.map_err(failed)?.file_name().to_bytes());
        if is_told(&name.shown) {
            names.push(name);
        }
    }
    names.sort_unstable_by(|a, b| a.shown.cmp(&b.shown));
    Ok(names)
}
