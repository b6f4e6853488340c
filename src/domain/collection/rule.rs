//! The rules for attribute values, and the messages for values that break them.

use crate::domain::{Directory, MediaType, Segment, VALUE_DEPTH_MAX, Value, Violation, excerpt};

/// Maximum length of the name of an `x-` attribute or a status, in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 128;

/// Maximum length of a text attribute or a status's name, in characters.
pub const TEXT_CHARS_MAX: usize = 1000;

/// The rule for the value of an attribute.
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
    /// Checks a value and returns its canonical form. The paths of violations begin below the attribute.
    pub(crate) fn check(self, value: Value) -> Result<Value, Vec<Violation>> {
        let is_null = value == Value::Null;
        let checked = match self {
            Self::Text => text(value).map_err(single),
            Self::Directory => directory(value).map_err(single),
            Self::Boolean => boolean(value).map_err(single),
            Self::Statuses => statuses(value),
            Self::Accept => accept(value),
            Self::Anything => anything(value).map_err(single),
        };
        checked.map_err(|mut faults| {
            if is_null && let Some(fault) = faults.first_mut() {
                fault.message.push_str("; leave the attribute out to have none");
            }
            faults
        })
    }
}

fn single(message: String) -> Vec<Violation> {
    vec![Violation { path: Vec::new(), message }]
}

fn string(value: &Value) -> Result<&str, String> {
    value.as_text().ok_or_else(|| {
        let is_plain = matches!(value, Value::Bool(_) | Value::Number(_));
        let hint = if is_plain { format!("; write \"{value}\" in quotes") } else { String::new() };
        expected("a string", value) + &hint
    })
}

fn text(value: Value) -> Result<Value, String> {
    let chars = string(&value)?.chars().count();
    if chars > TEXT_CHARS_MAX {
        return Err(format!("at most {TEXT_CHARS_MAX} characters are allowed, this text has {chars}"));
    }
    Ok(value)
}

pub(crate) fn directory(value: Value) -> Result<Value, String> {
    Directory::parse(string(&value)?).map(|directory| Value::from(String::from(directory)))
}

fn boolean(value: Value) -> Result<Value, String> {
    if matches!(value, Value::Bool(_)) {
        return Ok(value);
    }
    let hint = match value.as_text().map(str::to_ascii_lowercase).as_deref() {
        Some("yes" | "on" | "true" | "y") => "; write true without quotes",
        Some("no" | "off" | "false" | "n") => "; write false without quotes",
        _ => "",
    };
    Err(expected("`true` or `false`", &value) + hint)
}

fn anything(value: Value) -> Result<Value, String> {
    if value.depth() > VALUE_DEPTH_MAX {
        return Err(format!("lists and maps may be nested {VALUE_DEPTH_MAX} deep"));
    }
    Ok(value)
}

fn accept(value: Value) -> Result<Value, Vec<Violation>> {
    let Value::List(items) = value else {
        let as_list = |text| excerpt(text).split(',').map(|item| Value::from(item.trim())).collect();
        let hint = value.as_text().map(|text| format!("; write {}", Value::List(as_list(text))));
        return Err(single(expected("a list of media types", &value) + &hint.unwrap_or_default()));
    };
    let mut faults = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let fault = if *item == Value::Null {
            Some("this item is empty; write a media type, or remove it".to_owned())
        } else {
            string(item).and_then(MediaType::parse).err()
        };
        faults.extend(fault.map(|message| Violation { path: vec![Segment::Index(index)], message }));
    }
    if faults.is_empty() { Ok(Value::List(items)) } else { Err(faults) }
}

fn statuses(value: Value) -> Result<Value, Vec<Violation>> {
    let Value::Map(entries) = value else {
        return Err(single(expected("a map from status to `directory` and `name`", &value)));
    };
    let mut faults = Vec::new();
    let mut checked = Vec::with_capacity(entries.len());
    for (status, entry) in entries {
        if status.is_empty() || status.len() > NAME_BYTES_MAX || status.chars().any(char::is_control) {
            let message = format!("a status has 1 to {NAME_BYTES_MAX} bytes and no control characters");
            faults.push(Violation::at(&status, message));
            continue;
        }
        match status_entry(entry) {
            Ok(entry) => checked.push((status, entry)),
            Err(below) => faults.extend(below.into_iter().map(|fault| fault.within(&status))),
        }
    }
    if faults.is_empty() { Ok(Value::Map(checked.into())) } else { Err(faults) }
}

fn status_entry(entry: Value) -> Result<Value, Vec<Violation>> {
    let Value::Map(members) = entry else {
        return Err(single(expected("a map with `directory` and `name`", &entry)));
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
            Err(message) => faults.push(Violation::at(&name, message)),
        }
    }
    if !located {
        faults.extend(single("a status needs a `directory`".into()));
    }
    if faults.is_empty() { Ok(Value::Map(checked.into())) } else { Err(faults) }
}

/// Returns a message that says what was expected and what was found.
fn expected(wanted: &str, found: &Value) -> String {
    let shown = match found {
        Value::Bool(_) | Value::Number(_) => format!("{} ({found})", found.describe_type()),
        Value::Text(text) => format!("the string {}", Value::from(excerpt(text))),
        Value::Null | Value::List(_) | Value::Map(_) => found.describe_type().to_owned(),
    };
    format!("expected {wanted}, found {shown}")
}
