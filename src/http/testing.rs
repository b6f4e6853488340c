//! What the tests of this module share: entries without a repository.

use std::sync::{Arc, OnceLock};

use sha2::{Digest as _, Sha256};

use crate::domain::{Collection, Key, Kind};
use crate::engine::Entry;
use crate::store::BlobId;

/// A key.
pub(super) fn key(text: &str) -> Key {
    Key::parse(text).unwrap()
}

/// An entry with attributes that are texts.
pub(super) fn entry(id: &str, kind: Kind, attributes: &[(&str, &str)]) -> Arc<Entry> {
    let attributes = attributes.iter().map(|(name, value)| ((*name).to_owned(), (*value).into()));
    entry_of(Arc::new(Collection::new(key(id), kind, attributes).unwrap()))
}

/// An entry whose tag follows its content.
pub(super) fn entry_of(collection: Arc<Collection>) -> Arc<Entry> {
    let digest = Sha256::digest(format!("{:?} {:?}", collection.kind(), collection.attributes()));
    Arc::new(Entry {
        file: format!("{}.yaml", collection.key()).into(),
        blob: BlobId::new(digest[..20].try_into().unwrap()),
        collection,
        uncommitted: false,
        problem: None,
        stale: false,
        answer: OnceLock::new(),
    })
}
