//! The lines of a text, and replacements in it.

use std::ops::Range;

use crate::domain::Value;
use crate::format::scalar::Style;
use crate::format::write;

/// A replacement of some bytes of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Splice {
    /// The range that is replaced.
    pub(crate) at: Range<usize>,
    pub(crate) with: String,
}

/// Applies splices, which are in the order of the text; `None` if two of them overlap.
pub(crate) fn applied(text: &str, splices: &[Splice]) -> Option<String> {
    let mut new = String::with_capacity(text.len());
    let mut from = 0;
    for splice in splices {
        new.push_str(text.get(from..splice.at.start)?);
        new.push_str(&splice.with);
        from = splice.at.end;
    }
    new.push_str(text.get(from..)?);
    Some(new)
}

/// The text of a file as lines.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SourceText<'t> {
    pub(crate) text: &'t str,
    /// The line end of its first line, which new lines get too.
    pub(crate) line_end: &'static str,
}

impl<'t> SourceText<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        let first = text.split_inclusive('\n').next().unwrap_or_default();
        Self { text, line_end: if first.ends_with("\r\n") { "\r\n" } else { "\n" } }
    }

    /// Converts lines that end in `\n` to the line ends of the file.
    pub(crate) fn lines(&self, text: &str) -> String {
        text.replace('\n', self.line_end)
    }

    /// The start of the line of a byte.
    pub(crate) fn line_start(&self, at: usize) -> usize {
        self.text[..at].rfind('\n').map_or(0, |end| end + 1)
    }

    /// The end of the line of a byte, without the line end.
    pub(crate) fn line_stop(&self, at: usize) -> usize {
        let stop = self.text[at..].find('\n').map_or(self.text.len(), |end| at + end);
        if self.text[at..stop].ends_with('\r') { stop - 1 } else { stop }
    }

    /// The start of the next line.
    pub(crate) fn next_line(&self, at: usize) -> usize {
        self.text[at..].find('\n').map_or(self.text.len(), |end| at + end + 1)
    }

    /// The number of bytes before a byte in its line.
    pub(crate) fn column(&self, at: usize) -> usize {
        at - self.line_start(at)
    }

    /// Whether only blanks are before a byte in its line.
    pub(crate) fn begins_line(&self, at: usize) -> bool {
        self.text[self.line_start(at)..at].trim_matches(' ').is_empty()
    }

    pub(crate) fn replace(&self, at: Range<usize>, with: impl Into<String>) -> Splice {
        Splice { at, with: with.into() }
    }

    /// Removes the lines of these bytes.
    pub(crate) fn without_lines(&self, at: &Range<usize>) -> Splice {
        self.replace(self.line_start(at.start)..self.next_line(at.end), "")
    }

    /// Adds lines, each of which ends in `\n`, after the line of a byte.
    pub(crate) fn lines_behind(&self, at: usize, lines: &str) -> Splice {
        let next = self.next_line(at);
        let lines = self.lines(lines);
        if self.text[..next].ends_with('\n') {
            return self.replace(next..next, lines);
        }
        let lines = lines.strip_suffix(self.line_end).unwrap_or(&lines);
        self.replace(next..next, format!("{}{lines}", self.line_end))
    }

    /// A name and its value in block form, without the last line end.
    pub(crate) fn block_entry(&self, column: usize, name: &str, value: &Value) -> String {
        let mut lines = String::new();
        write::entry(&mut lines, column, name, value, Style::Plain);
        self.lines(lines.trim_end_matches('\n'))
    }
}
