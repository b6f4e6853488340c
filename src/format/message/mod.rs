//! The message of a commit: for people first, then trailers for machines.
//!
//! ```text
//! Update posts: name, recursive                 the subject, at most 72 characters if it can be
//!
//! The old name confused everybody.              the reason, if the caller gave one: one line
//!
//! name: "Posts" -> "All posts"                  the changes: one paragraph, values as JSON
//! recursive: (none) -> true
//!
//! Collectory-Action: collection.updated         three trailers an event
//! Collectory-Key: posts
//! Collectory-Event: 0197a6c2-6b0e-7c44-9d0e-0a4b6c1f2d3e
//! Request-Id: 7f1c
//! ```
//!
//! A created or deleted collection lists its attributes as `name: "Posts"`; a batch puts
//! `posts: updated` above the indented lines of each collection. A commit that holds a person's
//! saved edit is `Edit posts by hand` (or `Create`, `Delete`) and carries `Collectory-Origin: work-tree`;
//! if the file is broken there are no changes to tell, and the trailers say what became of the file. One
//! that the command line makes carries `Collectory-Origin: command`, and a merge that the service makes
//! `Collectory-Origin: merge` ([`compose_merge`]).
//!
//! # What a caller's text can't do
//!
//! Git finds trailers in the last paragraph, ends a message at a line `---`, drops lines that
//! begin with `#` when a message is edited, and takes `From:` at the top of a body for an author
//! when a commit travels by mail. So a text from outside is always one line (control characters,
//! every line separator and what turns text around become blanks), never stands in the last paragraph unless behind a
//! trailer's name, and a reason that may mean something to git or be taken for a line of ours is indented by one blank,
//! which [`parse()`] takes off again.

mod merge;
mod parse;

use std::fmt::Write as _;

use uuid::Uuid;

pub use crate::format::message::merge::{Conflict, Joined, compose_merge, conflicts, is_merge};
pub use crate::format::message::parse::{EventTrailers, Message, OriginTrailer, idempotency, parse};

use crate::domain::{Change, Event, Key, Reverses, Value, changes};
use crate::format::turns_text;

/// The most characters of a subject, if the key leaves room.
pub const SUBJECT_CHARS_MAX: usize = 72;

/// The most characters of a value in the body; longer ones end in `…`.
pub const VALUE_CHARS_MAX: usize = 100;

/// The most lines of changes in the body; how many more there are is told.
pub const LINES_MAX: usize = 200;

/// The most characters of a request id that are kept.
pub const REQUEST_ID_CHARS_MAX: usize = 200;

/// Begins the line that says which event is taken back.
const UNDOES_EVENT: &str = "Undoes";

/// Begins the line that says which revision a collection is brought back to.
const AS_IT_WAS: &str = "As it was at";

/// Stands for the changes where a reason is given and no attribute changes, so that reading back tells the
/// reason from the changes.
const NO_CHANGES: &str = "(no attributes)\n";

const ACTION: &str = "Collectory-Action";
const KEY: &str = "Collectory-Key";
const EVENT: &str = "Collectory-Event";
const UNDOES: &str = "Collectory-Undoes";
const RESTORES: &str = "Collectory-Restores";
const ORIGIN: &str = "Collectory-Origin";
const WORK_TREE: &str = "work-tree";
const COMMAND: &str = "command";
const MERGE: &str = "merge";
const CONFLICT: &str = "Collectory-Conflict";
const REQUEST_ID: &str = "Request-Id";
const IDEMPOTENCY_KEY: &str = "Idempotency-Key";
const FINGERPRINT: &str = "Collectory-Fingerprint";

/// What a commit message tells besides its events.
#[derive(Debug, Clone, Default)]
pub struct About<'a> {
    /// Why, in the caller's words; any text.
    pub reason: Option<&'a str>,
    /// The request that asked; any text.
    pub request_id: Option<&'a str>,
    /// The name that the caller gave to its request, and a digest of the request: the trailers
    /// `Idempotency-Key` and `Collectory-Fingerprint`.
    pub idempotency: Option<(&'a str, String)>,
    /// The collection whose file a person saved and what that did to it, if the commit holds such an edit
    /// (`Collectory-Origin: work-tree`). What it means may be unknown, as the file may be broken: then this is the
    /// event, and it has this id; none where the file stands beside the one that counts, and nothing has happened to
    /// the collection.
    pub by_hand: Option<(&'a Key, ByHand, Option<Uuid>)>,
    /// Whether the command line makes the commit (`Collectory-Origin: command`).
    pub by_command: bool,
    /// Collections that the commit deletes and whose files never were valid: there is no event
    /// that could tell what they were. Each with the id of its deletion.
    pub unread: &'a [(Uuid, Key)],
    /// What the commit takes back: a line of the body and the trailer `Collectory-Undoes`, or the
    /// subject `Restore posts to 9fceb02` and the trailer `Collectory-Restores`.
    pub reverses: Option<&'a Reverses>,
}

/// What a person's saved edit did to the file of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByHand {
    /// There was no file before.
    Create,
    /// There was a file before and there is one now.
    Edit,
    /// There is no file any more.
    Delete,
}

