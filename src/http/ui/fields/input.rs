//! One attribute in the form: its input, its value and its rule.

use std::collections::HashSet;

use crate::domain::{Attribute, Value};
use crate::http::jsonapi::request;
use crate::http::ui::escape::is_invisible;
use crate::http::ui::form::PostedForm;
use crate::http::ui::words::pretty;

/// How deep the JSON of a field may nest. The rules allow less, but their error messages are better.
pub(super) const DEPTH_MAX: usize = 64;

/// One attribute in the form.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) meaning: &'static str,
    pub(crate) rule: &'static str,
    pub(super) is_directory: bool,
    pub(crate) input: FieldInput,
    pub(crate) errors: Vec<FieldError>,
    pub(crate) overlap: Option<Overlap>,
}

/// An error in what was typed.
#[derive(Debug, Clone)]
pub(crate) struct FieldError {
    /// The id of the input that it is about.
    pub(crate) at: String,
    pub(crate) text: String,
}

/// The input of a field, and what it contains.
#[derive(Debug, Clone)]
pub(crate) enum FieldInput {
    Line(String),
    Switch(Option<bool>),
    List(Vec<String>),
    Statuses(Vec<Status>),
    Json(String),
}

/// One row of `unpublishedStatuses`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) key: String,
    pub(crate) directory: String,
    pub(crate) name: String,
}

/// An attribute that two people have changed.
#[derive(Debug, Clone)]
pub(crate) struct Overlap {
    pub(crate) before: Option<String>,
    pub(crate) theirs: Option<String>,
    pub(crate) yours: Option<String>,
}

impl Field {
    pub(super) fn new(attribute: &Attribute, input: FieldInput) -> Self {
        Self {
            name: attribute.as_str().to_owned(),
            meaning: attribute.meaning(),
            rule: rule(attribute),
            is_directory: attribute.is_directory(),
            input,
            errors: Vec::new(),
            overlap: None,
        }
    }

    /// The id of the first input.
    pub(crate) fn own_id(&self) -> String {
        self.id("", 0)
    }

    /// The id of an input. In a field with rows, the input is a part of a row.
    pub(crate) fn id(&self, part: &str, row: usize) -> String {
        let name = &self.name;
        match part {
            "" | "key" if row == 0 => format!("f-{name}"),
            "" => format!("f-{name}-{row}"),
            _ => format!("f-{name}-{part}-{row}"),
        }
    }

    /// Reports whether the input with this id has an error.
    pub(crate) fn is_wrong(&self, id: &str) -> bool {
        self.errors.iter().any(|error| error.at == id)
    }

    /// Reports whether the field has one line with a directory, which can be copied.
    pub(crate) fn can_be_copied(&self) -> bool {
        self.is_directory && matches!(&self.input, FieldInput::Line(text) if !text.is_empty())
    }

    /// The ids of what describes an input: its rule, its error, and its overlap.
    pub(crate) fn described_by(&self, id: &str) -> String {
        let name = &self.name;
        let wrong = if self.is_wrong(id) { format!(" e-{name}") } else { String::new() };
        let in_question = self.overlap.is_some() && id == self.own_id();
        let question = if in_question { format!(" c-{name}") } else { String::new() };
        format!("h-{name}{wrong}{question}")
    }

    /// Adds an error about the value at this path below the attribute.
    pub(super) fn blame(&mut self, below: &[String], detail: &str) {
        let place = if below.is_empty() { String::new() } else { format!("{}: ", below.join(", ")) };
        self.errors.push(FieldError { at: self.input_at(below), text: format!("{place}{detail}") });
    }

    /// Returns the id of the input for the value at this path. For a missing member, this is the empty input.
    fn input_at(&self, below: &[String]) -> String {
        let at = match (&self.input, below) {
            (FieldInput::List(rows), [row, ..]) => {
                row.parse().ok().filter(|row| *row < rows.len()).map(|row| ("", row))
            }
            (FieldInput::Statuses(rows), [key, rest @ ..]) => {
                let row = rows.iter().position(|row| row.key == *key);
                row.map(|row| (rows[row].part(rest.first().map(String::as_str)), row))
            }
            _ => None,
        };
        let (part, row) = at.unwrap_or_default();
        self.id(part, row)
    }

