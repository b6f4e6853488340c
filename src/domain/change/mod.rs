//! What may be asked, what may happen and what is refused: [`decide()`] makes an [`Event`] or a [`Refusal`] of a
//! [`Command`] and the [`Catalog`] of the moment.
//!
//! Nothing here remembers: the same command against the same catalog has the same answer, so whoever loses a
//! race asks again.

mod catalog;
mod command;
mod decide;
mod event;
mod refusal;

pub use crate::domain::change::catalog::{Catalog, HasCollection};
pub use crate::domain::change::command::{Command, Exact, REASON_BYTES_MAX, Restore, Reverses};
pub use crate::domain::change::decide::decide;
pub use crate::domain::change::event::Event;
pub use crate::domain::change::refusal::{Refusal, Segment, Violation};
