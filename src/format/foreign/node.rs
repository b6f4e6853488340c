//! The nodes of another program's file.

use std::sync::Arc;

use crate::domain::{Number, Segment, Value};
use crate::format::Fault;

/// A position in a file: line, and column in characters, both from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// A value and its position; for an alias, the position of its anchor.
#[derive(Debug, Clone)]
pub struct ForeignNode {
    /// The position of its first character.
    pub at: Position,
    /// The content.
    pub content: ForeignContent,
}

/// The content of a node. Aliases share the nodes of their anchors.
#[derive(Debug, Clone)]
pub enum ForeignContent {
    /// A scalar without quotes.
    Plain(String),
    /// A text in quotes or in a block.
    Text(String),
    /// A list.
    List(Vec<Arc<ForeignNode>>),
    /// A map: distinct names and their values, in the order in which they were written.
    Map(Vec<(Arc<ForeignNode>, Arc<ForeignNode>)>),
}

impl Position {
    /// A fault at this place.
    #[must_use]
    pub fn fault(self, message: impl Into<String>) -> Fault {
        Fault { line: self.line, column: self.column, message: message.into() }
    }
}

impl ForeignNode {
    /// Reads JSON that is not YAML, for instance with names beyond 1,024 characters. Positions are not known.
    pub(super) fn of_json(text: &str) -> Option<Self> {
        text.trim_start().starts_with(['{', '[']).then(|| serde_json::from_str(text).ok()).flatten().map(json)
    }

    /// The value of a map's entry with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Self> {
        self.entries().find(|(entry, _)| entry.as_text() == Some(name)).map(|(_, value)| value)
    }

    /// The value of a map's entry with this name, unless it is null.
    #[must_use]
    pub fn get_non_null(&self, name: &str) -> Option<&Self> {
        self.get(name).filter(|value| !value.is_null())
    }

    /// The entries of a map.
    pub fn entries(&self) -> impl Iterator<Item = (&Self, &Self)> {
        let entries = match &self.content {
            ForeignContent::Map(entries) => &entries[..],
            ForeignContent::Plain(_) | ForeignContent::Text(_) | ForeignContent::List(_) => &[],
        };
        entries.iter().map(|(name, value)| (&**name, &**value))
    }

    /// The items of a list, if the node is one.
    #[must_use]
    pub fn items(&self) -> Option<&[Arc<Self>]> {
        match &self.content {
            ForeignContent::List(items) => Some(items),
            ForeignContent::Plain(_) | ForeignContent::Text(_) | ForeignContent::Map(_) => None,
        }
    }

    /// Whether the node is a map.
    #[must_use]
    pub const fn is_map(&self) -> bool {
        matches!(self.content, ForeignContent::Map(_))
    }

    /// The text of a scalar.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match &self.content {
            ForeignContent::Plain(text) | ForeignContent::Text(text) => Some(text),
            ForeignContent::List(_) | ForeignContent::Map(_) => None,
        }
    }

    /// Whether the value is null.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(&self.content, ForeignContent::Plain(text) if resolved(text) == Value::Null)
    }

    /// Whether the value is truthy in JavaScript.
    #[must_use]
    pub fn is_truthy(&self) -> bool {
        match &self.content {
            ForeignContent::Plain(text) => {
                !matches!(resolved(text), Value::Null | Value::Bool(false)) && text != "0"
            }
            ForeignContent::Text(text) => !text.is_empty(),
            ForeignContent::List(_) | ForeignContent::Map(_) => true,
        }
    }

    /// The value by the core schema of YAML 1.2; a number that JSON can't represent is a text.
    #[must_use]
    pub fn to_value(&self) -> Value {
        match &self.content {
            ForeignContent::Plain(text) => resolved(text),
            ForeignContent::Text(text) => Value::from(text.as_str()),
            ForeignContent::List(items) => Value::List(items.iter().map(|item| item.to_value()).collect()),
            ForeignContent::Map(entries) => Value::Map(
                entries
                    .iter()
                    .map(|(name, value)| (name.as_text().unwrap_or_default().to_owned(), value.to_value()))
                    .collect(),
            ),
        }
    }

    /// The position of the last existing node on a path.
    #[must_use]
    pub fn locate(&self, path: &[Segment]) -> Position {
        let mut node = self;
        for segment in path {
            let next = match segment {
                Segment::Name(name) => node.get(name),
                Segment::Index(index) => node.items().and_then(|items| items.get(*index)).map(|item| &**item),
            };
            let Some(next) = next else { break };
            node = next;
        }
        node.at
    }
}

fn json(value: serde_json::Value) -> ForeignNode {
    use serde_json::Value as Json;
    let content = match value {
        Json::String(text) => ForeignContent::Text(text),
        Json::Array(items) => ForeignContent::List(items.into_iter().map(json).map(Arc::new).collect()),
        Json::Object(members) => {
            let member = |(name, value)| (Arc::new(json(Json::String(name))), Arc::new(json(value)));
            ForeignContent::Map(members.into_iter().map(member).collect())
        }
        scalar @ (Json::Null | Json::Bool(_) | Json::Number(_)) => ForeignContent::Plain(scalar.to_string()),
    };
    ForeignNode { at: Position { line: 1, column: 1 }, content }
}

/// The value of an unquoted scalar ([YAML 1.2.2, section 10.3.2](https://yaml.org/spec/1.2.2/#1032-tag-resolution)).
fn resolved(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => number(text).map_or_else(|| Value::from(text), Value::Number),
    }
}

fn number(text: &str) -> Option<Number> {
    let radix = |prefix, radix| i64::from_str_radix(text.strip_prefix(prefix)?, radix).ok();
    let octal_or_hex = radix("0o", 8).or_else(|| radix("0x", 16)).filter(|number| *number >= 0);
    if let Some(number) = octal_or_hex {
        return Some(Number::Integer(number));
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_number = digits.trim_start_matches('.').starts_with(|c: char| c.is_ascii_digit())
        && digits.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte));
    if !is_number {
        return None;
    }
    let whole = text.strip_prefix('+').unwrap_or(text);
    let integer = whole.parse().map(Number::Integer).or_else(|_| whole.parse().map(Number::Unsigned)).ok();
    let float = || Number::parse_float(text).ok();
    integer.or_else(float)
}
