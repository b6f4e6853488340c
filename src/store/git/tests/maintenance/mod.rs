//! Packs, loose objects, the commit-graph and the reflogs, beside whatever git does to them.

mod graph;
mod housekeeping;
mod loose;
mod lost_index;
mod merging;
mod reflogs;
