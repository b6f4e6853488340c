//! Collectory.
pub mod domain;
pub mod engine;
pub mod format;
pub mod http;
pub mod store;
