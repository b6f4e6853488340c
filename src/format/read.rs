//! Strict reading of a collection file: the result is a collection or a list of faults.

mod locate;

use std::collections::HashSet;

use crate::domain::{Collection, Key, Kind, Segment, Value, Violation, excerpt};
use crate::format::diagnose::Diagnosis;
use crate::format::line_column::{to_fault, to_faults};
use crate::format::read::locate::{commented, located, start_of, suspected};
use crate::format::scalar::{Ambiguous, Style};
use crate::format::tree::{FaultAt, Layout, MapEntry, Node, NodeContent, Parsed};
use crate::format::{FILE_BYTES_MAX, Fault, PROBLEMS_PER_FILE_MAX, diagnose, plain, scalar, tree};

/// The byte order mark that some editors put at the start of a file.
pub(crate) const BYTE_ORDER_MARK: &str = "\u{feff}";

/// Reads the file of a collection, strictly.
///
/// # Errors
///
/// Returns the first [`PROBLEMS_PER_FILE_MAX`] faults by position, at least one.
pub fn read(key: &Key, bytes: &[u8]) -> Result<Collection, Vec<Fault>> {
    if bytes.len() > FILE_BYTES_MAX {
        let message = format!("the file has more than the {FILE_BYTES_MAX} bytes that a collection may have");
        return Err(vec![Fault::at_start(message)]);
    }
    let text = utf8(bytes).map_err(|fault| vec![fault])?;
    read_plain(key, text).map_or_else(|| read_text(key, text), Ok)
}

/// Decodes a file as UTF-8 and skips its byte order mark; the fault is at the first invalid byte.
pub(crate) fn utf8(bytes: &[u8]) -> Result<&str, Fault> {
    // UTF-16 begins with a byte order mark, or has a zero beside the first letter.
    if let [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [0, _, ..] | [_, 0, ..] = bytes {
        return Err(Fault::at_start("the file is UTF-16; save it as UTF-8"));
    }
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK.as_bytes()).unwrap_or(bytes);
    std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        let text = std::str::from_utf8(&bytes[..at]).unwrap_or_default();
        let message = format!("the byte 0x{:02x} is not UTF-8; save the file as UTF-8", bytes[at]);
        to_fault(text, FaultAt { at, message })
    })
}

/// Returns what the file of a collection lacks by the rules for requests ([`Collection::missing_status_names`]),
/// with positions.
#[must_use]
pub fn missing_status_names(collection: &Collection, bytes: &[u8]) -> Vec<Fault> {
    let violations = collection.missing_status_names();
    if violations.is_empty() {
        return Vec::new();
    }
    let Some((text, root)) = text_and_tree(bytes) else { return Vec::new() };
    let found = violations.iter().map(|violation| located(text, &root, collection.kind(), violation));
    faults(to_faults(text, found.collect()))
}

fn text_and_tree(bytes: &[u8]) -> Option<(&str, Node)> {
    let text = utf8(bytes).ok()?;
    Some((text, tree::parse(text).root?))
}

/// Returns the names in a file's outermost map with their lines, from 1; none if it is not YAML.
#[must_use]
pub fn attribute_lines(bytes: &[u8]) -> Vec<(String, usize)> {
    let Some((text, root)) = text_and_tree(bytes) else { return Vec::new() };
    let line = |at: usize| text[..at].matches('\n').count() + 1;
    root.entries().iter().map(|entry| (entry.name().to_owned(), line(entry.start))).collect()
}

/// Reads a text that is plain and valid; [`read_text`] reads any other one and reports its faults.
fn read_plain(key: &Key, text: &str) -> Option<Collection> {
    let attributes = plain::attributes(text)?;
    let (_, kind) = attributes.iter().find(|(name, _)| name == "type")?;
    let kind = Kind::parse(kind.as_text()?)?;
    Collection::from_file(key.clone(), kind, attributes).ok()
}

/// Reads a text of any length, without a byte order mark.
pub(crate) fn read_text(key: &Key, text: &str) -> Result<Collection, Vec<Fault>> {
    read_with_tree(key, text).map(|(collection, _)| collection)
}

/// Reads a text of any length, without a byte order mark; returns its tree of nodes too.
pub(crate) fn read_with_tree(key: &Key, text: &str) -> Result<(Collection, Node), Vec<Fault>> {
    let diagnosis = diagnose::read(text);
    let mut reader = Reader { faults: Vec::new(), path: Vec::new() };
    let collection =
        diagnosis.parsed.root.as_ref().and_then(|root| reader.collection(key, &diagnosis.text, root));
    let is_empty = diagnosis.parsed.root.is_none() && diagnosis.parsed.faults.is_empty();
    if is_empty && diagnosis.places.is_empty() {
        reader.note(0, EMPTY);
    }
    if has_lost_type(&diagnosis, text) {
        reader.faults.retain(|found| found.message != TYPE_MISSING);
    }
    let (wrong, root) = wrong(diagnosis, reader.faults);
    match collection.zip(root) {
        Some(read) if wrong.is_empty() => Ok(read),
        _ => Err(faults(wrong)),
    }
}

