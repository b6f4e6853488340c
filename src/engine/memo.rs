//! Bytes that are derived from a value once and kept beside it.
//!
//! The same answers are sent again and again. The first request that needs one leaves it here, where it lives as long
//! as the value it was made from, so it is never out of date. The engine does not know what the bytes contain.

use std::sync::OnceLock;

use bytes::Bytes;
use once_cell::race::OnceBox;

/// Bytes that are made once from the value that this memo belongs to.
#[derive(Debug, Default)]
pub struct Memo(OnceLock<Bytes>);

impl Memo {
    /// Returns the bytes if they have been made.
    pub(crate) fn get(&self) -> Option<Bytes> {
        self.0.get().cloned()
    }

    /// Returns the bytes, and makes them on the first call.
    pub(crate) fn get_or_make(&self, make: impl FnOnce() -> Bytes) -> Bytes {
        self.0.get_or_init(make).clone()
    }
}

/// Like [`Memo`], for bytes that are made quickly and from values that are numerous: a pointer instead of 40 bytes.
/// Concurrent first calls may each make the bytes; the first result is kept.
#[derive(Debug, Default)]
pub struct SmallMemo(OnceBox<Bytes>);

impl SmallMemo {
    /// Returns the bytes, and makes them on the first call.
    pub(crate) fn get_or_make(&self, make: impl FnOnce() -> Bytes) -> Bytes {
        self.0.get_or_init(|| Box::new(make())).clone()
    }
}