impl ByHand {
    const fn verb(self) -> &'static str {
        match self {
            Self::Create => "Create",
            Self::Edit => "Edit",
            Self::Delete => "Delete",
        }
    }

    const fn action(self) -> &'static str {
        match self {
            Self::Create => CREATED,
            Self::Edit => UPDATED,
            Self::Delete => DELETED,
        }
    }
}

/// What the trailers call a creation.
pub const CREATED: &str = "collection.created";

/// What the trailers call an update.
pub const UPDATED: &str = "collection.updated";

/// What the trailers call a deletion.
pub const DELETED: &str = "collection.deleted";

/// The name of what happened, as trailers and subscribers have it: `collection.updated`.
#[must_use]
pub const fn action(event: &Event) -> &'static str {
    match event {
        Event::Created(_) => CREATED,
        Event::Updated { .. } => UPDATED,
        Event::Deleted(_) => DELETED,
    }
}

/// Composes the message of a commit that makes these events true.
///
/// The events are told in the order of their keys. A hand edit that the service commits may have
/// no events that it can read; then [`About::by_hand`] alone tells of the collection.
#[must_use]
pub fn compose(events: &[(Uuid, &Event)], about: &About<'_>) -> String {
    let mut events = events.to_vec();
    events.sort_by(|(_, one), (_, two)| one.key().cmp(two.key()));
    let mut message = subject(&events, about);
    message.push('\n');
    // Where only comments or order are other there is nothing to tell.
    let mut told = undone(about) + &body(&events);
    if let Some(reason) = about.reason.map(one_line).filter(|reason| !reason.is_empty()) {
        let indent = if means_something(&reason) { " " } else { "" };
        write!(message, "\n{indent}{reason}\n").expect("writing to a string");
        if told.is_empty() {
            told.push_str(NO_CHANGES);
        }
    }
    if !told.is_empty() {
        message.push('\n');
        message.push_str(&told);
    }
    message.push('\n');
    message.push_str(&trailers(&events, about));
    message
}

fn subject(events: &[(Uuid, &Event)], about: &About<'_>) -> String {
    if let Some((key, what, _)) = about.by_hand {
        return format!("{} {key} by hand", what.verb());
    }
    if let (Some(Reverses::Since(revision)), [(_, event)]) = (about.reverses, events) {
        return format!("Restore {} to {}", event.key(), &revision.to_string()[..7]);
    }
    match (events, about.unread) {
        ([], []) => "Change nothing".to_owned(),
        ([], [(_, key)]) => format!("Delete {key}"),
        ([(_, event)], []) => match event {
            Event::Created(collection) => format!("Create {}", collection.key()),
            Event::Deleted(collection) => format!("Delete {}", collection.key()),
            Event::Updated { before, after } => {
                let names =
                    changes(Some(before), Some(after)).into_iter().map(|change| one_line(&change.attribute));
                listed(format!("Update {}", after.key()), &names.collect::<Vec<_>>())
            }
        },
        (several, unread) => {
            let mut keys: Vec<_> = several.iter().map(|(_, event)| event.key().to_string()).collect();
            keys.extend(unread.iter().map(|(_, key)| key.to_string()));
            keys.sort();
            listed(format!("Change {} collections", keys.len()), &keys)
        }
    }
}

/// Appends as many names as a subject has room for, and how many are left out.
fn listed(head: String, names: &[String]) -> String {
    let shown = |count: usize| {
        let rest = names.len() - count;
        let more = if count == 0 { format!("{rest}") } else { format!(", and {rest} more") };
        format!("{head}: {}{}", names[..count].join(", "), if rest == 0 { "" } else { &more })
    };
    let fits = |text: &String| text.chars().count() <= SUBJECT_CHARS_MAX;
    let longest = (1..=names.len()).rev().map(shown).find(fits);
    longest.unwrap_or(head)
}

