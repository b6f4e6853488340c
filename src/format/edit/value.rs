//! Changing one value in place.

use std::collections::HashMap;
use std::ops::Range;

use crate::domain::Value;
use crate::format::edit::parts::{Insertion, NewPart, Parts};
use crate::format::edit::splice::{SourceText, Splice};
use crate::format::scalar::Style;
use crate::format::tree::{Layout, MapEntry, Node, NodeContent};
use crate::format::{scalar, write};

/// Maximum number of cells in the table that aligns two lists; larger ones are compared from both ends.
const ALIGNMENT_CELLS_MAX: usize = 250_000;

/// The likeness of equal items: more than that of all other items of a list together, and small enough that
/// the sum for the longest aligned list fits into 32 bits.
const EQUAL: u32 = 1000;

/// The place of a value in a list or map.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ValuePlace<'n> {
    /// After a name in a block map.
    Entry {
        /// The name and the value.
        entry: &'n MapEntry,
        /// The column of the name.
        column: usize,
    },
    /// After a dash in a block list.
    Item,
    /// In brackets or braces.
    Flow,
}

impl<'n> ValuePlace<'n> {
    /// The place of the value of a map's entry.
    pub(crate) fn of(source: SourceText<'_>, map: &Node, entry: &'n MapEntry) -> Self {
        match map.layout() {
            Some(Layout::Block) => Self::Entry { entry, column: source.column(entry.start) },
            Some(Layout::Flow | Layout::Pair) | None => Self::Flow,
        }
    }
}

/// Changes a value with the fewest bytes: inside it if possible, else all of it.
pub(crate) fn changed(
    source: SourceText<'_>,
    place: ValuePlace<'_>,
    node: &Node,
    from: &Value,
    to: &Value,
) -> Option<Vec<Splice>> {
    if from == to {
        return Some(Vec::new());
    }
    inside(source, place, node, from, to)
        .or_else(|| replaced(source, place, node, to).map(|splice| vec![splice]))
}

fn inside(
    source: SourceText<'_>,
    place: ValuePlace<'_>,
    node: &Node,
    from: &Value,
    to: &Value,
) -> Option<Vec<Splice>> {
    match (&node.content, from, to) {
        (
            NodeContent::Scalar(_, style),
            _,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_),
        ) => {
            if node.span.is_empty() {
                return None;
            }
            Some(vec![source.replace(node.span.clone(), scalar(source, place, node, *style, to))])
        }
        (NodeContent::Map(entries, _), Value::Map(old), Value::Map(new)) => {
            members(source, node, entries, old, new)
        }
        (NodeContent::List(nodes, _), Value::List(old), Value::List(new)) => {
            items(source, node, nodes, old, new)
        }
        _ => None,
    }
}

/// Writes a scalar in the style of the one that it replaces; a comment after `|` or `>` is kept.
fn scalar(source: SourceText<'_>, place: ValuePlace<'_>, node: &Node, style: Style, to: &Value) -> String {
    let in_flow = matches!(place, ValuePlace::Flow);
    if style != Style::Block {
        return scalar::emit_scalar(to, style, in_flow);
    }
    let header = &source.text[node.span.start..source.line_stop(node.span.start).min(node.span.end)];
    let comment = header.find('#').map_or(String::new(), |at| format!(" {}", &header[at..]));
    literal(source, node, to, &comment)
        .unwrap_or_else(|| format!("{}{comment}", scalar::emit_scalar(to, style, in_flow)))
}

/// Writes a text of several lines after a `|`, indented like the one that it replaces.
fn literal(source: SourceText<'_>, node: &Node, to: &Value, comment: &str) -> Option<String> {
    let text = to.as_text()?;
    let body = text.strip_suffix('\n').unwrap_or(text);
    let fits = |line: &str| line.is_empty() || (line.trim() == line && scalar::is_readable_line(line));
    let is_literal = source.text[node.span.start..].starts_with('|');
    let has_edges = body.starts_with('\n') || body.ends_with('\n') || body.is_empty();
    if !is_literal || !text.contains('\n') || has_edges || !body.split('\n').all(fits) {
        return None;
    }
    let content = source.text[node.span.clone()].lines().skip(1).find(|line| !line.trim().is_empty())?;
    let indent = &content[..content.len() - content.trim_start_matches(' ').len()];
    let chomp = if body.len() == text.len() { "-" } else { "" };
    let mut lines = format!("|{chomp}{comment}");
    for line in body.split('\n') {
        lines.push_str(source.line_end);
        if !line.is_empty() {
            lines.push_str(indent);
            lines.push_str(line);
        }
    }
    Some(lines)
}

