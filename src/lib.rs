#![doc = include_str!("ARCHITECTURE.md")]
#![expect(
    rustdoc::private_intra_doc_links,
    reason = "the map is of the whole house: `cargo doc --document-private-items`"
)]

mod cli;
pub mod config;
mod domain;
mod engine;
mod exchange;
mod format;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod http;
#[cfg(test)]
mod random;
mod service;
mod shutdown;
mod store;
mod telemetry;
mod watch;
mod webhooks;

// The API for programs that embed the service. Everything else may change at any time.
pub use crate::domain::{
    Actor, Attribute, Collection, Directory, Expiry, Extension, Grant, Key, KeyError, KeyPattern, Kind,
    MediaType, Number, Patch, Refusal, Right, SecretHash, Shorthand, Token, Value, Violation,
};
pub use crate::http::server::{BindError, TlsError};
pub use crate::http::{
    Action, AllowAll, Allowed, Authorizer, Authorizing, Denied, ErrorStatus, Identifying, Identity,
    RequestHead,
};
pub use crate::service::{Guarded, Service, ServiceBuilder, StartError, StopError, Unguarded};
pub use crate::store::StoreError;
pub use crate::store::signature::{SigningKeyError, UnfitKey};

/// The parts of the binary.
#[doc(hidden)]
pub mod binary {
    pub use crate::cli::{Cli, askpass, report};
}

/// What `cargo bench` measures without a service around it; not a stable API.
#[doc(hidden)]
pub mod benched {
    pub use crate::store::git::{GitJournal, Options};
    pub use crate::store::{Draft, Journal};
}

/// The examples of the README, compiled as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
