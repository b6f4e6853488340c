//! Adding and removing items of a list or members of a map.

use std::ops::Range;

use crate::domain::Value;
use crate::format::edit::below;
use crate::format::edit::below::Ending;
use crate::format::edit::splice::{SourceText, Splice};
use crate::format::scalar::Style;
use crate::format::tree::{Layout, MapEntry, Node, NodeContent};
use crate::format::write;

#[derive(Debug, Clone, Copy)]
pub(crate) enum NewPart<'v> {
    /// An item of a list.
    Item(&'v Value),
    /// A name and its value.
    Member(&'v str, &'v Value),
}

/// New items or members, and their position.
#[derive(Debug)]
pub(crate) struct Insertion<'v> {
    /// The part after which they are inserted; `None` for before the first.
    pub(crate) after: Option<usize>,
    pub(crate) parts: Vec<NewPart<'v>>,
    /// How texts are quoted.
    pub(crate) style: Style,
}

#[derive(Debug)]
pub(crate) struct Parts<'t> {
    source: SourceText<'t>,
    /// The range of each part; in a block list from its dash.
    spans: Vec<Range<usize>>,
    endings: Vec<Ending>,
    /// The range of the list or map.
    whole: Range<usize>,
    block: bool,
}

impl<'t> Parts<'t> {
    /// Finds the parts, if they are written in a form that is understood.
    pub(crate) fn of(source: SourceText<'t>, node: &Node) -> Option<Self> {
        let block = match node.layout()? {
            Layout::Block => true,
            Layout::Flow => false,
            Layout::Pair => return None,
        };
        let member = |entry: &MapEntry| (entry.span(), Ending::of(source.text, &entry.value));
        let item = |item: &Node| {
            let start = if block { dash(source.text, item)? } else { item.span.start };
            Some((start..item.span.end, Ending::of(source.text, item)))
        };
        let (spans, endings) = match &node.content {
            NodeContent::Map(entries, _) => entries.iter().map(member).collect(),
            NodeContent::List(items, _) => items.iter().map(item).collect::<Option<_>>()?,
            NodeContent::Scalar(..) => return None,
        };
        Some(Self { source, spans, endings, whole: node.span.clone(), block })
    }

