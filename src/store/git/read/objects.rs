//! Reading objects, through libgit2.
//!
//! Only libgit2's object database is used, opened on the `objects` folder by itself: no
//! configuration of the user or the system, no owner check and no work tree takes part.

use std::path::{Path, PathBuf};

use git2::{ObjectType, Odb};

use crate::domain::Revision;
use crate::store::StoreError;
use crate::store::git::object::id::{Oid, ParsedCommit, hex, parse_commit};
use crate::store::git::object::tree::RawTree;

/// The objects of a repository.
pub(crate) struct Objects {
    folder: PathBuf,
    // Opened on first use, and again after any trouble: packs come and go (`git gc`), and what was
    // wrong may be right by now.
    odb: Option<Odb<'static>>,
}

impl Objects {
    /// Names the objects of the repository whose shared part is `common_dir`.
    pub(crate) fn new(common_dir: &Path) -> Self {
        Self { folder: common_dir.join("objects"), odb: None }
    }

    /// Another reader of the same objects, for another thread.
    pub(crate) fn another(&self) -> Self {
        Self { folder: self.folder.clone(), odb: None }
    }

    /// Where they are.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Forgets which packs there are.
    pub(crate) fn close(&mut self) {
        self.odb = None;
    }

    /// Hands the content of an object to `take`.
    pub(crate) fn read<T>(
        &mut self,
        oid: &Oid,
        kind: ObjectType,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, StoreError> {
        let mut take = Some(take);
        let mut attempt = |objects: &mut Self| {
            let object = objects.try_read(oid, kind)?;
            Ok(take.take().expect("a read succeeds once")(object.data()))
        };
        let read = attempt(self).or_else(|_: git2::Error| {
            self.close();
            attempt(self)
        });
        read.map_err(|source| {
            self.close();
            StoreError::Git { action: format!("read the {kind} {}", hex(oid)), source }
        })
    }

    /// Whether the object is there.
    pub(crate) fn has(&mut self, oid: &Oid) -> bool {
        let found = |objects: &mut Self| objects.open().is_ok_and(|odb| odb.exists(as_git2(oid)));
        found(self)
    }

    /// Reads a commit.
    pub(crate) fn commit(&mut self, oid: &Oid) -> Result<ParsedCommit, StoreError> {
        let parsed = self.read(oid, ObjectType::Commit, |raw| parse_commit(Revision::new(*oid), raw))?;
        parsed.ok_or_else(|| damaged("commit", oid, "it has no tree"))
    }

    /// Reads a tree.
    pub(crate) fn tree(&mut self, oid: &Oid) -> Result<RawTree, StoreError> {
        self.read(oid, ObjectType::Tree, RawTree::parse)?
            .map_err(|error| damaged("tree", oid, &error.to_string()))
    }

    fn open(&mut self) -> Result<&Odb<'static>, git2::Error> {
        if self.odb.is_none() {
            let folder =
                self.folder.to_str().ok_or_else(|| git2::Error::from_str("its path is not UTF-8"))?;
            let odb = Odb::new()?;
            odb.add_disk_alternate(folder)?;
            self.odb = Some(odb);
        }
        Ok(self.odb.as_ref().expect("opened above"))
    }

    fn try_read(&mut self, oid: &Oid, kind: ObjectType) -> Result<git2::OdbObject<'_>, git2::Error> {
        let object = self.open()?.read(as_git2(oid))?;
        if object.kind() != kind {
            return Err(git2::Error::from_str(&format!("it is a {}", object.kind())));
        }
        Ok(object)
    }
}

/// An object that is there and makes no sense.
pub(crate) fn damaged(kind: &str, oid: &Oid, why: &str) -> StoreError {
    StoreError::Git { action: format!("read the {kind} {}", hex(oid)), source: git2::Error::from_str(why) }
}

fn as_git2(oid: &Oid) -> git2::Oid {
    git2::Oid::from_bytes(oid).expect("a name has twenty bytes")
}
