//! What an action needs of a token.

use super::super::authorize::{Action, Denied};
use crate::domain::{Key, Permission};

/// What an action is about.
#[derive(Clone, Copy)]
pub(super) enum Of<'a> {
    /// Whatever keys the token covers.
    Any,
    /// This key.
    Key(&'a Key),
    /// An event of this key, which the request does not name, and the answer to it must not.
    Hidden(&'a Key),
    /// Something that there is not: for those only to whom no key is hidden.
    Nothing,
}

/// What an action needs: the permission, and what must be covered.
///
/// Creating without a key that could be read will be refused as bad data; whoever may write is
/// told so.
pub(super) fn needed(action: Action<'_>) -> (Permission, Of<'_>) {
    use Permission::{Audit, Read, Write};
    match action {
        Action::List | Action::ReadProblems | Action::ReadOpenApi | Action::ReadCapabilities => {
            (Read, Of::Any)
        }
        Action::Read { key } => (Read, Of::Key(key)),
        Action::Create { key, .. } => (Write, key.map_or(Of::Any, Of::Key)),
        Action::Update { key, .. } | Action::Delete { key } | Action::Restore { key } => {
            (Write, Of::Key(key))
        }
        Action::UndoEvent { key } => (Write, key.map_or(Of::Nothing, Of::Hidden)),
        Action::ListPast | Action::ReadDifference | Action::ReadSyncToken | Action::ReadChanges => {
            (Audit, Of::Any)
        }
        Action::ListEvents { key } | Action::StreamEvents { key } => (Audit, key.map_or(Of::Any, Of::Key)),
        Action::ReadPast { key } | Action::ReadBlame { key } => (Audit, Of::Key(key)),
        Action::ReadEvent { key } => (Audit, key.map_or(Of::Nothing, Of::Hidden)),
    }
}

pub(super) fn denial(permission: Permission, of: Of<'_>) -> Denied {
    let verb = permission.as_str();
    let detail = match of {
        Of::Key(key) => format!("This token may not {verb} '{key}'."),
        Of::Any | Of::Hidden(_) | Of::Nothing => format!("This token may not {verb}."),
    };
    Denied::forbidden().with_detail(detail)
}
