//! What an attribute may hold, and the words for what it holds instead.

use crate::domain::collection::attribute::NAME_BYTES_MAX;
use crate::domain::{Directory, MediaType, Segment, VALUE_DEPTH_MAX, Value, shown};

/// The most characters of a text attribute, the name among them.
pub const TEXT_CHARS_MAX: usize = 1000;

/// What an attribute may hold.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rule {
    Text,
    Directory,
    Boolean,
    Statuses,
    Accept,
    Anything,
}

impl Rule {
    /// Takes a value, in its canonical form.
    pub(crate) fn check(self, value: Value) -> Result<Value, Vec<Fault>> {
        match self {
            Self::Text => text(value).map_err(single),
            Self::Directory => directory(value).map_err(single),
            Self::Boolean => boolean(value).map_err(single),
            Self::Statuses => statuses(value),
            Self::Accept => accept(value),
            Self::Anything => anything(value).map_err(single),
        }
    }
}

/// A fault below an attribute: the steps down, and what is wrong there.
pub(crate) type Fault = (Vec<Segment>, String);

fn single(message: String) -> Vec<Fault> {
    vec![(Vec::new(), message)]
}

fn text(value: Value) -> Result<Value, String> {
    match &value {
        Value::Text(text) => {
            let chars = text.chars().count();
            if chars > TEXT_CHARS_MAX {
                return Err(format!(
                    "at most {TEXT_CHARS_MAX} characters are allowed, this text has {chars}"
                ));
            }
            Ok(value)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::List(_) | Value::Map(_) => {
            Err(expected("a string", &value))
        }
    }
}

pub(crate) fn directory(value: Value) -> Result<Value, String> {
    match &value {
        Value::Text(text) => Directory::parse(text).map(|directory| Value::from(String::from(directory))),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::List(_) | Value::Map(_) => {
            Err(expected("a string", &value))
        }
    }
}

fn boolean(value: Value) -> Result<Value, String> {
    match &value {
        Value::Bool(_) => Ok(value),
        Value::Null | Value::Number(_) | Value::Text(_) | Value::List(_) | Value::Map(_) => {
            Err(expected("`true` or `false`", &value))
        }
    }
}

fn anything(value: Value) -> Result<Value, String> {
    if value.depth() > VALUE_DEPTH_MAX {
        return Err(format!("lists and maps may be nested {VALUE_DEPTH_MAX} deep"));
    }
    Ok(value)
}

fn accept(value: Value) -> Result<Value, Vec<Fault>> {
    let items = match value {
        Value::List(items) => items,
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) | Value::Map(_)) => {
            return Err(single(expected("a list of media types", &other)));
        }
    };
    let mut faults = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let fault = match item.as_text() {
            Some(text) => MediaType::parse(text).err(),
            None => Some(expected("a string", item)),
        };
        faults.extend(fault.map(|message| (vec![Segment::Index(index)], message)));
    }
    if faults.is_empty() { Ok(Value::List(items)) } else { Err(faults) }
}

fn statuses(value: Value) -> Result<Value, Vec<Fault>> {
    let entries = match value {
        Value::Map(entries) => entries,
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) | Value::List(_)) => {
            return Err(single(expected("a map from status to `directory` and `name`", &other)));
        }
    };
    let mut faults = Vec::new();
    let mut checked = Vec::with_capacity(entries.len());
    for (status, entry) in entries {
        let step = Segment::Name(status.clone());
        if status.is_empty() || status.len() > NAME_BYTES_MAX || status.chars().any(char::is_control) {
            faults.push((
                vec![step],
                format!("a status has 1 to {NAME_BYTES_MAX} bytes and no control characters"),
            ));
            continue;
        }
        match status_entry(entry) {
            Ok(entry) => checked.push((status, entry)),
            Err(below) => faults.extend(
                below
                    .into_iter()
                    .map(|(steps, message)| (std::iter::once(step.clone()).chain(steps).collect(), message)),
            ),
        }
    }
    if faults.is_empty() { Ok(Value::Map(checked.into())) } else { Err(faults) }
}

fn status_entry(entry: Value) -> Result<Value, Vec<Fault>> {
    let members = match entry {
        Value::Map(members) => members,
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) | Value::List(_)) => {
            return Err(single(expected("a map with `directory` and `name`", &other)));
        }
    };
    let mut faults = Vec::new();
    let mut checked = Vec::with_capacity(members.len());
    let mut located = false;
    for (name, value) in members {
        let result = match name.as_str() {
            "directory" => {
                located = true;
                directory(value)
            }
            "name" => text(value),
            _ => Err("a status has only `directory` and `name`".into()),
        };
        match result {
            Ok(value) => checked.push((name, value)),
            Err(message) => faults.push((vec![Segment::Name(name)], message)),
        }
    }
    if !located {
        faults.push((Vec::new(), "a status needs a `directory`".into()));
    }
    if faults.is_empty() { Ok(Value::Map(checked.into())) } else { Err(faults) }
}

/// Says what was found and how to write what was meant.
fn expected(wanted: &str, found: &Value) -> String {
    let hint = match found {
        Value::Null => "; leave the attribute out to have none".to_owned(),
        Value::Number(number) if wanted == "a string" => format!("; write \"{number}\" in quotes"),
        Value::Bool(value) if wanted == "a string" => format!("; write \"{value}\" in quotes"),
        Value::Text(text) if wanted.contains("true") => match text.to_ascii_lowercase().as_str() {
            "yes" | "on" | "true" | "y" => "; write true without quotes".to_owned(),
            "no" | "off" | "false" | "n" => "; write false without quotes".to_owned(),
            _ => String::new(),
        },
        Value::Text(text) if wanted.contains("list") => format!("; write [{}]", Value::from(shown(text))),
        Value::Bool(_) | Value::Number(_) | Value::Text(_) | Value::List(_) | Value::Map(_) => String::new(),
    };
    let shown = match found {
        Value::Bool(_) | Value::Number(_) => format!("{} ({found})", found.described()),
        Value::Text(text) => format!("the string {}", Value::from(shown(text))),
        Value::Null | Value::List(_) | Value::Map(_) => found.described().to_owned(),
    };
    format!("expected {wanted}, found {shown}{hint}")
}
