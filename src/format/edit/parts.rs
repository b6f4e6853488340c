//! The items of a list or the members of a map, to add some and to take some out.

use std::ops::Range;

use super::super::scalar::Style;
use super::super::tree::{Content, Layout, Node};
use super::super::write;
use super::below::{self, Ending};
use super::splice::{Sheet, Splice};
use crate::domain::Value;

/// A new item or member.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part<'v> {
    /// An item of a list.
    Item(&'v Value),
    /// A name and its value.
    Member(&'v str, &'v Value),
}

/// The parts of one list or map.
#[derive(Debug)]
pub(super) struct Parts<'t> {
    sheet: Sheet<'t>,
    /// Each part; in a block list from its dash.
    spans: Vec<Range<usize>>,
    /// How each part ends.
    endings: Vec<Ending>,
    /// The list or map.
    whole: Range<usize>,
    block: bool,
}

impl<'t> Parts<'t> {
    /// Finds the parts, if they stand in a way that is understood.
    pub(super) fn of(sheet: Sheet<'t>, node: &Node) -> Option<Self> {
        let block = match node.layout()? {
            Layout::Block => true,
            Layout::Flow => false,
            Layout::Pair => return None,
        };
        let endings = match &node.content {
            Content::Map(entries, _) => {
                entries.iter().map(|entry| Ending::of(sheet.text, &entry.value)).collect()
            }
            Content::List(items, _) => items.iter().map(|item| Ending::of(sheet.text, item)).collect(),
            Content::Scalar(..) => Vec::new(),
        };
        let spans = match &node.content {
            Content::Map(entries, _) => Some(entries.iter().map(|entry| entry.span()).collect()),
            Content::List(items, _) if block => {
                items.iter().map(|item| Some(dash(sheet.text, item)?..item.span.end)).collect()
            }
            Content::List(items, _) => Some(items.iter().map(|item| item.span.clone()).collect()),
            Content::Scalar(..) => None,
        };
        Some(Self { sheet, spans: spans?, endings, whole: node.span.clone(), block })
    }

    /// Takes parts out, not all of them.
    pub(super) fn removed(&self, indices: &[usize]) -> Option<Vec<Splice>> {
        if indices.len() >= self.spans.len() {
            return None;
        }
        if !self.block {
            return self.removed_from_flow(indices);
        }
        if !indices.iter().all(|&at| self.sheet.begins_line(self.spans[at].start)) {
            return None;
        }
        let runs = indices.chunk_by(|one, two| one + 1 == *two);
        Some(runs.flat_map(|run| self.run_removed(run)).collect())
    }

    /// Takes the lines of parts that follow each other out of a block list or map, and keeps what
    /// stands below them out of a text behind `|` that now stands above.
    fn run_removed(&self, run: &[usize]) -> Vec<Splice> {
        let lines = run.iter().map(|&at| self.sheet.without_lines(&self.spans[at]));
        let mut splices: Vec<Splice> = lines.collect();
        let above = run[0].checked_sub(1);
        if let Some((above, keeps)) = above.and_then(|above| Some((above, self.endings[above].text()?))) {
            let mut from = self.sheet.next_line(self.spans[above].end);
            let column = self.sheet.column(self.spans[run[0]].start);
            for &at in run {
                let gap = from..self.sheet.line_start(self.spans[at].start);
                if self.sheet.text.get(gap).is_some_and(|gap| gap.contains('#')) {
                    return splices;
                }
                from = self.sheet.next_line(self.spans[at].end);
                splices.extend(below::set_apart(self.sheet, from, column, keeps));
            }
        }
        splices
    }

