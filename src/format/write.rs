//! Canonical writing of a collection, or of a single value, as lines of YAML.
//!
//! Lines end in `\n` here. No text is ever folded, so no scalar spans several lines.

use crate::domain::{Collection, Value};
use crate::format::scalar;
use crate::format::scalar::Style;

/// The indentation of each level.
const STEP: usize = 2;

/// Maximum length of a name before `: `, in characters; a little below the 1,024 of
/// [YAML 1.2.2, section 7.4.2](https://yaml.org/spec/1.2.2/#742-flow-mappings).
const SIMPLE_NAME_CHARS_MAX: usize = 1000;

/// Writes a new file.
pub(crate) fn write(collection: &Collection) -> String {
    let mut out = format!("type: {}\n", collection.kind());
    for (attribute, value) in collection.attributes() {
        entry(&mut out, 0, attribute.as_str(), value, Style::Plain);
    }
    out
}

/// Writes a map as a YAML document in the form of a collection file.
#[must_use]
pub fn document(members: &[(String, Value)]) -> String {
    let mut out = String::new();
    members.iter().for_each(|(name, value)| entry(&mut out, 0, name, value, Style::Plain));
    out
}

/// Writes a name and its value on lines of their own; the first line is not indented.
pub(crate) fn entry(out: &mut String, indent: usize, name: &str, value: &Value, style: Style) {
    let name = scalar::emit_text(name, Style::Plain, false);
    out.push_str(&colon(&name, indent));
    behind_colon(out, indent, value, style);
}

/// Writes what follows the colon of an entry.
pub(crate) fn behind_colon(out: &mut String, indent: usize, value: &Value, style: Style) {
    if is_nested(value) {
        out.push('\n');
        pad(out, indent + STEP);
        nested(out, indent + STEP, value);
    } else {
        out.push(' ');
        out.push_str(&leaf(value, style));
        out.push('\n');
    }
}

/// Writes a value that begins in this column of an existing line.
pub(crate) fn value(out: &mut String, column: usize, value: &Value) {
    if is_nested(value) {
        nested(out, column, value);
    } else {
        out.push_str(&leaf(value, Style::Plain));
    }
}

/// Writes an item of a list on lines of its own; the first line is not indented.
pub(crate) fn item(out: &mut String, indent: usize, value: &Value, style: Style) {
    out.push_str("- ");
    if is_nested(value) {
        nested(out, indent + STEP, value);
    } else {
        out.push_str(&leaf(value, style));
        out.push('\n');
    }
}

/// Writes a value in brackets and braces on one line.
pub(crate) fn flow(value: &Value, style: Style) -> String {
    match value {
        Value::List(items) => {
            let items: Vec<_> = items.iter().map(|item| flow(item, style)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Map(members) => {
            let members: Vec<_> =
                members.iter().map(|(name, value)| flow_entry(name, value, style)).collect();
            format!("{{{}}}", members.join(", "))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) => {
            scalar::emit_scalar(value, style, true)
        }
    }
}

/// Writes a name and its value as a member of a map in braces, both in the style of its neighbours, so that
/// JSON stays JSON.
pub(crate) fn flow_entry(name: &str, value: &Value, style: Style) -> String {
    let name = scalar::emit_text(name, style, true);
    let (mark, gap) = if is_long(&name) { ("? ", " ") } else { ("", "") };
    format!("{mark}{name}{gap}: {}", flow(value, style))
}

/// Whether a value takes lines of its own.
fn is_nested(value: &Value) -> bool {
    match value {
        Value::List(items) => !items.is_empty(),
        Value::Map(members) => !members.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) => false,
    }
}

fn nested(out: &mut String, indent: usize, value: &Value) {
    let mut first = true;
    let mut part = |out: &mut String| {
        if !std::mem::take(&mut first) {
            pad(out, indent);
        }
    };
    match value {
        Value::List(items) => {
            for value in items {
                part(out);
                item(out, indent, value, Style::Plain);
            }
        }
        Value::Map(members) => {
            for (name, value) in members {
                part(out);
                entry(out, indent, name, value, Style::Plain);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) => {}
    }
}

/// Writes a value that fits on one line: a scalar or an empty list or map.
fn leaf(value: &Value, style: Style) -> String {
    match value {
        Value::List(_) => "[]".to_owned(),
        Value::Map(_) => "{}".to_owned(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) => {
            scalar::emit_scalar(value, style, false)
        }
    }
}

/// A name with its colon; a very long one needs the `?` form.
fn colon(name: &str, indent: usize) -> String {
    if is_long(name) { format!("? {name}\n{:indent$}:", "") } else { format!("{name}:") }
}

fn is_long(name: &str) -> bool {
    name.chars().count() > SIMPLE_NAME_CHARS_MAX
}

fn pad(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}
