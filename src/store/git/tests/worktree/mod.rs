//! Files and index of the work tree, and the people who change them too.

mod away;
mod conversion;
mod drafts;
mod hands;
mod outdated_paths;
mod pushed;
mod set_back;
#[cfg(target_os = "linux")]
mod unfinished;