/// Whether the type may be in an unreadable line, or under a name with wrong quotes or odd blanks.
fn has_lost_type(diagnosis: &Diagnosis, text: &str) -> bool {
    let is_suspect = |entry: &MapEntry| entry.name().contains("type") && suspected(&entry.key).is_some();
    (1..).zip(text.lines()).any(|(line, text)| text.contains("type") && diagnosis.is_replaced(line))
        || diagnosis.parsed.root.iter().flat_map(Node::entries).any(is_suspect)
}

/// Collects the faults of unreadable lines, of the form, and of the attributes; returns the root too.
fn wrong(diagnosis: Diagnosis, attributes: Vec<FaultAt>) -> (Vec<Fault>, Option<Node>) {
    let Diagnosis { text, parsed: Parsed { root, faults: form, .. }, .. } = &diagnosis;
    let is_block = root.as_ref().is_none_or(|root| root.layout() == Some(Layout::Block));
    let form = to_faults(text, form.clone());
    // If the form of a line is wrong, faults of the attribute in it are not reported.
    let reported_lines: HashSet<usize> = form.iter().filter(|_| is_block).map(|it| it.line).collect();
    let attributes = to_faults(text, attributes).into_iter().filter(|it| !reported_lines.contains(&it.line));
    let readable = attributes.chain(form).filter(|it| !diagnosis.is_replaced(it.line));
    let mut wrong: Vec<Fault> = readable.collect();
    wrong.extend(diagnosis.places);
    (wrong, diagnosis.parsed.root)
}

/// Returns the attributes as they are written in a file, including shorthands and `type`.
///
/// Only for a text without faults, because faults are not reported.
pub(crate) fn written_attributes(root: &Node) -> Vec<(String, Value)> {
    Reader { faults: Vec::new(), path: Vec::new() }.attributes(root)
}

/// Returns the attributes of a text in which the strict reader finds no fault before it checks values.
#[cfg(test)]
pub(crate) fn strictly_written(text: &str) -> Option<Vec<(String, Value)>> {
    let parsed = tree::parse(text);
    let root = parsed.root.filter(|root| root.layout() == Some(Layout::Block))?;
    let mut reader = Reader { faults: parsed.faults, path: Vec::new() };
    let attributes = reader.attributes(&root);
    let is_right = reader.faults.is_empty() && diagnose::read(text).places.is_empty();
    is_right.then_some(attributes)
}

/// Returns the first entry of each name. The tree builder reports the others as duplicates.
fn distinct(entries: &[MapEntry]) -> impl Iterator<Item = &MapEntry> {
    let mut names = HashSet::new();
    entries.iter().filter(move |entry| names.insert(entry.name()))
}

const TYPE_MISSING: &str = "`type` is missing; write `type: document` or `type: media`";

const EMPTY: &str = "the file is empty; a collection needs at least `type: document` or `type: media`";

/// The message for an invalid `type`.
fn unknown_type(value: &Node) -> String {
    let found = match value.as_scalar() {
        Some((text, _)) => format!("{:?}", excerpt(text)),
        None => "a list or a map".to_owned(),
    };
    let message = suspected(value).map(|(_, message)| message);
    format!("type: {}", message.unwrap_or_else(|| format!("expected `document` or `media`, found {found}")))
}

/// Returns the first faults by position, one for each position. A missing type has no position.
fn faults(mut places: Vec<Fault>) -> Vec<Fault> {
    places.sort_by_key(|it| (it.line, it.column));
    let has_place = |it: &Fault| it.message != TYPE_MISSING;
    places.dedup_by(|one, two| {
        (one.line, one.column) == (two.line, two.column) && has_place(one) && has_place(two)
    });
    places.truncate(PROBLEMS_PER_FILE_MAX);
    places
}

/// What an attribute expects instead of a plain scalar on which readers disagree.
#[derive(Clone, Copy)]
enum Wanted {
    Text,
    Boolean,
    Anything,
}

/// Reads the attributes and records their faults.
struct Reader {
    faults: Vec<FaultAt>,
    /// The path to the value that is being read.
    path: Vec<Segment>,
}

impl Reader {
    fn note(&mut self, at: usize, message: impl Into<String>) {
        self.faults.push(FaultAt { at, message: message.into() });
    }

