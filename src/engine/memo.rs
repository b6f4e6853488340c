//! Bytes that are made of something once and kept beside it.
//!
//! What is served is told again and again in the same words. Whoever tells it first leaves them here, and they live as
//! long as what they were made of, so that they are never out of date. What they say is no business of the engine's.

use std::sync::OnceLock;

use bytes::Bytes;
use once_cell::race::OnceBox;

/// Bytes that are made once, of what this stands beside.
#[derive(Debug, Default)]
pub struct Memo(OnceLock<Bytes>);

impl Memo {
    /// The bytes, if they were made.
    pub(crate) fn get(&self) -> Option<Bytes> {
        self.0.get().cloned()
    }

    /// The bytes, made now if this is the first time.
    pub(crate) fn get_or_make(&self, make: impl FnOnce() -> Bytes) -> Bytes {
        self.0.get_or_init(make).clone()
    }
}

/// Bytes that are made once, and quickly, of what they stand beside, where there is very much of that: a pointer where
/// a [`Memo`] takes 40 bytes. Who comes while another is making them makes them too, and what was ready first is kept.
#[derive(Debug, Default)]
pub struct SmallMemo(OnceBox<Bytes>);

impl SmallMemo {
    /// The bytes, made now if this is the first time.
    pub(crate) fn get_or_make(&self, make: impl FnOnce() -> Bytes) -> Bytes {
        self.0.get_or_init(|| Box::new(make())).clone()
    }
}
