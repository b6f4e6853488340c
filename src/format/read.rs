//! Strict reading: bytes to a collection, or to the first fault by position.

use super::plain;
use super::scalar::{self, Style};
use super::tree::{self, Content, Found, Node};
use super::{FILE_BYTES_MAX, Fault};
use crate::domain::{ATTRIBUTES_MAX, Attribute, Collection, Key, Kind, Segment, Shorthand, Value, Violation};

/// How much of a wrong `type` a message repeats.
const TYPE_SHOWN_CHARS_MAX: usize = 40;

/// The byte order mark that some editors put at the start of a file.
pub(super) const BYTE_ORDER_MARK: &str = "\u{feff}";

/// Reads the file of a collection.
pub(super) fn read(key: &Key, bytes: &[u8]) -> Result<Collection, Fault> {
    if bytes.len() > FILE_BYTES_MAX {
        let message = format!("the file has more than the {FILE_BYTES_MAX} bytes that a collection may have");
        return Err(Fault { line: 1, column: 1, message });
    }
    let text = std::str::from_utf8(bytes).map_err(|error| not_utf8(bytes, error.valid_up_to()))?;
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    read_plain(key, text).map_or_else(|| read_text(key, text), Ok)
}

/// Reads a text that is plain and right; whatever is wrong with another one is told by
/// [`read_text`].
fn read_plain(key: &Key, text: &str) -> Option<Collection> {
    let attributes = plain::attributes(text)?;
    let (_, kind) = attributes.iter().find(|(name, _)| name == "type")?;
    let kind = Kind::parse(kind.as_text()?)?;
    Collection::new(key.clone(), kind, attributes).ok()
}

/// Reads a text of any length, without a byte order mark.
pub(super) fn read_text(key: &Key, text: &str) -> Result<Collection, Fault> {
    read_with_tree(key, text).map(|(collection, _)| collection)
}

/// The same with where everything stands.
pub(super) fn read_with_tree(key: &Key, text: &str) -> Result<(Collection, Node), Fault> {
    if let Some(found) = foreign(text) {
        return Err(fault(text, vec![found]));
    }
    let parsed = tree::parse(text);
    let mut reader = Reader { faults: parsed.faults, path: Vec::new() };
    let collection = match &parsed.root {
        Some(root) => reader.collection(key, root),
        None => {
            if reader.faults.is_empty() {
                reader.note(0, EMPTY);
            }
            None
        }
    };
    match collection.zip(parsed.root) {
        Some(read) if reader.faults.is_empty() => Ok(read),
        _ => Err(fault(text, reader.faults)),
    }
}

/// The attributes of a file as they are written there, shorthands and `type` included.
///
/// Only for text that reads without fault: what is wrong is not told.
pub(super) fn written(root: &Node) -> Vec<(String, Value)> {
    Reader { faults: Vec::new(), path: Vec::new() }.attributes(root)
}

/// The attributes of a text that the strict reader finds no fault with, their values aside.
#[cfg(test)]
pub(super) fn strictly_written(text: &str) -> Option<Vec<(String, Value)>> {
    let parsed = tree::parse(text);
    let root = parsed.root.filter(|root| root.layout() == Some(tree::Layout::Block))?;
    let mut reader = Reader { faults: parsed.faults, path: Vec::new() };
    let attributes = reader.attributes(&root);
    (reader.faults.is_empty() && foreign(text).is_none()).then_some(attributes)
}

const EMPTY: &str = "the file is empty; a collection needs at least `type: document` or `type: media`";

fn not_utf8(bytes: &[u8], at: usize) -> Fault {
    let text = std::str::from_utf8(&bytes[..at]).unwrap_or_default();
    let message = format!("the byte 0x{:02x} is not UTF-8; save the file as UTF-8", bytes[at]);
    fault(text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text), vec![Found { at: text.len(), message }])
}