    fn collection(&mut self, key: &Key, text: &str, root: &Node) -> Option<Collection> {
        match &root.content {
            NodeContent::Map(..) => {}
            NodeContent::Scalar(text, Style::Plain) if text.is_empty() => {
                self.note(0, EMPTY);
                return None;
            }
            NodeContent::Scalar(..) | NodeContent::List(..) => {
                let found = if root.items().is_empty() { "a single value" } else { "a list" };
                self.note(
                    root.span.start,
                    format!("expected attributes such as `type: document`, found {found}"),
                );
                return None;
            }
        }
        let attributes = self.attributes(root);
        let kind = self.kind(text, root);
        let made = |kind| Collection::from_file(key.clone(), kind, attributes.iter().cloned());
        let (kind, made) = match kind {
            Some(kind) => (kind, made(kind)),
            // Without a valid type, report violations for the kind with the fewest of them.
            None => Kind::ALL
                .map(|kind| (kind, made(kind)))
                .into_iter()
                .min_by_key(|(_, made)| made.as_ref().err().map_or(0, Vec::len))
                .expect("there are two"),
        };
        let violations = made.as_ref().err().into_iter().flatten();
        let is_type = |violation: &&Violation| violation.path == [Segment::Name("type".to_owned())];
        self.faults.extend(violations.filter(|it| !is_type(it)).map(|it| located(text, root, kind, it)));
        made.ok()
    }

    fn kind(&mut self, text: &str, root: &Node) -> Option<Kind> {
        let Some(entry) = root.entry("type") else {
            self.note(0, TYPE_MISSING);
            return None;
        };
        let kind = entry.value.as_scalar().and_then(|(text, _)| Kind::parse(text));
        if kind.is_none() {
            match commented(text, &entry.value) {
                Some((at, message)) => self.note(at, format!("type: {message}")),
                None => self.note(start_of(entry), unknown_type(&entry.value)),
            }
        }
        kind
    }

    fn attributes(&mut self, root: &Node) -> Vec<(String, Value)> {
        let attributes = distinct(root.entries()).map(|entry| {
            let wanted = match entry.name() {
                "recursive" => Wanted::Boolean,
                name if name.starts_with("x-") => Wanted::Anything,
                _ => Wanted::Text,
            };
            self.member(entry, wanted)
        });
        attributes.collect()
    }

    fn member(&mut self, entry: &MapEntry, wanted: Wanted) -> (String, Value) {
        let name = entry.name().to_owned();
        self.path.push(Segment::Name(name.clone()));
        self.check_name(&entry.key);
        let value = self.value(&entry.value, wanted);
        self.path.pop();
        (name, value)
    }

    /// Records a fault if a name is not a string to every reader.
    fn check_name(&mut self, name: &Node) {
        let Some((text, Style::Plain)) = name.as_scalar() else { return };
        let (at, quoted) = (name.span.start, Value::from(excerpt(text)));
        match scalar::resolve(text) {
            Ok(Value::Text(_)) => {}
            Ok(_) if text.is_empty() => {
                self.note(at, "there is no name before this colon; write `name: value`");
            }
            Ok(value) => {
                let found = value.describe_type();
                self.fault(at, format!("a name is a string, found {found}; write {quoted} in quotes"));
            }
            Err(Ambiguous { what, .. }) => {
                self.fault(at, format!("`{}` {what}; write {quoted} in quotes", excerpt(text)));
            }
        }
    }

    fn value(&mut self, node: &Node, wanted: Wanted) -> Value {
        match &node.content {
            NodeContent::Scalar(text, Style::Plain) => self.plain(text, node.span.start, wanted),
            NodeContent::Scalar(text, Style::Single | Style::Double | Style::Block) => {
                Value::from(text.as_str())
            }
            NodeContent::List(items, _) => {
                let items = items.iter().enumerate().map(|(index, item)| {
                    self.path.push(Segment::Index(index));
                    let value = self.value(item, wanted);
                    self.path.pop();
                    value
                });
                Value::List(items.collect())
            }
            NodeContent::Map(entries, _) => {
                Value::Map(distinct(entries).map(|entry| self.member(entry, wanted)).collect())
            }
        }
    }

    fn plain(&mut self, text: &str, at: usize, wanted: Wanted) -> Value {
        scalar::resolve(text).unwrap_or_else(|ambiguous| {
            let quoted = format!("{} in quotes", Value::from(excerpt(text)));
            let hint = match (wanted, ambiguous.instead) {
                (Wanted::Boolean, Some(instead)) => instead.to_owned(),
                (Wanted::Boolean, None) => "true or false".to_owned(),
                (Wanted::Anything, Some(instead)) => format!("{instead}, or {quoted}"),
                (Wanted::Anything, None) | (Wanted::Text, _) => quoted,
            };
            self.fault(at, format!("`{}` {}; write {hint}", excerpt(text), ambiguous.what));
            Value::from(text)
        })
    }

    /// Records a fault of the value that is being read.
    fn fault(&mut self, at: usize, message: String) {
        let message = Violation { path: self.path.clone(), message }.to_string();
        self.note(at, message);
    }
}