fn members(
    source: SourceText<'_>,
    node: &Node,
    entries: &[MapEntry],
    old: &[(String, Value)],
    new: &[(String, Value)],
) -> Option<Vec<Splice>> {
    let (old, wanted): (HashMap<_, _>, HashMap<_, _>) = (named(old), named(new));
    let mut splices = Vec::new();
    let (mut gone, mut last) = (Vec::new(), None);
    for (at, entry) in entries.iter().enumerate() {
        match wanted.get(entry.name()) {
            Some(to) => {
                let place = ValuePlace::of(source, node, entry);
                splices.extend(changed(source, place, &entry.value, old.get(entry.name())?, to)?);
                last = Some(at);
            }
            None => gone.push(at),
        }
    }
    let fresh = new.iter().filter(|(name, _)| !old.contains_key(name.as_str()));
    let fresh: Vec<_> = fresh.map(|(name, value)| NewPart::Member(name, value)).collect();
    let mut insertions = Vec::new();
    if !fresh.is_empty() {
        let style = style_behind(node, &entries[last?]);
        insertions.push(Insertion { after: Some(last?), parts: fresh, style });
    }
    splices.extend(Parts::of(source, node)?.changed(&gone, &insertions)?);
    Some(splices)
}

/// The style of what is added after an entry: in braces, that of its name.
pub(crate) fn style_behind(node: &Node, entry: &MapEntry) -> Style {
    match (node.layout(), entry.key.as_scalar()) {
        (Some(Layout::Flow), Some((_, style))) => style,
        _ => Style::Plain,
    }
}

fn named(members: &[(String, Value)]) -> HashMap<&str, &Value> {
    members.iter().map(|(name, value)| (name.as_str(), value)).collect()
}

fn items(
    source: SourceText<'_>,
    node: &Node,
    nodes: &[Node],
    old: &[Value],
    new: &[Value],
) -> Option<Vec<Splice>> {
    let place = if node.layout() == Some(Layout::Block) { ValuePlace::Item } else { ValuePlace::Flow };
    let mut kept = aligned(old, new);
    kept.push((old.len(), new.len()));
    let (mut splices, mut gone, mut insertions) = (Vec::new(), Vec::new(), Vec::new());
    let (mut at, mut to) = (0, 0);
    for (old_next, new_next) in kept {
        while at < old_next && to < new_next {
            splices.extend(changed(source, place, nodes.get(at)?, &old[at], &new[to])?);
            (at, to) = (at + 1, to + 1);
        }
        if let (Some(node), Some(from), Some(to)) =
            (nodes.get(old_next), old.get(old_next), new.get(new_next))
        {
            splices.extend(changed(source, place, node, from, to)?);
        }
        gone.extend(at..old_next);
        if to < new_next {
            let fresh: Vec<_> = new[to..new_next].iter().map(NewPart::Item).collect();
            let sibling = nodes.get(at.saturating_sub(1)).and_then(Node::as_scalar);
            let style = sibling.map_or(Style::Plain, |(_, style)| style);
            insertions.push(Insertion { after: at.checked_sub(1), parts: fresh, style });
        }
        (at, to) = (old_next + 1, new_next + 1);
    }
    splices.extend(Parts::of(source, node)?.changed(&gone, &insertions)?);
    Some(splices)
}

/// How likely two items are versions of the same one. Equal items count far more than maps with the same first
/// member, which usually is the name.
fn likeness(old: &Value, new: &Value) -> u32 {
    match old {
        _ if old == new => EQUAL,
        Value::Map(members) => {
            u32::from(members.first().is_some_and(|(name, value)| new.get(name) == Some(value)))
        }
        _ => 0,
    }
}

