//! The whole edge through its filter, on a writer without a disk. What the contract shows of one collection is proved over
//! the wire, in `tests/it`.

mod operations;
mod reads;
mod refusals;
mod writes;
