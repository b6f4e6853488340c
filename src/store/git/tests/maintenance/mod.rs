//! Packs, loose objects, the commit-graph and the reflogs, while git maintains them too.

mod background;
mod graph;
mod loose;
mod lost_index;
mod merging;
mod reflogs;
