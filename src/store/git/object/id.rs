//! The ids of git's objects.
//!
//! The id of an object is the SHA-1 of `<kind> <length>\0<content>` (gitformat-pack(5), gitformat-loose(5)).
//! Contents that callers choose, blobs and commits, are hashed with SHA-1 collision detection, as in git. Trees and
//! checksums, which no caller can choose freely, are hashed with the processor's own SHA-1 instructions, four to
//! six times as fast.

use sha1::{Digest as _, Sha1};

use crate::domain::Revision;
use crate::store::{BlobId, StoreError};

pub(crate) type Oid = [u8; 20];

/// The kinds of objects, with their type numbers in a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ObjectKind {
    Commit = 1,
    Tree = 2,
    Blob = 3,
    /// Annotated tags, which are read and never written.
    Tag = 4,
}

impl ObjectKind {
    pub(crate) const ALL: [Self; 4] = [Self::Commit, Self::Tree, Self::Blob, Self::Tag];

    /// The word for the kind in an object's header.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Tree => "tree",
            Self::Blob => "blob",
            Self::Tag => "tag",
        }
    }
}

/// Returns the id of an object with this content.
///
/// # Errors
///
/// Refuses content that was crafted to collide with other content under SHA-1.
pub(crate) fn hash_object(kind: ObjectKind, content: &[u8]) -> Result<Oid, StoreError> {
    let header = format!("{} {}\0", kind.word(), content.len());
    if kind == ObjectKind::Tree {
        return Ok(Sha1::new().chain_update(header).chain_update(content).finalize().into());
    }
    let mut hasher = sha1_checked::Sha1::new();
    hasher.update(header);
    hasher.update(content);
    let result = hasher.try_finalize();
    if result.has_collision() {
        return Err(StoreError::Collision { kind: kind.word() });
    }
    Ok((*result.hash()).into())
}

impl BlobId {
    /// Computes the id that git gives to this content (`git hash-object`).
    #[must_use]
    pub fn of(content: &[u8]) -> Self {
        let mut hasher = BlobHasher::new(content.len() as u64);
        hasher.update(content);
        hasher.finish()
    }
}

/// Hashes a blob whose content arrives in pieces.
pub(crate) struct BlobHasher(sha1_checked::Sha1);

impl BlobHasher {
    pub(crate) fn new(len: u64) -> Self {
        let mut hasher = sha1_checked::Sha1::new();
        hasher.update(format!("blob {len}\0"));
        Self(hasher)
    }

    pub(crate) fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// Returns the id. Colliding content gets the id that git's collision detection gives it, which equals no other
    /// object's id.
    pub(crate) fn finish(self) -> BlobId {
        BlobId::new((*self.0.try_finalize().hash()).into())
    }
}

pub(crate) fn hex(oid: &Oid) -> String {
    Revision::new(*oid).to_string()
}

pub(crate) fn unhex(digits: &[u8]) -> Option<Oid> {
    std::str::from_utf8(digits).ok()?.parse::<Revision>().ok().map(|revision| *revision.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_have_the_names_that_git_gives_them() {
        // `git hash-object` of an empty file and of "hello\n", and the empty tree.
        assert_eq!(
            hex(&hash_object(ObjectKind::Blob, b"").unwrap()),
            "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
        );
        assert_eq!(
            hex(&hash_object(ObjectKind::Blob, b"hello\n").unwrap()),
            "ce013625030ba8dba906f756967f9e9ca394464a"
        );
        assert_eq!(
            hex(&hash_object(ObjectKind::Tree, b"").unwrap()),
            "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
        );
        let mut pieces = BlobHasher::new(6);
        pieces.update(b"hel");
        pieces.update(b"lo\n");
        assert_eq!(*pieces.finish().as_bytes(), hash_object(ObjectKind::Blob, b"hello\n").unwrap());
    }
}
