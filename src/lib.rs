//! Collectory.
pub mod domain;
pub mod engine;
pub mod format;
pub mod store;
pub mod watch;
