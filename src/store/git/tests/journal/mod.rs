//! Commits: how they are made and flushed, and that they survive a kill or a power cut.

mod commits;
mod flushes;
mod kept;
mod places;
mod power;
mod signing;
mod state_files;
