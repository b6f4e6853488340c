//! What to do with the lines below removed lines, when a block scalar (`|` or `>`) is then above them.
//!
//! ```yaml
//! format: |
//!   tr
//! revisionDirectory: rv
//!   # a comment
//! ```
//!
//! Without the third line, the comment would become a line of the text. It stays a comment if it
//! is moved to the column of the names.

use std::ops::Range;

use crate::format::edit::splice::{SourceText, Splice};
use crate::format::scalar::Style;
use crate::format::tree;
use crate::format::tree::{Node, NodeContent};

/// How an item or a member ends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ending {
    /// In a block scalar; whether blank lines below belong to it (`|+`).
    Text { keeps_blank_lines: bool },
    /// In anything else.
    Plain,
}

impl Ending {
    pub(crate) fn of(text: &str, value: &Node) -> Self {
        match &value.content {
            NodeContent::Scalar(_, Style::Block) => {
                Self::Text { keeps_blank_lines: indicators(text, &value.span).contains('+') }
            }
            NodeContent::Scalar(_, Style::Plain | Style::Single | Style::Double) => Self::Plain,
            NodeContent::List(items, _) => items.last().map_or(Self::Plain, |item| Self::of(text, item)),
            NodeContent::Map(entries, _) => {
                entries.last().map_or(Self::Plain, |entry| Self::of(text, &entry.value))
            }
        }
    }

    /// Whether blank lines below belong to the block scalar at the end, if there is one.
    pub(crate) fn keeps_blank_lines(self) -> Option<bool> {
        match self {
            Self::Text { keeps_blank_lines } => Some(keeps_blank_lines),
            Self::Plain => None,
        }
    }
}

/// The start of a block scalar's header, such as `|` or `>2-`.
fn indicators<'t>(text: &'t str, span: &Range<usize>) -> &'t str {
    let header = text[span.clone()].lines().next().unwrap_or_default();
    header.split([' ', '\t']).next().unwrap_or_default()
}

/// Adds the missing line end to a file that ends in a block scalar. To keep its value, the scalar gets the indicator
/// that strips last line ends (`|-`).
pub(crate) fn ended(text: &str) -> Option<String> {
    let mut last = 0..0;
    tree::parse(text).root?.scalars(&mut |span| last = span.clone());
    let indicators = indicators(text, &last);
    if text.ends_with('\n') || !indicators.starts_with(['|', '>']) {
        return None;
    }
    let stripped = indicators.replace(['+', '-'], "") + "-";
    let (before, after) = (&text[..last.start], &text[last.start + indicators.len()..]);
    Some(format!("{before}{stripped}{after}{}", SourceText::new(text).line_end))
}

/// Keeps the blank lines and the comment from a byte on out of a block scalar that ends above. Blank
/// lines lose their blanks, or are removed if the scalar would keep even empty ones (`keeps`). Each
/// line of the comment moves to the column if it is indented further. A comment ends the scalar, so
/// what follows it need not change.
pub(crate) fn set_apart(source: SourceText<'_>, from: usize, column: usize, keeps: bool) -> Vec<Splice> {
    let mut splices = Vec::new();
    let mut at = from;
    let mut in_comment = false;
    while at < source.text.len() {
        let next = source.next_line(at);
        let line = source.text[at..next].trim_end_matches(['\r', '\n']);
        let indent = line.len() - line.trim_start_matches(' ').len();
        if line[indent..].starts_with('#') && indent > column {
            in_comment = true;
            splices.push(source.replace(at + column..at + indent, ""));
        } else if in_comment || !line.trim().is_empty() {
            break;
        } else if keeps {
            splices.push(source.replace(at..next, ""));
        } else if !line.is_empty() {
            splices.push(source.replace(at..at + line.len(), ""));
        }
        at = next;
    }
    splices
}
