//! Hand edits: live at once, marked, and never lost.

mod beside_writes;
mod committed;
mod letter_case;
mod problems;
mod rewritten;
mod saving;
mod unnoticed;

/// The file of a document collection with only a name.
pub(crate) fn named(name: &str) -> String {
    format!("type: document\nname: {name}\n")
}
