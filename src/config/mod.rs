//! Everything that can be set, with its default: from flags and environment variables, and from
//! no other source.
//!
//! Programs that embed the service fill the same plain structs ([`ServeConfig`], [`Limits`]) by
//! hand; the command line fills them with clap, where the flag `--queue-len-max` and the variable
//! `COLLECTORY_QUEUE_LEN_MAX` set [`Limits::queue_len_max`], and so on for every field.

mod auth;
mod base_path;
mod limits;
mod listen;
mod origin;
mod serve;

pub use auth::Auth;
pub use base_path::BasePath;
pub use limits::Limits;
pub use listen::Listen;
pub use origin::Origin;
pub(crate) use serve::listen_default;
pub use serve::{FOLDER_DEFAULT, Maintenance, REPOSITORY_DEFAULT, ServeConfig, Uncommitted, Watching};
