//! One branch of a remote, shared by any number of services.
//!
//! This room puts a journal around a journal: commits are made here, the remote's own compare-and-set decides
//! whether they are the branch's next ones, and only then does the branch here go on to them. What others have
//! pushed is fetched and becomes the branch here as well, as if somebody had moved it.
//!
//! ```text
//! engine ──▶ journal ── prepare ──▶ git/journal          link ◀── poll (a thread of its own)
//!               │                                         ▲  what is known of the remote
//!               ├── push, judged by commit ids ──▶ git ───┘
//!               └── advance ──▶ git/journal
//! ```
//!
//! It never decides what a collection is: who lost a race is told so, and the engine decides again. It never reads
//! the configuration of the served repository, and never takes what the remote says in words for the truth: what
//! became of a push is told by the ids of commits.

mod decision;
mod error;
mod journal;
mod link;
mod merger;
mod transport;

pub use crate::store::remote::decision::Decision;
pub use crate::store::remote::error::RemoteError;
pub use crate::store::remote::journal::RemoteJournal;
pub use crate::store::remote::link::poll::Poll;
pub use crate::store::remote::link::{Ack, Counters, Link, LinkState, RemoteSettings};
pub use crate::store::remote::merger::{FileSides, MergeDecision, Merger, Resolution, SideFile, Sides};
pub use crate::store::remote::transport::access::{RemoteSecrets, askpass};
pub use crate::store::remote::transport::branch::default_branch;
pub use crate::store::remote::transport::git::{Git, NamedBy, check_version};
pub use crate::store::remote::transport::url::{RemoteUrl, Transport};
pub(crate) use crate::store::remote::transport::words::without_userinfo;
