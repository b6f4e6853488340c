//! Tests of the whole HTTP layer on a writer without a disk. What the contract requires of a single collection is
//! tested over the wire, in `tests/it`.

mod operations;
mod reads;
mod refusals;
mod writes;