/// The first character or line that may not stand in a file.
fn foreign(text: &str) -> Option<Found> {
    let directive = text.strip_prefix('%').map(|_| 0).or_else(|| text.find("\n%").map(|at| at + 1));
    let directive = directive
        .map(|at| Found { at, message: "directives (lines that begin with %) are not allowed".into() });
    let stray = text.char_indices().find(|&(at, c)| {
        (c == '\r' && !text[at + 1..].starts_with('\n')) || (c != '\r' && scalar::is_foreign(c))
    });
    let stray = stray.map(|(at, c)| {
        let message = match c {
            '\r' => "a line ends in LF or CR LF, not in CR alone".to_owned(),
            c => {
                let code = u32::from(c);
                format!("the character U+{code:04X} is not allowed as it is; write \"\\u{code:04x}\" in double quotes")
            }
        };
        Found { at, message }
    });
    directive.into_iter().chain(stray).min_by_key(|found| found.at)
}

/// Makes the fault of what was found: the first by position, and how many more there are.
fn fault(text: &str, mut found: Vec<Found>) -> Fault {
    found.sort_by_key(|it| it.at);
    found.dedup_by_key(|it| it.at);
    let more = found.len().saturating_sub(1);
    let first = found.into_iter().next().unwrap_or(Found { at: 0, message: EMPTY.into() });
    let before = text.get(..first.at).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let message = match more {
        0 => first.message,
        more => format!("{} (and {more} more)", first.message),
    };
    Fault {
        line: before.matches('\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
        message,
    }
}

/// What an attribute wants in place of a plain scalar that readers disagree on.
#[derive(Clone, Copy)]
enum Wanted {
    Text,
    Boolean,
    Anything,
}

/// Reads the attributes and notes what is wrong with them.
struct Reader {
    faults: Vec<Found>,
    /// The way to the value that is being read.
    path: Vec<Segment>,
}

impl Reader {
    fn note(&mut self, at: usize, message: impl Into<String>) {
        self.faults.push(Found { at, message: message.into() });
    }

    fn collection(&mut self, key: &Key, root: &Node) -> Option<Collection> {
        match &root.content {
            Content::Map(..) => {}
            Content::Scalar(text, Style::Plain) if text.is_empty() => {
                self.note(0, EMPTY);
                return None;
            }
            Content::Scalar(..) | Content::List(..) => {
                let found = if root.items().is_empty() { "a single value" } else { "a list" };
                self.note(
                    root.span.start,
                    format!("expected attributes such as `type: document`, found {found}"),
                );
                return None;
            }
        }
        let attributes = self.attributes(root);
        let kind = self.kind(root)?;
        match Collection::new(key.clone(), kind, attributes) {
            Ok(collection) => Some(collection),
            Err(violations) => {
                self.faults.extend(violations.into_iter().map(|violation| located(root, kind, violation)));
                None
            }
        }
    }

    fn kind(&mut self, root: &Node) -> Option<Kind> {
        let Some(entry) = root.entry("type") else {
            self.note(0, "`type` is missing; write `type: document` or `type: media`");
            return None;
        };
        let kind = entry.value.as_scalar().and_then(|(text, _)| Kind::parse(text));
        if kind.is_none() {
            let found = match entry.value.as_scalar() {
                Some((text, _)) if text.chars().count() <= TYPE_SHOWN_CHARS_MAX => format!("{text:?}"),
                Some(_) => "a long text".to_owned(),
                None => "a list or a map".to_owned(),
            };
            let message = format!("type: expected `document` or `media`, found {found}");
            self.note(start_of(entry), message);
        }
        kind
    }

    fn attributes(&mut self, root: &Node) -> Vec<(String, Value)> {
        let attributes = root.entries().iter().map(|entry| {
            let wanted = match entry.name() {
                "recursive" => Wanted::Boolean,
                name if name.starts_with("x-") => Wanted::Anything,
                _ => Wanted::Text,
            };
            self.member(entry, wanted)
        });
        attributes.collect()
    }

    fn member(&mut self, entry: &tree::Entry, wanted: Wanted) -> (String, Value) {
        let name = entry.name().to_owned();
        self.path.push(Segment::Name(name.clone()));
        if let Some((text, Style::Plain)) = entry.key.as_scalar() {
            match scalar::resolve(text) {
                Ok(Value::Text(_)) => {}
                Ok(value) => {
                    let message = format!(
                        "a name is a string, found {}; write {} in quotes",
                        value.described(),
                        Value::from(text)
                    );
                    self.fault(entry.key.span.start, message);
                }
                Err(ambiguous) => {
                    let message =
                        format!("`{text}` {}; write {} in quotes", ambiguous.what, Value::from(text));
                    self.fault(entry.key.span.start, message);
                }
            }
        }
        let value = self.value(&entry.value, wanted);
        self.path.pop();
        (name, value)
    }

    fn value(&mut self, node: &Node, wanted: Wanted) -> Value {
        match &node.content {
            Content::Scalar(text, Style::Plain) => self.plain(text, node.span.start, wanted),
            Content::Scalar(text, Style::Single | Style::Double | Style::Block) => Value::from(text.as_str()),
            Content::List(items, _) => {
                let items = items.iter().enumerate().map(|(index, item)| {
                    self.path.push(Segment::Index(index));
                    let value = self.value(item, wanted);
                    self.path.pop();
                    value
                });
                Value::List(items.collect())
            }
            Content::Map(entries, _) => {
                Value::Map(entries.iter().map(|entry| self.member(entry, wanted)).collect())
            }
        }
    }

    fn plain(&mut self, text: &str, at: usize, wanted: Wanted) -> Value {
        scalar::resolve(text).unwrap_or_else(|ambiguous| {
            let quoted = format!("{} in quotes", Value::from(text));
            let hint = match (wanted, ambiguous.instead) {
                (Wanted::Boolean, Some(instead)) => instead.to_owned(),
                (Wanted::Boolean, None) => "true or false".to_owned(),
                (Wanted::Anything, Some(instead)) => format!("{instead}, or {quoted}"),
                (Wanted::Anything, None) | (Wanted::Text, _) => quoted,
            };
            self.fault(at, format!("`{text}` {}; write {hint}", ambiguous.what));
            Value::from(text)
        })
    }

    /// Notes a fault of the value that is being read.
    fn fault(&mut self, at: usize, message: String) {
        let message = Violation { path: self.path.clone(), message }.to_string();
        self.note(at, message);
    }
}

/// Finds where a violation stands: at the name if that is what is wrong, else at the value.
fn located(root: &Node, kind: Kind, violation: Violation) -> Found {
    let mut at = root.span.start;
    let mut node = root;
    let mut entry = None;
    for segment in &violation.path {
        let next = match segment {
            Segment::Name(name) => {
                entry = node.entry(name);
                entry.map(|entry| &entry.value)
            }
            Segment::Index(index) => {
                entry = None;
                node.items().get(*index)
            }
        };
        let Some(next) = next else { break };
        node = next;
        at = entry.map_or(node.span.start, start_of);
    }
    // Of too many attributes the first one too many is shown.
    if violation.path.is_empty() {
        let mut attributes = root.entries().iter().filter(|entry| entry.name() != "type");
        at = attributes.nth(ATTRIBUTES_MAX).map_or(at, |entry| entry.key.span.start);
    }
    if let Some(entry) = entry
        && is_wrong_name(kind, &violation.path)
    {
        at = entry.key.span.start;
    }
    Found { at, message: as_written(&violation.to_string(), node) }
}

/// Where an entry's value begins; a value on lines of its own, or none, is shown at its name.
fn start_of(entry: &tree::Entry) -> usize {
    let value = &entry.value;
    let here = !value.span.is_empty() && value.layout() != Some(tree::Layout::Block);
    if here { value.span.start } else { entry.key.span.start }
}

/// Whether the last name on the way is one that can't stand there.
fn is_wrong_name(kind: Kind, path: &[Segment]) -> bool {
    match path {
        [Segment::Name(name)] => {
            let shorthand = kind == Kind::Document && Shorthand::parse(name).is_some();
            name != "type" && !shorthand && Attribute::parse(kind, name).is_none()
        }
        [_, _, Segment::Name(name)] => name != "directory" && name != "name",
        _ => false,
    }
}

/// Quotes a number or boolean as the file has it: `1.10` is not to become "1.1".
fn as_written(message: &str, node: &Node) -> String {
    match node.as_scalar() {
        Some((text, Style::Plain)) => match scalar::resolve(text) {
            Ok(value @ (Value::Number(_) | Value::Bool(_))) => {
                let shown = value.to_string();
                message
                    .replace(&format!("({shown})"), &format!("({text})"))
                    .replace(&format!("\"{shown}\""), &format!("\"{text}\""))
            }
            _ => message.to_owned(),
        },
        _ => message.to_owned(),
    }
}
