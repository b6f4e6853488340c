//! The rights that each action requires.

use crate::domain::{Key, Right, Token};
use crate::http::authorize::{Action, Denied};

/// The keys for which an action requires a right.
#[derive(Clone, Copy)]
pub(crate) enum Of<'a> {
    /// Any key that the token covers.
    Any,
    Key(&'a Key),
    /// The key of an event, which the request does not name and the answer must not reveal.
    Hidden(&'a Key),
    /// An event that does not exist, which only a token that sees every key may learn.
    Nothing,
}

/// Required for undo and restore, which bring back the past and thereby show it.
const BRING_BACK: &[Right] = &[Right::Write, Right::Audit];

/// Returns the rights that an action requires, all of them, and the keys that they must cover.
///
/// A create whose key could not be read will be refused as bad data. Any token that may write gets that error.
pub(crate) fn needed(action: Action<'_>) -> (&'static [Right], Of<'_>) {
    const READ: &[Right] = &[Right::Read];
    const WRITE: &[Right] = &[Right::Write];
    const AUDIT: &[Right] = &[Right::Audit];
    match action {
        Action::List
        | Action::ReadProblems
        | Action::ReadSyncToken
        | Action::ReadChanges
        | Action::ReadCapabilities
        | Action::ReadOpenApi => (READ, Of::Any),
        Action::Read { key } => (READ, Of::Key(key)),
        Action::Follow { key } => (READ, key.map_or(Of::Any, Of::Key)),
        Action::Create { key, .. } => (WRITE, key.map_or(Of::Any, Of::Key)),
        Action::Update { key, .. } | Action::Delete { key } => (WRITE, Of::Key(key)),
        Action::ListPast | Action::ReadDifference => (AUDIT, Of::Any),
        Action::ListEvents { key } | Action::StreamEvents { key } => (AUDIT, key.map_or(Of::Any, Of::Key)),
        Action::ReadPast { key } | Action::ReadBlame { key } => (AUDIT, Of::Key(key)),
        Action::ReadEvent { key } => (AUDIT, key.map_or(Of::Nothing, Of::Hidden)),
        Action::Restore { key } => (BRING_BACK, Of::Key(key)),
        Action::UndoEvent { key } => (BRING_BACK, key.map_or(Of::Nothing, Of::Hidden)),
        Action::Operate => (&[Right::Operate], Of::Any),
    }
}

/// Returns the first required right that the token lacks.
pub(crate) fn lacking(token: &Token, rights: &[Right], of: Of<'_>) -> Option<Right> {
    let has = |right| match of {
        Of::Any => token.may(right),
        Of::Key(key) | Of::Hidden(key) => token.may_to(right, key),
        Of::Nothing => token.may_to_all(right),
    };
    rights.iter().copied().find(|&right| !has(right))
}

pub(crate) fn denial(right: Right, of: Of<'_>) -> Denied {
    let verb = right.as_str();
    let detail = match of {
        Of::Key(key) => format!("This token may not {verb} '{key}'."),
        Of::Any | Of::Hidden(_) | Of::Nothing => format!("This token may not {verb}."),
    };
    Denied::forbidden().with_detail(detail)
}
