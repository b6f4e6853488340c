//! The journal against the real `git`.

mod archive;
mod away;
mod behind;
mod commits;
mod drafts;
mod flushes;
mod graph;
mod hands;
mod kept;
mod line_ends;
mod loose;
mod lost_index;
mod maintenance;
mod merging;
mod places;
mod power;
mod reading;
mod reflogs;
mod set_back;
mod signing;
mod state_files;
mod support;
#[cfg(target_os = "linux")]
mod unfinished;
