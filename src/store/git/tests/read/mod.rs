//! Committed content, as the journal and the archive read it.

mod archive;
mod history;
mod reading;
