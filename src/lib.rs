//! Collectory.
pub mod config;
pub mod domain;
pub mod engine;
pub mod format;
pub mod shutdown;
pub mod store;
pub mod telemetry;
