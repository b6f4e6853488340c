//! Commands, events and refusals: [`decide()`] turns a [`Command`] and the current [`Catalog`] into an [`Event`] or
//! a [`Refusal`].
//!
//! Nothing here keeps state: the same command against the same catalog has the same result, so a caller that loses
//! a race decides again.

mod catalog;
mod command;
mod decide;
mod event;
mod refusal;

pub use crate::domain::change::catalog::{Catalog, HasCollection};
pub use crate::domain::change::command::{Command, ExactFile, REASON_BYTES_MAX, Restore, Reversal};
pub use crate::domain::change::decide::decide;
pub(crate) use crate::domain::change::decide::updated;
pub use crate::domain::change::event::Event;
pub use crate::domain::change::refusal::Refusal;
