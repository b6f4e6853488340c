//! One branch of a remote, shared by any number of services.
//!
//! This module wraps one journal in another: commits are made here, the remote's own compare-and-swap decides whether
//! they become the next ones of the branch, and only then does the local branch advance to them. Commits that others
//! push are fetched, and the local branch advances to them too, as if someone had moved it here.
//!
//! ```text
//! engine ──▶ journal ── prepare ──▶ git/journal          link ◀── poll (a thread of its own)
//!               │                                         ▲  the state of the remote
//!               ├── push, judged by commit ids ──▶ git ───┘
//!               └── advance ──▶ git/journal
//! ```
//!
//! It never decides what a collection is: when a push loses a race, it says so, and the engine decides again. It
//! never reads the configuration of the served repository, and it never trusts the remote's messages: commit ids
//! alone show what became of a push.

mod decision;
mod error;
mod journal;
mod link;
mod merger;
mod transport;

pub use crate::store::remote::decision::Decision;
pub use crate::store::remote::error::RemoteError;
pub use crate::store::remote::journal::RemoteJournal;
pub use crate::store::remote::link::poll::Poller;
pub use crate::store::remote::link::{Ack, Counters, Link, LinkState, RemoteSettings};
pub use crate::store::remote::merger::{FileSides, MergeDecision, Merger, Resolution, SideFile, Sides};
pub use crate::store::remote::transport::access::{RemoteSecrets, askpass};
pub use crate::store::remote::transport::default_branch::default_branch;
pub use crate::store::remote::transport::git::{BranchSource, Git, check_version};
pub use crate::store::remote::transport::url::{RemoteUrl, Transport};
pub(crate) use crate::store::remote::transport::words::without_userinfo;