/// Returns the items that are kept, as pairs of positions with the greatest total likeness (longest common
/// subsequence, with weights).
fn aligned(old: &[Value], new: &[Value]) -> Vec<(usize, usize)> {
    let (rows, columns) = (old.len(), new.len());
    if rows.saturating_mul(columns) > ALIGNMENT_CELLS_MAX {
        return aligned_at_ends(old, new);
    }
    let width = columns + 1;
    let mut longest = vec![0_u32; (rows + 1) * width];
    for row in (0..rows).rev() {
        for column in (0..columns).rev() {
            let together = likeness(&old[row], &new[column]) + longest[(row + 1) * width + column + 1];
            let apart = longest[(row + 1) * width + column].max(longest[row * width + column + 1]);
            longest[row * width + column] = together.max(apart);
        }
    }
    let (mut pairs, mut row, mut column) = (Vec::new(), 0, 0);
    while row < rows && column < columns {
        let alike = likeness(&old[row], &new[column]);
        if alike > 0 && longest[row * width + column] == alike + longest[(row + 1) * width + column + 1] {
            pairs.push((row, column));
            (row, column) = (row + 1, column + 1);
        } else if longest[(row + 1) * width + column] >= longest[row * width + column + 1] {
            row += 1;
        } else {
            column += 1;
        }
    }
    pairs
}

fn aligned_at_ends(old: &[Value], new: &[Value]) -> Vec<(usize, usize)> {
    let same = old.iter().zip(new).take_while(|(one, two)| one == two).count();
    let rest = old.len().min(new.len()) - same;
    let tail = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(one, two)| one == two).count();
    let tail = (0..tail).rev().map(|back| (old.len() - 1 - back, new.len() - 1 - back));
    (0..same).map(|at| (at, at)).chain(tail).collect()
}

/// Rewrites the whole value.
fn replaced(source: SourceText<'_>, place: ValuePlace<'_>, node: &Node, to: &Value) -> Option<Splice> {
    let in_brackets = node.layout() == Some(Layout::Flow);
    match place {
        ValuePlace::Flow if node.span.is_empty() => None,
        ValuePlace::Flow => Some(source.replace(node.span.clone(), write::flow(to, Style::Plain))),
        ValuePlace::Item | ValuePlace::Entry { .. } if in_brackets => {
            Some(source.replace(node.span.clone(), write::flow(to, Style::Plain)))
        }
        ValuePlace::Item => {
            if node.span.is_empty() {
                return None;
            }
            let is_block = node.layout() == Some(Layout::Block);
            let end = if is_block { source.line_stop(node.span.end) } else { node.span.end };
            let mut lines = String::new();
            write::value(&mut lines, source.column(node.span.start), to);
            Some(source.replace(node.span.start..end, source.lines(lines.trim_end_matches('\n'))))
        }
        ValuePlace::Entry { entry, column } => {
            let key = entry.key.span.end;
            let rest = &source.text[key..];
            let colon = key + (rest.len() - rest.trim_start_matches(' ').len()) + 1;
            let mut lines = String::from(":");
            write::behind_colon(&mut lines, column, to, Style::Plain);
            let lines = lines.trim_end_matches('\n');
            let (first, others) = lines.split_at(lines.find('\n').unwrap_or(lines.len()));
            let (comment, end) = comment(source, node, colon);
            Some(source.replace(key..end, format!("{first}{comment}{}", source.lines(others))))
        }
    }
}

/// Returns the comment of an entry whose value is rewritten, with the blanks before it, and the end of the
/// replaced range. The comment is on the line of the name; one after the last item of a list is removed
/// with the item.
fn comment<'t>(source: SourceText<'t>, node: &Node, colon: usize) -> (&'t str, usize) {
    let Range { start, end } = node.span.start.max(colon)..node.span.end.max(colon);
    let name_stop = source.line_stop(colon);
    if node.layout() == Some(Layout::Block) {
        return (&source.text[colon..name_stop], source.line_stop(end));
    }
    if start > name_stop {
        return (&source.text[colon..name_stop], end);
    }
    if matches!(node.as_scalar(), Some((_, Style::Block))) {
        let header = &source.text[start..name_stop];
        return (header.find(" #").map_or("", |at| &header[at..]), end);
    }
    let stop = source.line_stop(end);
    (&source.text[end..stop], stop)
}
