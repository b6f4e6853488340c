//! Formats values, times and differences for the templates.

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use similar::{ChangeTag, TextDiff};

use crate::domain::{Value, to_the_second};

/// How long a page may search for differences in its texts. After that, the rest is shown unmarked.
const DIFFERENCES_WAIT_MAX: Duration = Duration::from_millis(20);

/// Maximum bytes of differences on a page. The page says that the rest is left out.
pub(crate) const SHOWN_BYTES_MAX: usize = 1_024 * 1_024;

/// Longer values are folded.
pub(crate) const FOLD_BYTES_MIN: usize = 400;

/// A time, exact for machines and readable for people. The script shows it in the reader's time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShownTime(pub(crate) DateTime<Utc>);

impl ShownTime {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        DateTime::parse_from_rfc3339(text).ok().map(|time| Self(time.with_timezone(&Utc)))
    }

    pub(crate) fn iso(&self) -> String {
        to_the_second(self.0)
    }

    pub(crate) fn shown(&self) -> String {
        self.0.format("%-d %b %Y, %H:%M UTC").to_string()
    }

    pub(crate) fn day(&self) -> String {
        self.0.format("%A, %-d %B %Y").to_string()
    }
}

/// Formats a value for people: a text as it is, anything else as JSON on several lines.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::Text(text) if text.is_empty() => "\"\"".to_owned(),
        Value::Text(text) => text.to_string(),
        other => pretty(other),
    }
}

/// JSON with a line for each member, as `x-` attributes are edited.
pub(crate) fn pretty(value: &Value) -> String {
    let mut out = String::new();
    write_pretty(value, 0, &mut out);
    out
}

fn write_pretty(value: &Value, depth: usize, out: &mut String) {
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.push_str(&"  ".repeat(depth));
    };
    match value {
        Value::List(items) if !items.is_empty() => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { "," });
                line(out, depth + 1);
                write_pretty(item, depth + 1, out);
            }
            line(out, depth);
            out.push(']');
        }
        Value::Map(members) if !members.is_empty() => {
            out.push('{');
            for (at, (name, member)) in members.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { "," });
                line(out, depth + 1);
                out.push_str(&Value::from(name.as_str()).to_string());
                out.push_str(": ");
                write_pretty(member, depth + 1, out);
            }
            line(out, depth);
            out.push('}');
        }
        other => out.push_str(&other.to_string()),
    }
}

/// A piece of a text, and whether the other text lacks it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) text: String,
    pub(crate) differs: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChangeSide {
    pub(crate) pieces: Vec<Piece>,
    /// Whether it is long enough to be folded.
    pub(crate) folds: bool,
}

/// An attribute before and after, compared word by word.
#[derive(Debug, Clone)]
pub(crate) struct ChangeView {
    pub(crate) attribute: String,
    pub(crate) from: Option<ChangeSide>,
    pub(crate) to: Option<ChangeSide>,
    /// Whether the two sides exceed the budget of the page.
    pub(crate) is_left_out: bool,
}

/// The differences that a page can still show.
#[derive(Debug)]
pub(crate) struct DiffBudget {
    bytes: usize,
    until: Instant,
}

impl DiffBudget {
    pub(crate) fn of_page() -> Self {
        Self { bytes: SHOWN_BYTES_MAX, until: Instant::now() + DIFFERENCES_WAIT_MAX }
    }

    /// Takes this many bytes. If fewer are left, uses them up and returns `false`.
    fn take(&mut self, bytes: usize) -> bool {
        let left = self.bytes.checked_sub(bytes);
        self.bytes = left.unwrap_or(0);
        left.is_some()
    }
}

impl ChangeView {
    fn new(attribute: &str, from: Option<&Value>, to: Option<&Value>, budget: &mut DiffBudget) -> Self {
        let (from, to) = (from.map(shown), to.map(shown));
        let is_left_out = !budget.take(from.iter().chain(&to).map(String::len).sum());
        let (from, to) = match (from, to) {
            _ if is_left_out => (None, None),
            (Some(from), Some(to)) if Instant::now() < budget.until => {
                let (from, to) = word_by_word(&from, &to, budget.until);
                (Some(from), Some(to))
            }
            (from, to) => (from.map(unsplit), to.map(unsplit)),
        };
        Self { attribute: attribute.to_owned(), from, to, is_left_out }
    }

    /// The changes in the attributes of a resource.
    pub(crate) fn list(attributes: &Value, budget: &mut DiffBudget) -> Vec<Self> {
        let change = |it: &Value| Self::new(text(it, "attribute"), it.get("from"), it.get("to"), budget);
        items(attributes, "changes").iter().map(change).collect()
    }
}

