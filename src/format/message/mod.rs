//! Commit messages: a text for people, then trailers for machines.
//!
//! ```text
//! Update posts: name, recursive                 the subject, at most 72 characters if possible
//!
//! The old name confused everybody.              the reason, if the caller gave one: one line
//!
//! name: "Posts" -> "All posts"                  the changes: one paragraph, values as JSON
//! recursive: (none) -> true
//!
//! Collectory-Action: collection.updated         three trailers for each event
//! Collectory-Key: posts
//! Collectory-Event: 0197a6c2-6b0e-7c44-9d0e-0a4b6c1f2d3e
//! Request-Id: 7f1c
//! ```
//!
//! A created or deleted collection lists its attributes as `name: "Posts"`; a batch puts
//! `posts: updated` above the indented lines of each collection. A commit that contains a person's
//! saved edit has the subject `Edit posts by hand` (or `Create`, `Delete`) and the trailer
//! `Collectory-Origin: work-tree`. If the file is broken, no changes are listed, and the trailers say what
//! happened to the file. A commit by the command line has `Collectory-Origin: command`, and a merge by the
//! service `Collectory-Origin: merge` ([`compose_merge`]).
//!
//! # What a caller's text can't do
//!
//! Git finds trailers in the last paragraph, ends a message at a line `---`, drops lines that
//! begin with `#` when a message is edited, and takes `From:` at the top of a body for an author
//! when a commit is sent by mail. So a text from outside is always one line: control characters, line
//! separators and characters that reorder text become blanks. It is in the last paragraph only after a
//! trailer's name. A reason that may mean something to git, or look like a line of the service, is
//! indented by one blank, which [`parse()`] removes.

mod merge;
mod parse;

use std::fmt::Write as _;

use uuid::Uuid;

pub use crate::format::message::merge::{Conflict, MergedSide, compose_merge, conflicts, is_merge};
pub use crate::format::message::parse::{EventTrailers, Message, OriginTrailer, idempotency, parse};

use crate::domain::{Change, Event, Key, Reversal, Value, changes};
use crate::format::turns_text;

/// Maximum length of a subject, in characters, if the key leaves room.
pub const SUBJECT_CHARS_MAX: usize = 72;

/// Maximum length of a value in the body, in characters; longer ones end in `…`.
pub const VALUE_CHARS_MAX: usize = 100;

/// Maximum number of lines of changes in the body, before a line with the number of the others.
pub const LINES_MAX: usize = 200;

/// Maximum length of a request id, in characters; longer ones are cut.
pub const REQUEST_ID_CHARS_MAX: usize = 200;

/// Begins the line that names the event that is undone.
const UNDOES_EVENT: &str = "Undoes";

/// Begins the line that names the revision to which a collection is restored.
const AS_IT_WAS: &str = "As it was at";

/// Replaces the list of changes if there is a reason but no changed attribute, so that parsing can
/// distinguish the reason from the changes.
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

/// What a commit message contains besides its events.
#[derive(Debug, Clone, Default)]
pub struct MessageDetails<'a> {
    /// The reason in the caller's words; any text.
    pub reason: Option<&'a str>,
    /// The id of the request; any text.
    pub request_id: Option<&'a str>,
    /// The caller's idempotency key and a digest of the request: the trailers `Idempotency-Key` and
    /// `Collectory-Fingerprint`.
    pub idempotency: Option<(&'a str, String)>,
    /// The collection whose file a person saved, and what that did to the file, if the commit contains such an edit
    /// (`Collectory-Origin: work-tree`). A broken file has no event; then the trailers report the edit as an event
    /// with this id. The id is `None` if nothing happened to the collection, because another file of it counts.
    pub hand_edit: Option<(&'a Key, HandEditAction, Option<Uuid>)>,
    /// Whether the command line makes the commit (`Collectory-Origin: command`).
    pub by_command: bool,
    /// Collections that the commit deletes and whose files never were valid, so that no event can
    /// describe them; each with the id of its deletion.
    pub unreadable_deletions: &'a [(Uuid, Key)],
    /// What the commit reverses: a line of the body, and the trailer `Collectory-Undoes`, or the
    /// subject `Restore posts to 9fceb02` and the trailer `Collectory-Restores`.
    pub reverses: Option<&'a Reversal>,
}

/// What a person's saved edit did to the file of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandEditAction {
    /// There was no file before.
    Create,
    /// There was a file before and there is one now.
    Edit,
    /// The file was removed.
    Delete,
}