    /// Returns the value of the field; `None` if it is empty.
    ///
    /// # Errors
    ///
    /// Fails if the field can't be parsed.
    pub(super) fn value(&self) -> Result<Option<Value>, FieldError> {
        let unreadable = |(row, text)| FieldError { at: self.id("key", row), text };
        Ok(match &self.input {
            FieldInput::Line(text) => (!text.is_empty()).then(|| Value::from(text.as_str())),
            FieldInput::Switch(on) => on.map(Value::Bool),
            FieldInput::List(rows) => {
                let items: Vec<Value> =
                    rows.iter().filter(|row| !row.is_empty()).map(|row| Value::from(row.as_str())).collect();
                (!items.is_empty()).then(|| Value::List(items.into()))
            }
            FieldInput::Statuses(rows) => statuses(rows).map_err(unreadable)?,
            FieldInput::Json(text) if text.trim().is_empty() => None,
            FieldInput::Json(text) => Some(json(text).map_err(|text| unreadable((0, text)))?),
        })
    }
}

impl Status {
    /// The parts of a row: name, label and content.
    pub(crate) fn parts(&self) -> [(&'static str, &'static str, &str); 3] {
        [
            ("key", "Status", &self.key),
            ("directory", "Directory", &self.directory),
            ("name", "Name", &self.name),
        ]
    }

    /// Returns the part of the row for a member of the entry. Without a member, this is the first empty part.
    fn part(&self, member: Option<&str>) -> &'static str {
        match member {
            Some("directory") => "directory",
            Some("name") => "name",
            None if self.key.is_empty() => "key",
            None if self.directory.is_empty() => "directory",
            None if self.name.is_empty() => "name",
            _ => "key",
        }
    }
}

/// Returns the value of these rows, or the row that is wrong and the reason.
fn statuses(rows: &[Status]) -> Result<Option<Value>, (usize, String)> {
    let (mut entries, mut known) = (Vec::new(), HashSet::new());
    for (row, status) in rows.iter().enumerate().filter(|(_, status)| **status != Status::default()) {
        let Status { key, directory, name } = status;
        if !known.insert(key.as_str()) {
            return Err((row, format!("There are two rows of the status `{key}`.")));
        }
        let members = [("directory", directory), ("name", name)];
        let members = members.into_iter().filter(|(_, text)| !text.is_empty());
        let members = members.map(|(name, text)| (name.to_owned(), Value::from(text.as_str())));
        entries.push((key.clone(), Value::Map(members.collect())));
    }
    Ok((!entries.is_empty()).then(|| Value::Map(entries.into())))
}

/// Formats a value as JSON, with escapes for invisible characters.
pub(super) fn json_text(value: &Value) -> String {
    escaped(&pretty(value))
}

/// Escapes invisible characters in JSON, which occur only in texts (RFC 8259 section 7).
pub(super) fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if is_invisible(c) {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        } else {
            out.push(c);
        }
    }
    out
}

fn json(text: &str) -> Result<Value, String> {
    request::parse(text.as_bytes(), DEPTH_MAX).map_err(|fault| fault.detail.replacen("The body", "This", 1))
}

