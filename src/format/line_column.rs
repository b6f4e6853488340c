//! Conversion of byte offsets to lines and columns.

use crate::format::Fault;
use crate::format::tree::FaultAt;

/// Maximum length of a message, in characters: it may quote a file, and appears in logs, responses and pages.
const MESSAGE_CHARS_MAX: usize = 400;

fn shortened(mut message: String) -> String {
    if let Some((at, _)) = message.char_indices().nth(MESSAGE_CHARS_MAX) {
        message.truncate(at);
        message.push('…');
    }
    message
}

/// Converts the position of a fault.
pub(crate) fn to_fault(text: &str, found: FaultAt) -> Fault {
    to_faults(text, vec![found]).swap_remove(0)
}

/// Converts the positions of faults in one pass over the text, and sorts them.
pub(crate) fn to_faults(text: &str, mut found: Vec<FaultAt>) -> Vec<Fault> {
    found.sort_by_key(|found| found.at);
    let (mut from, mut line, mut column) = (0, 1, 1);
    let place = |FaultAt { at, message }| {
        for c in text.get(from..at).unwrap_or_default().chars() {
            (line, column) = if c == '\n' { (line + 1, 1) } else { (line, column + 1) };
        }
        from = at;
        Fault { line, column, message: shortened(message) }
    };
    found.into_iter().map(place).collect()
}
