//! Changes files of the work tree without ever overwriting what a person saved.
//!
//! Nothing here knows why a file is changed, or what the index says of it.

pub(crate) mod staging;
pub(crate) mod swap;