/// Returns the plainest input that holds a value without loss.
pub(super) fn simplest_input(attribute: &Attribute, value: Option<&Value>) -> FieldInput {
    let plain = |text: &str| !text.is_empty() && !text.contains(|c: char| c == '\n' || is_invisible(c));
    // Blanks around these are trimmed as typing mistakes.
    let trimmed = |text: &str| plain(text) && text.trim() == text;
    match (sort(attribute), value) {
        (Sort::Line, None) => FieldInput::Line(String::new()),
        (Sort::Line, Some(Value::Text(text))) if plain(text) => FieldInput::Line(text.to_string()),
        (Sort::Switch, None) => FieldInput::Switch(None),
        (Sort::Switch, Some(Value::Bool(on))) => FieldInput::Switch(Some(*on)),
        (Sort::List, None) => FieldInput::List(with_empty_row([])),
        (Sort::List, Some(Value::List(items))) if !items.is_empty() => {
            let rows: Option<Vec<_>> = items
                .iter()
                .map(|item| item.as_text().filter(|text| trimmed(text)).map(str::to_owned))
                .collect();
            match rows {
                Some(rows) => FieldInput::List(with_empty_row(rows)),
                None => FieldInput::Json(json_text(&Value::List(items.clone()))),
            }
        }
        (Sort::Statuses, None) => FieldInput::Statuses(with_empty_row([])),
        (Sort::Statuses, Some(Value::Map(entries))) if !entries.is_empty() => {
            let text = |entry: &Value, name: &str| match entry.get(name) {
                None => Some(String::new()),
                Some(value) => value.as_text().filter(|text| plain(text)).map(str::to_owned),
            };
            let row = |(key, entry): &(String, Value)| {
                let (directory, name) = (text(entry, "directory")?, text(entry, "name")?);
                trimmed(key).then(|| Status { key: key.clone(), directory, name })
            };
            match entries.iter().map(row).collect::<Option<Vec<_>>>() {
                Some(rows) => FieldInput::Statuses(with_empty_row(rows)),
                None => FieldInput::Json(json_text(&Value::Map(entries.clone()))),
            }
        }
        (_, Some(value)) => FieldInput::Json(json_text(value)),
    }
}

/// Appends an empty row. The script adds more.
fn with_empty_row<T: Default>(rows: impl IntoIterator<Item = T>) -> Vec<T> {
    rows.into_iter().chain([T::default()]).collect()
}

/// Reads the field of an attribute from a submitted form.
pub(super) fn sent(attribute: &Attribute, posted: &PostedForm) -> Field {
    let name = attribute.as_str();
    if let Some(text) = posted.find(&format!("j.{name}")) {
        return Field::new(attribute, FieldInput::Json(text.to_owned()));
    }
    let text = posted.get(&format!("a.{name}"));
    let input = match sort(attribute) {
        Sort::Line => FieldInput::Line(text.to_owned()),
        Sort::Switch => FieldInput::Switch(match text {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }),
        Sort::List => {
            let prefix = format!("l.{name}.");
            let rows = posted.below(&prefix).map(|(_, row)| row.trim().to_owned());
            FieldInput::List(with_empty_row(rows.filter(|row| !row.is_empty())))
        }
        Sort::Statuses => {
            let rows = posted.below("s.key.").map(|(row, key)| Status {
                key: key.trim().to_owned(),
                directory: posted.get(&format!("s.directory.{row}")).to_owned(),
                name: posted.get(&format!("s.name.{row}")).to_owned(),
            });
            FieldInput::Statuses(with_empty_row(rows.filter(|row| *row != Status::default())))
        }
    };
    Field::new(attribute, input)
}

/// The kind of input for an attribute.
enum Sort {
    Line,
    Switch,
    List,
    Statuses,
}

const fn sort(attribute: &Attribute) -> Sort {
    match attribute {
        Attribute::Recursive => Sort::Switch,
        Attribute::Accept => Sort::List,
        Attribute::UnpublishedStatuses => Sort::Statuses,
        _ => Sort::Line,
    }
}

pub(super) const OWN_RULE: &str = "Any JSON value.";

/// The rule for the value of an attribute, shown with its field.
const fn rule(attribute: &Attribute) -> &'static str {
    match attribute {
        Attribute::Directory | Attribute::RevisionDirectory => {
            "A relative path with /, such as content/posts."
        }
        Attribute::Recursive => "Yes, no, or not said.",
        Attribute::UnpublishedStatuses => "Each has a status, a directory and a name.",
        Attribute::Accept => "Media types such as image/png or image/*, or extensions such as .pdf.",
        Attribute::Extension(_) => OWN_RULE,
        _ => "Text, at most 1,000 characters.",
    }
}
