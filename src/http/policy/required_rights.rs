//! The rights that each action requires.

use crate::domain::{Key, Right, Token};
use crate::http::authorize::{Action, Denied};

/// The keys for which an action requires a right.
#[derive(Clone, Copy)]
pub(crate) enum RequiredKeys<'a> {
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
pub(crate) fn required_rights(action: Action<'_>) -> (&'static [Right], RequiredKeys<'_>) {
    const READ: &[Right] = &[Right::Read];
    const WRITE: &[Right] = &[Right::Write];
    const AUDIT: &[Right] = &[Right::Audit];
    match action {
        Action::List
        | Action::ReadProblems
        | Action::ReadSyncToken
        | Action::ReadChanges
        | Action::ReadCapabilities
        | Action::ReadOpenApi => (READ, RequiredKeys::Any),
        Action::Read { key } => (READ, RequiredKeys::Key(key)),
        Action::Follow { key } => (READ, key.map_or(RequiredKeys::Any, RequiredKeys::Key)),
        Action::Create { key, .. } => (WRITE, key.map_or(RequiredKeys::Any, RequiredKeys::Key)),
        Action::Update { key, .. } | Action::Delete { key } => (WRITE, RequiredKeys::Key(key)),
        Action::ListPast | Action::ReadDifference => (AUDIT, RequiredKeys::Any),
        Action::ListEvents { key } | Action::StreamEvents { key } => {
            (AUDIT, key.map_or(RequiredKeys::Any, RequiredKeys::Key))
        }
        Action::ReadPast { key } | Action::ReadBlame { key } => (AUDIT, RequiredKeys::Key(key)),
        Action::ReadEvent { key } => (AUDIT, key.map_or(RequiredKeys::Nothing, RequiredKeys::Hidden)),
        Action::Restore { key } => (BRING_BACK, RequiredKeys::Key(key)),
        Action::UndoEvent { key } => (BRING_BACK, key.map_or(RequiredKeys::Nothing, RequiredKeys::Hidden)),
        Action::Operate => (&[Right::Operate], RequiredKeys::Any),
    }
}

/// Returns the first required right that the token lacks.
pub(crate) fn missing_right(token: &Token, rights: &[Right], of: RequiredKeys<'_>) -> Option<Right> {
    let has = |right| match of {
        RequiredKeys::Any => token.has_right(right),
        RequiredKeys::Key(key) | RequiredKeys::Hidden(key) => token.has_right_for(right, key),
        RequiredKeys::Nothing => token.has_right_for_all(right),
    };
    rights.iter().copied().find(|&right| !has(right))
}

pub(crate) fn denial(right: Right, of: RequiredKeys<'_>) -> Denied {
    let verb = right.as_str();
    let detail = match of {
        RequiredKeys::Key(key) => format!("This token may not {verb} '{key}'."),
        RequiredKeys::Any | RequiredKeys::Hidden(_) | RequiredKeys::Nothing => {
            format!("This token may not {verb}.")
        }
    };
    Denied::forbidden().with_detail(detail)
}
