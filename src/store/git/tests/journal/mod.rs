//! Commits: made, flushed, and whole after a kill or a power cut.

mod commits;
mod flushes;
mod kept;
mod places;
mod power;
mod signing;
mod state_files;
