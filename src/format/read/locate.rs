//! Positions of violations of the domain's rules in a file, and messages that fit what is written there.

use crate::domain::{ATTRIBUTES_MAX, Attribute, Kind, Segment, Shorthand, Value, Violation, excerpt};
use crate::format::lookalike::{first_line, missing_colon, suspect};
use crate::format::scalar::Style;
use crate::format::tree::{FaultAt, Node};
use crate::format::{scalar, tree};

/// Finds the position of a violation: at the name if the name is wrong, else at the value.
pub(crate) fn located(text: &str, root: &Node, kind: Kind, violation: &Violation) -> FaultAt {
    let (node, entry) = followed(root, &violation.path);
    if let Some(entry) = entry
        && is_wrong_name(kind, &violation.path)
    {
        return match suspected(&entry.key) {
            Some((at, message)) => FaultAt { at: entry.key.span.start + at, message },
            None => glued_name(entry)
                .unwrap_or_else(|| FaultAt { at: entry.key.span.start, message: violation.to_string() }),
        };
    }
    if let Some(found) = node.entries().iter().find_map(glued_name) {
        return found;
    }
    if let Some((at, message)) = commented(text, node) {
        return FaultAt { at, message: Violation { path: violation.path.clone(), message }.to_string() };
    }
    // Too many attributes are reported at the first one beyond the limit.
    let mut attributes = root.entries().iter().filter(|entry| entry.name() != "type");
    let surplus = violation.path.is_empty().then(|| attributes.nth(ATTRIBUTES_MAX)).flatten();
    let at = match (surplus, entry) {
        (Some(entry), _) => entry.key.span.start,
        (None, Some(entry)) => start_of(entry),
        (None, None) => empty_item(text, root, &violation.path).unwrap_or(node.span.start),
    };
    let (offset, message) = suspected(node)
        .or_else(|| dashed(violation, node).map(|message| (0, message)))
        .or_else(|| glued_text(violation, node))
        .unwrap_or_else(|| (0, as_written(&violation.message, node)));
    FaultAt { at: at + offset, message: Violation { path: violation.path.clone(), message }.to_string() }
}

/// Returns the last existing node on a path, and its entry if it is a value in a map.
fn followed<'t>(root: &'t Node, path: &[Segment]) -> (&'t Node, Option<&'t tree::MapEntry>) {
    let (mut node, mut entry) = (root, None);
    for segment in path {
        let next = match segment {
            Segment::Name(name) => node.entry(name).map(|entry| (&entry.value, Some(entry))),
            Segment::Index(index) => node.items().get(*index).map(|item| (item, None)),
        };
        let Some(next) = next else { break };
        (node, entry) = next;
    }
    (node, entry)
}

/// Finds the dash of an item that has nothing after it: the place where the parser puts such an item is at the end of
/// what comes before it.
fn empty_item(text: &str, root: &Node, path: &[Segment]) -> Option<usize> {
    let (Segment::Index(index), list) = path.split_last()? else { return None };
    let (list, _) = followed(root, list);
    let items = list.items().get(..=*index)?;
    if !items.last()?.span.is_empty() {
        return None;
    }
    let before = items.iter().rposition(|item| !item.span.is_empty());
    let (from, skipped) = before.map_or((list.span.start, *index), |at| (items[at].span.end, index - at - 1));
    let dashes = text[from..].split_inclusive('\n').scan(from, |at, line| {
        let start = *at + line.len() - line.trim_start().len();
        *at += line.len();
        Some(line.trim_start().starts_with('-').then_some(start))
    });
    dashes.flatten().nth(skipped)
}

/// Finds a likely typing error in an unquoted text: its offset and the message.
pub(crate) fn suspected(node: &Node) -> Option<(usize, String)> {
    let (text, _) = node.as_scalar().filter(|(_, style)| *style == Style::Plain)?;
    suspect(text)
}

/// Finds a value that its `#` turns into a comment, as in `name: #channel`: its position and the message. A comment
/// that was meant as one has a blank after the `#`.
pub(crate) fn commented(text: &str, node: &Node) -> Option<(usize, String)> {
    node.as_scalar().filter(|(value, style)| value.is_empty() && *style == Style::Plain)?;
    let mut at = node.span.start;
    for line in text.get(at..)?.split_inclusive('\n') {
        // After the colon of its name, or the dash of its item.
        let value = line.trim_start_matches([' ', ':', '-']);
        let sign = line[..line.len() - value.len()].trim_end();
        let value = value.trim_end();
        let is_text = value
            .strip_prefix('#')
            .is_some_and(|rest| !rest.is_empty() && !rest.starts_with([' ', '#', '\t']));
        if is_text && sign.ends_with([':', '-']) {
            let message = format!(
                "a text that begins with `#` needs quotes: {}; without them it is a comment",
                Value::from(excerpt(value))
            );
            return Some((at + line.find('#')?, message));
        }
        if !(value.is_empty() || value.starts_with('#')) {
            return None;
        }
        at += line.len();
    }
    None
}

/// The message for a text that was meant as a list but has no blank after its dash.
fn dashed(violation: &Violation, node: &Node) -> Option<String> {
    let (text, style) = node.as_scalar()?;
    let item = first_line(text).strip_prefix('-').filter(|_| style == Style::Plain)?;
    violation
        .message
        .starts_with("expected a list")
        .then(|| format!("write a blank after the dash: `- {}`", excerpt(item)))
}

/// The offset and message for a text that was meant as a map but has no blank after a colon.
fn glued_text(violation: &Violation, node: &Node) -> Option<(usize, String)> {
    let (text, style) = node.as_scalar()?;
    let is_map = style == Style::Plain && violation.message.starts_with("expected a map");
    is_map.then(|| missing_colon(first_line(text))).flatten()
}

/// The fault of `{name:value}`: without a blank after the colon, all of it is a name without a value.
fn glued_name(entry: &tree::MapEntry) -> Option<FaultAt> {
    let (text, style) = entry.key.as_scalar()?;
    let has_none = style == Style::Plain && entry.value.span.is_empty();
    let (at, message) = has_none.then(|| missing_colon(text)).flatten()?;
    Some(FaultAt { at: entry.key.span.start + at, message })
}

/// The start of an entry's value, or of its name if the value is missing or on lines of its own.
pub(crate) fn start_of(entry: &tree::MapEntry) -> usize {
    let value = &entry.value;
    let here = !value.span.is_empty() && value.layout() != Some(tree::Layout::Block);
    if here { value.span.start } else { entry.key.span.start }
}

/// Whether the last name of a path is not allowed there.
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

/// Quotes a number or a boolean as it is in the file, so that `1.10` does not become "1.1".
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
