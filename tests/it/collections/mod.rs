//! The five verbs on collections.

mod create;
mod delete;
mod list;
mod read;
mod update;
