//! All settings, with their defaults: from flags and environment variables, and from no other source.
//!
//! Programs that embed the service fill the same plain structs ([`ServeConfig`], [`Limits`]); the command line fills
//! them with clap. The flag `--queue-len-max` and the variable `COLLECTORY_QUEUE_LEN_MAX` set
//! [`WriteLimits::queue_len_max`], and so on for every field.

mod auth;
mod base_path;
mod limits;
mod listen;
mod named_file;
mod origin;
mod remote;
mod serve;
mod webhooks;

pub use crate::config::auth::Auth;
pub use crate::config::base_path::BasePath;
pub use crate::config::limits::{
    AnswerLimits, HandEditLimits, Limits, PolicyLimits, RequestLimits, WriteLimits,
};
pub use crate::config::listen::ListenAddress;
pub(crate) use crate::config::named_file::{Stamp, open_named, read_named};
pub use crate::config::origin::Origin;
pub use crate::config::remote::{RemoteAccess, RemoteAck, RemoteConfig, RemoteTimes, Rewrite, SiblingConfig};
pub(crate) use crate::config::serve::listen_default;
pub use crate::config::serve::{
    CommitConfig, FOLDER_DEFAULT, HttpConfig, ListenConfig, Maintenance, REPOSITORY_DEFAULT,
    RepositoryConfig, ServeConfig, Uncommitted, Watching, WebPages,
};
pub use crate::config::webhooks::WebhookConfig;
