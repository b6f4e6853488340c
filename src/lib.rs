#![doc = include_str!("ARCHITECTURE.md")]

pub mod cli;
pub mod config;
pub mod domain;
pub mod engine;
mod exchange;
pub mod format;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod http;
mod memory;
#[cfg(test)]
mod random;
pub mod service;
pub mod shutdown;
pub mod store;
pub mod telemetry;
pub mod watch;
pub mod webhooks;

pub use crate::http::{AllowAll, Authorizer};
pub use crate::service::{Service, ServiceBuilder};

/// The examples of the README, compiled as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