    /// Removes parts, but not all of them, and adds others.
    ///
    /// `gone` is in order; nothing is added after a removed part.
    pub(crate) fn changed(&self, gone: &[usize], added: &[Insertion<'_>]) -> Option<Vec<Splice>> {
        let mut splices = match gone {
            [] => Vec::new(),
            _ if gone.len() >= self.spans.len() => return None,
            _ if self.block => self.removed_from_block(gone)?,
            _ => self.removed_from_flow(gone, added)?,
        };
        for insertion in added {
            match insertion.after {
                Some(anchor) if self.block => splices.push(self.inserted_into_block(anchor, insertion)?),
                Some(anchor) => splices.extend(self.inserted_into_flow(anchor, insertion, gone)?),
                None => splices.push(self.inserted_first(insertion)?),
            }
        }
        Some(splices)
    }

    fn removed_from_block(&self, gone: &[usize]) -> Option<Vec<Splice>> {
        if !gone.iter().all(|&at| self.source.begins_line(self.spans[at].start)) {
            return None;
        }
        let runs = gone.chunk_by(|one, two| one + 1 == *two);
        Some(runs.flat_map(|run| self.run_removed(run)).collect())
    }

    /// Removes the lines of consecutive parts from a block list or map. What is below them must not
    /// become part of a block scalar that is now above.
    fn run_removed(&self, run: &[usize]) -> Vec<Splice> {
        let lines = run.iter().map(|&at| self.source.without_lines(&self.spans[at]));
        let mut splices: Vec<Splice> = lines.collect();
        let above = run[0].checked_sub(1);
        if let Some((above, keeps)) =
            above.and_then(|above| Some((above, self.endings[above].keeps_blank_lines()?)))
        {
            let mut from = self.source.next_line(self.spans[above].end);
            let column = self.source.column(self.spans[run[0]].start);
            for &at in run {
                let gap = from..self.source.line_start(self.spans[at].start);
                if self.source.text.get(gap).is_some_and(|gap| gap.contains('#')) {
                    return splices;
                }
                from = self.source.next_line(self.spans[at].end);
                splices.extend(below::set_apart(self.source, from, column, keeps));
            }
        }
        splices
    }

    fn inserted_into_block(&self, anchor: usize, new: &Insertion<'_>) -> Option<Splice> {
        let span = self.spans.get(anchor)?;
        Some(self.source.lines_behind(span.end, &self.lines(self.source.column(span.start), new)))
    }

    fn inserted_first(&self, new: &Insertion<'_>) -> Option<Splice> {
        let first = self.spans.first()?.start;
        if self.block {
            if !self.source.begins_line(first) {
                return None;
            }
            let start = self.source.line_start(first);
            let lines = self.source.lines(&self.lines(self.source.column(first), new));
            return Some(self.source.replace(start..start, lines));
        }
        let new: String = new.flow().iter().map(|part| format!("{part}, ")).collect();
        Some(self.source.replace(first..first, new))
    }

    fn lines(&self, column: usize, new: &Insertion<'_>) -> String {
        let mut lines = String::new();
        for part in &new.parts {
            lines.extend(std::iter::repeat_n(' ', column));
            match part {
                NewPart::Item(value) => write::item(&mut lines, column, value, new.style),
                NewPart::Member(name, value) => write::entry(&mut lines, column, name, value, new.style),
            }
        }
        lines
    }

    fn inserted_into_flow(&self, anchor: usize, new: &Insertion<'_>, gone: &[usize]) -> Option<Vec<Splice>> {
        let span = self.spans.get(anchor)?;
        let new = new.flow();
        if !self.has_own_lines(anchor) {
            return Some(vec![self.source.replace(span.end..span.end, format!(", {}", new.join(", ")))]);
        }
        let stop = self.source.line_stop(span.end);
        let indent = &self.source.text[self.source.line_start(span.start)..span.start];
        let between = format!(",{}{indent}", self.source.line_end);
        let is_last = self.is_last_kept(anchor, gone);
        let last = if is_last && self.comma(self.spans.len() - 1).is_none() { "" } else { "," };
        let lines = format!("{}{indent}{}{last}", self.source.line_end, new.join(&between));
        // If the line ends with the part, the comma comes before the new lines.
        let comma = self.comma(anchor).is_none().then(|| self.source.replace(span.end..span.end, ","));
        Some(comma.into_iter().chain([self.source.replace(stop..stop, lines)]).collect())
    }

    /// Whether all parts after this one are removed.
    fn is_last_kept(&self, at: usize, gone: &[usize]) -> bool {
        let behind = gone.partition_point(|gone| *gone <= at);
        gone.len() - behind == self.spans.len() - 1 - at
    }

    fn removed_from_flow(&self, gone: &[usize], added: &[Insertion<'_>]) -> Option<Vec<Splice>> {
        let mut splices = Vec::new();
        for run in gone.chunk_by(|one, two| one + 1 == *two) {
            let (first, last) = (*run.first()?, *run.last()?);
            let before = first.checked_sub(1);
            let trailing = last + 1 == self.spans.len();
            if run.iter().all(|&at| self.has_own_lines(at)) {
                splices.extend(run.iter().map(|&at| self.source.without_lines(&self.spans[at])));
                let is_followed = added.iter().any(|insertion| insertion.after == before);
                if trailing && !is_followed && self.comma(last).is_none() {
                    let comma = before.and_then(|before| self.comma(before));
                    splices.extend(comma.map(|comma| self.source.replace(comma..comma + 1, "")));
                }
            } else if !trailing {
                splices.push(self.source.replace(self.spans[first].start..self.spans[last + 1].start, ""));
            } else {
                let before = self.spans.get(before?)?;
                splices.push(self.source.replace(before.end..self.spans[last].end, ""));
            }
        }
        Some(splices)
    }

    /// Whether a part of a list or map in brackets shares its lines with no other part and no
    /// bracket, and is followed by its comma.
    fn has_own_lines(&self, at: usize) -> bool {
        if at + 1 < self.spans.len() && self.comma(at).is_none() {
            return false;
        }
        let span = &self.spans[at];
        let rest = &self.source.text[span.end..self.source.line_stop(span.end)];
        let rest = rest.trim_start().trim_start_matches(',').trim_start();
        self.source.begins_line(span.start) && (rest.is_empty() || rest.starts_with('#'))
    }

    /// The position of the comma after a part, if it is on the same line.
    fn comma(&self, at: usize) -> Option<usize> {
        let from = self.spans[at].end;
        let to = self.spans.get(at + 1).map_or(self.whole.end, |next| next.start);
        let rest = self.source.text.get(from..to)?;
        let blanks = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        rest[blanks..].starts_with(',').then_some(from + blanks)
    }
}

impl Insertion<'_> {
    /// Each part as it is written in brackets or braces.
    fn flow(&self) -> Vec<String> {
        let flow = |part: &NewPart<'_>| match part {
            NewPart::Item(value) => write::flow(value, self.style),
            NewPart::Member(name, value) => write::flow_entry(name, value, self.style),
        };
        self.parts.iter().map(flow).collect()
    }
}

/// Finds the dash of a block list's item: on its line, or on one above with comments between.
fn dash(text: &str, item: &Node) -> Option<usize> {
    let mut end = item.span.start;
    loop {
        let start = text[..end].rfind('\n').map_or(0, |above| above + 1);
        let said = text[start..end].split('#').next().unwrap_or_default().trim_end();
        if !said.is_empty() {
            return (said.ends_with('-') && !item.span.is_empty()).then(|| start + said.len() - 1);
        }
        end = start.checked_sub(1)?;
    }
}