fn unsplit(text: String) -> ChangeSide {
    let folds = text.len() > FOLD_BYTES_MIN;
    ChangeSide { pieces: vec![Piece { text, differs: false }], folds }
}

/// Both sides of a changed text, with the differences marked.
fn word_by_word(from: &str, to: &str, until: Instant) -> (ChangeSide, ChangeSide) {
    let difference = TextDiff::configure().deadline(until).diff_words(from, to);
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for change in difference.iter_all_changes() {
        let (text, differs) = (change.value(), change.tag() != ChangeTag::Equal);
        if change.tag() != ChangeTag::Insert {
            push(&mut before, text, differs);
        }
        if change.tag() != ChangeTag::Delete {
            push(&mut after, text, differs);
        }
    }
    let side = |pieces, text: &str| ChangeSide { pieces, folds: text.len() > FOLD_BYTES_MIN };
    (side(before, from), side(after, to))
}

fn push(pieces: &mut Vec<Piece>, text: &str, differs: bool) {
    match pieces.last_mut().filter(|last| last.differs == differs) {
        Some(last) => last.text.push_str(text),
        None => pieces.push(Piece { text: text.to_owned(), differs }),
    }
}

/// A line of a unified diff.
#[derive(Debug, Clone)]
pub(crate) struct DiffLine {
    /// `add`, `del`, `hunk`, `file` or nothing.
    pub(crate) kind: &'static str,
    pub(crate) text: String,
}

/// Splits a unified diff into lines with their kinds.
pub(crate) fn diff_lines(text: &str) -> Vec<DiffLine> {
    let kind = |line: &str| match line.as_bytes() {
        [b'+', b'+', b'+', b' ', ..] | [b'-', b'-', b'-', b' ', ..] | [b'd', b'i', b'f', b'f', ..] => "file",
        [b'@', b'@', ..] => "hunk",
        [b'+', ..] => "add",
        [b'-', ..] => "del",
        _ => "",
    };
    text.lines().map(|line| DiffLine { kind: kind(line), text: line.to_owned() }).collect()
}

/// A member; `null` if there is none.
pub(crate) fn member<'a>(value: &'a Value, name: &str) -> &'a Value {
    value.get(name).unwrap_or(&Value::Null)
}

/// The text of a member; empty if there is none.
pub(crate) fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    member(value, name).as_text().unwrap_or_default()
}

/// The items of a member; none if it is not a list.
pub(crate) fn items<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    match member(value, name) {
        Value::List(items) => items,
        _ => &[],
    }
}

/// A member that is a whole number; 0 if there is none.
pub(crate) fn number(value: &Value, name: &str) -> usize {
    member(value, name).to_string().parse().unwrap_or(0)
}

/// The first digits of a revision, as git shows them.
pub(crate) fn short(revision: &str) -> &str {
    revision.get(..8).unwrap_or(revision)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_word_by_word() {
        let (one, two) = (Value::from("All posts here"), Value::from("All notes here"));
        let change = ChangeView::new("name", Some(&one), Some(&two), &mut DiffBudget::of_page());
        let marked = |side: Option<ChangeSide>| -> String {
            let pieces = side.unwrap().pieces;
            pieces
                .iter()
                .map(|it| if it.differs { format!("[{}]", it.text) } else { it.text.clone() })
                .collect()
        };
        assert_eq!(marked(change.from), "All [posts] here");
        assert_eq!(marked(change.to), "All [notes] here");
    }

    #[test]
    fn what_a_page_shows_of_what_differs_is_bounded_as_a_whole() {
        let (one, two) = (Value::from("a ".repeat(600).as_str()), Value::from("b ".repeat(600).as_str()));
        let mut budget = DiffBudget { bytes: 3_000, until: Instant::now() };
        let change = |budget: &mut DiffBudget| ChangeView::new("x-a", Some(&one), Some(&two), budget);
        let late = change(&mut budget).from.unwrap();
        assert_eq!(late.pieces.len(), 1, "nobody looks for what differs any more");
        let beyond = change(&mut budget);
        assert!(beyond.is_left_out && beyond.from.is_none() && beyond.attribute == "x-a");
    }

    #[test]
    fn json_stands_on_lines() {
        let value = Value::Map([("a".to_owned(), Value::List(["b".into(), Value::Null].into()))].into());
        assert_eq!(pretty(&value), "{\n  \"a\": [\n    \"b\",\n    null\n  ]\n}");
        assert_eq!(pretty(&Value::List([].into())), "[]");
    }
}
