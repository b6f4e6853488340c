//! The journal on a git repository, split into rooms; `journal` opens them all and implements the traits.
//!
//! Nothing here knows YAML, collections or JSON:API.

mod disk;
mod index;
mod journal;
mod maintenance;
mod object;
mod odb;
mod packs;
mod read;
mod repo;
#[cfg(any(test, fuzzing))]
mod tests;
mod worktree;
mod write;

#[cfg(test)]
pub(crate) use disk::failpoint::{Failpoint, Hook};
pub(crate) use disk::open::open_own;
pub use index::staged::staged_entries;
pub use journal::GitJournal;
pub use journal::options::Options;
pub use journal::written::WriteTarget;
pub use maintenance::statistics::Statistics;
#[cfg(test)]
pub(crate) use read::archive::GitArchive;
pub use repo::init::NewRepository;
pub(crate) use repo::layout::REMOTE_FOLDER;
pub use repo::layout::enclosing_repository;
pub use repo::layout::set_shared_umask;
pub use repo::refs::branch::Access;
pub(crate) use repo::refs::branch::is_name as is_branch_name;
pub use repo::user_config::{SignatureFiles, hooks_folder, signature_files};
#[cfg(any(test, fuzzing))]
pub(crate) use tests::fuzz;
#[cfg(test)]
pub(crate) use tests::support as testing;
