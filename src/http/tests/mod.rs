//! The whole edge through its filter, on a writer without a disk.

mod operations;
mod reads;
mod refusals;
mod writes;
