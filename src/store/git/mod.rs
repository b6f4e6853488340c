//! The journal on a git repository.

mod archive;

pub use archive::GitArchive;
#[cfg(test)]
pub(crate) use archive::testing;