impl HandEditAction {
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

/// The action of a creation in the trailers.
pub const CREATED: &str = "collection.created";

/// The action of an update in the trailers.
pub const UPDATED: &str = "collection.updated";

/// The action of a deletion in the trailers.
pub const DELETED: &str = "collection.deleted";

/// The action of an event, as trailers and subscribers have it: `collection.updated`.
#[must_use]
pub const fn action(event: &Event) -> &'static str {
    match event {
        Event::Created(_) => CREATED,
        Event::Updated { .. } => UPDATED,
        Event::Deleted(_) => DELETED,
    }
}

/// Composes the message of a commit with these events.
///
/// The events are listed in the order of their keys. A hand edit of a broken file has no events;
/// then only [`MessageDetails::hand_edit`] names the collection.
#[must_use]
pub fn compose(events: &[(Uuid, &Event)], about: &MessageDetails<'_>) -> String {
    let mut events = events.to_vec();
    events.sort_by(|(_, one), (_, two)| one.key().cmp(two.key()));
    let mut message = subject(&events, about);
    message.push('\n');
    // Empty if only comments or the order differ.
    let mut changes = undone(about) + &body(&events);
    if let Some(reason) = about.reason.map(one_line).filter(|reason| !reason.is_empty()) {
        let indent = if means_something(&reason) { " " } else { "" };
        write!(message, "\n{indent}{reason}\n").expect("writing to a string");
        if changes.is_empty() {
            changes.push_str(NO_CHANGES);
        }
    }
    if !changes.is_empty() {
        message.push('\n');
        message.push_str(&changes);
    }
    message.push('\n');
    message.push_str(&trailers(&events, about));
    message
}

fn subject(events: &[(Uuid, &Event)], about: &MessageDetails<'_>) -> String {
    if let Some((key, what, _)) = about.hand_edit {
        return format!("{} {key} by hand", what.verb());
    }
    if let (Some(Reversal::Since(revision)), [(_, event)]) = (about.reverses, events) {
        return format!("Restore {} to {}", event.key(), &revision.to_string()[..7]);
    }
    match (events, about.unreadable_deletions) {
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

/// Appends as many names as a subject has room for, and the number of the others.
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

/// The line that says for people what is reversed. It begins the paragraph of the changes, which
/// therefore is never empty, so that parsing can distinguish it from the reason.
fn undone(about: &MessageDetails<'_>) -> String {
    match about.reverses {
        Some(Reversal::Event(id)) => format!("{UNDOES_EVENT} {}\n", one_line(id)),
        Some(Reversal::Since(revision)) => format!("{AS_IT_WAS} {revision}\n"),
        None => String::new(),
    }
}

/// The changes, one per line.
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

fn trailers(events: &[(Uuid, &Event)], about: &MessageDetails<'_>) -> String {
    let mut lines = Vec::new();
    let mut write_event = |id: &Uuid, action: &str, key: &Key| {
        lines.push(format!("{ACTION}: {action}\n{KEY}: {key}\n{EVENT}: {id}\n"));
    };
    events.iter().for_each(|(id, event)| write_event(id, action(event), event.key()));
    about.unreadable_deletions.iter().for_each(|(id, key)| write_event(id, DELETED, key));
    if let (Some((key, what, Some(id))), []) = (&about.hand_edit, events) {
        write_event(id, what.action(), key);
    }
    match about.reverses {
        Some(Reversal::Event(id)) => lines.push(format!("{UNDOES}: {}\n", one_line(id))),
        Some(Reversal::Since(revision)) => lines.push(format!("{RESTORES}: {revision}\n")),
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
    if about.hand_edit.is_some() {
        lines.push(format!("{ORIGIN}: {WORK_TREE}\n"));
    } else if about.by_command {
        lines.push(format!("{ORIGIN}: {COMMAND}\n"));
    }
    lines.concat()
}

/// A text from outside as one line: control characters, line separators and characters that reorder text become
/// blanks.
fn one_line(text: &str) -> String {
    let blank = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') || turns_text(c);
    let line: String = text.chars().map(|c| if blank(c) { ' ' } else { c }).collect();
    line.trim().to_owned()
}

/// Whether a line may be taken for more than text: by a tool of git, for a comment, the end of the message, a note
/// of `git cherry-pick`, a header, a trailer or the start of a patch; or by a person, for the line in which the
/// service says what a commit reverses.
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