    /// Adds parts behind another.
    pub(super) fn inserted_behind(
        &self,
        anchor: usize,
        new: &[Part<'_>],
        style: Style,
    ) -> Option<Vec<Splice>> {
        let span = self.spans.get(anchor)?;
        if self.block {
            let column = self.sheet.column(span.start);
            return Some(vec![self.sheet.lines_behind(span.end, &self.lines(column, new, style))]);
        }
        Some(self.inserted_into_flow(anchor, new, style))
    }

    /// Adds parts before the first.
    pub(super) fn inserted_first(&self, new: &[Part<'_>], style: Style) -> Option<Vec<Splice>> {
        let first = self.spans.first()?.start;
        if self.block {
            if !self.sheet.begins_line(first) {
                return None;
            }
            let start = self.sheet.line_start(first);
            let lines = self.sheet.lines(&self.lines(self.sheet.column(first), new, style));
            return Some(vec![self.sheet.replace(start..start, lines)]);
        }
        let new: String = new.iter().map(|part| format!("{}, ", flow(*part, style))).collect();
        Some(vec![self.sheet.replace(first..first, new)])
    }

    fn lines(&self, column: usize, new: &[Part<'_>], style: Style) -> String {
        let mut lines = String::new();
        for part in new {
            lines.extend(std::iter::repeat_n(' ', column));
            match part {
                Part::Item(value) => write::item(&mut lines, column, value, style),
                Part::Member(name, value) => write::entry(&mut lines, column, name, value, style),
            }
        }
        lines
    }

    fn inserted_into_flow(&self, anchor: usize, new: &[Part<'_>], style: Style) -> Vec<Splice> {
        let span = &self.spans[anchor];
        let new: Vec<String> = new.iter().map(|part| flow(*part, style)).collect();
        if !self.has_own_lines(anchor) {
            return vec![self.sheet.replace(span.end..span.end, format!(", {}", new.join(", ")))];
        }
        let comma = self.comma(anchor);
        let stop = self.sheet.line_stop(span.end);
        let indent = &self.sheet.text[self.sheet.line_start(span.start)..span.start];
        let between = format!(",{}{indent}", self.sheet.line_end);
        let last = if comma.is_some() { "," } else { "" };
        let lines = format!("{}{indent}{}{last}", self.sheet.line_end, new.join(&between));
        let mut splices = vec![self.sheet.replace(stop..stop, lines)];
        if comma.is_none() {
            splices.push(self.sheet.replace(span.end..span.end, ","));
        }
        splices
    }

    fn removed_from_flow(&self, indices: &[usize]) -> Option<Vec<Splice>> {
        let mut splices = Vec::new();
        for run in indices.chunk_by(|one, two| one + 1 == *two) {
            let (first, last) = (*run.first()?, *run.last()?);
            let trailing = last + 1 == self.spans.len();
            if run.iter().all(|&at| self.has_own_lines(at)) {
                splices.extend(run.iter().map(|&at| self.sheet.without_lines(&self.spans[at])));
                if let (true, None, true) = (trailing, self.comma(last), first > 0) {
                    splices
                        .extend(self.comma(first - 1).map(|comma| self.sheet.replace(comma..comma + 1, "")));
                }
            } else if !trailing {
                splices.push(self.sheet.replace(self.spans[first].start..self.spans[last + 1].start, ""));
            } else {
                let before = self.spans.get(first.checked_sub(1)?)?;
                splices.push(self.sheet.replace(before.end..self.spans[last].end, ""));
            }
        }
        Some(splices)
    }

    /// Whether a part of a list or map in brackets shares its lines with no other and with no
    /// bracket.
    fn has_own_lines(&self, at: usize) -> bool {
        let span = &self.spans[at];
        let rest = &self.sheet.text[span.end..self.sheet.line_stop(span.end)];
        let rest = rest.trim_start().trim_start_matches(',').trim_start();
        self.sheet.begins_line(span.start) && (rest.is_empty() || rest.starts_with('#'))
    }

    /// Where the comma behind a part stands, if it follows in the same line.
    fn comma(&self, at: usize) -> Option<usize> {
        let from = self.spans[at].end;
        let to = self.spans.get(at + 1).map_or(self.whole.end, |next| next.start);
        let rest = self.sheet.text.get(from..to)?;
        let blanks = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        rest[blanks..].starts_with(',').then_some(from + blanks)
    }
}

fn flow(part: Part<'_>, style: Style) -> String {
    match part {
        Part::Item(value) => write::flow(value, style),
        Part::Member(name, value) => write::flow_entry(name, value, style),
    }
}

/// The dash of a block list's item.
fn dash(text: &str, item: &Node) -> Option<usize> {
    let before = text[..item.span.start].trim_end_matches([' ', '\n', '\r']);
    (before.ends_with('-') && !item.span.is_empty()).then(|| before.len() - 1)
}