/// The line that says for people what is taken back. It leads the paragraph of the changes, which
/// is never empty then, so that reading back tells it from the reason.
fn undone(about: &About<'_>) -> String {
    match about.reverses {
        Some(Reverses::Event(id)) => format!("{UNDOES_EVENT} {}\n", one_line(id)),
        Some(Reverses::Since(revision)) => format!("{AS_IT_WAS} {revision}\n"),
        None => String::new(),
    }
}

/// The changes, one a line.
fn body(events: &[(Uuid, &Event)]) -> String {
    let mut lines = Vec::new();
    for (_, event) in events {
        let indent = if events.len() == 1 { "" } else { "  " };
        if events.len() > 1 {
            let done = action(event).trim_start_matches("collection.");
            lines.push(format!("{}: {done}", event.key()));
        }
        let before = event.before().map(AsRef::as_ref);
        let after = event.after().map(AsRef::as_ref);
        let updated = matches!(event, Event::Updated { .. });
        lines
            .extend(changes(before, after).iter().map(|change| format!("{indent}{}", line(change, updated))));
    }
    let more = lines.len().saturating_sub(LINES_MAX);
    if more > 0 {
        lines.truncate(LINES_MAX);
        lines.push(format!("(and {more} more lines)"));
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn line(change: &Change, updated: bool) -> String {
    let shown = |value: &Option<Value>| value.as_ref().map_or_else(|| "(none)".to_owned(), shortened);
    let name = one_line(&change.attribute);
    match (&change.from, &change.to) {
        (None, only) | (only, None) if !updated => format!("{name}: {}", shown(only)),
        (from, to) => format!("{name}: {} -> {}", shown(from), shown(to)),
    }
}

fn shortened(value: &Value) -> String {
    let shown = one_line(&value.to_string());
    if shown.chars().count() <= VALUE_CHARS_MAX {
        return shown;
    }
    shown.chars().take(VALUE_CHARS_MAX - 1).chain(['…']).collect()
}

fn trailers(events: &[(Uuid, &Event)], about: &About<'_>) -> String {
    let mut lines = Vec::new();
    let mut tell = |id: &Uuid, action: &str, key: &Key| {
        lines.push(format!("{ACTION}: {action}\n{KEY}: {key}\n{EVENT}: {id}\n"));
    };
    events.iter().for_each(|(id, event)| tell(id, action(event), event.key()));
    about.unread.iter().for_each(|(id, key)| tell(id, DELETED, key));
    if let (Some((key, what, Some(id))), []) = (&about.by_hand, events) {
        tell(id, what.action(), key);
    }
    match about.reverses {
        Some(Reverses::Event(id)) => lines.push(format!("{UNDOES}: {}\n", one_line(id))),
        Some(Reverses::Since(revision)) => lines.push(format!("{RESTORES}: {revision}\n")),
        None => {}
    }
    if let Some(id) = about.request_id.map(one_line).filter(|id| !id.is_empty()) {
        let id: String = id.chars().take(REQUEST_ID_CHARS_MAX).collect();
        lines.push(format!("{REQUEST_ID}: {}\n", id.trim()));
    }
    if let Some((key, fingerprint)) = &about.idempotency {
        lines.push(format!("{IDEMPOTENCY_KEY}: {}\n", one_line(key)));
        lines.push(format!("{FINGERPRINT}: {}\n", one_line(fingerprint)));
    }
    if about.by_hand.is_some() {
        lines.push(format!("{ORIGIN}: {WORK_TREE}\n"));
    } else if about.by_command {
        lines.push(format!("{ORIGIN}: {COMMAND}\n"));
    }
    lines.concat()
}

/// A text from outside as one line: control characters, line separators and what turns text around become blanks.
fn one_line(text: &str) -> String {
    let blank = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') || turns_text(c);
    let line: String = text.chars().map(|c| if blank(c) { ' ' } else { c }).collect();
    line.trim().to_owned()
}

/// Whether some tool of git's may take a line for more than text: a comment, the end of the
/// message, a note of `git cherry-pick`, a header or trailer, the start of a patch; or a person, for what the service
/// says of a commit that takes something back.
fn means_something(line: &str) -> bool {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    line.starts_with(['#', '-', '('])
        || word.contains(':')
        || rest.trim_start().starts_with(':')
        || matches!(word, "diff" | "From" | "Index" | UNDOES_EVENT)
        || line.starts_with(AS_IT_WAS)
}

#[cfg(test)]
mod tests;
