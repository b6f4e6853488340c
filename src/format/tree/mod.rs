//! The nodes of a YAML document with the bytes that each of them takes.
//!
//! Built from the events of `saphyr-parser` without recursion, and only as deep as a collection
//! may be, so no input can exhaust the stack. What the format forbids (anchors, tags, a second
//! document, duplicate names) is noted where it stands and reading goes on, so that one look
//! finds all of it.
//!
//! The parser's start of a node can be relied on, its end can't (a quoted scalar takes the
//! comment that follows it along), so ends are found here, in the text.

mod build;

use std::ops::Range;

use saphyr_parser::Parser;

use crate::format::scalar::Style;
use crate::format::tree::build::TreeBuilder;
pub(crate) use crate::format::tree::build::too_deep;

/// One node and where it stands, in bytes.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    /// From its first to behind its last byte; empty, behind what precedes it, if nothing is
    /// written. A block collection begins with its first name or item, `- ` aside, and ends with
    /// its last.
    pub(crate) span: Range<usize>,
    /// What it is.
    pub(crate) content: NodeContent,
}

/// What a node is.
#[derive(Debug, Clone)]
pub(crate) enum NodeContent {
    /// A text and how it is quoted.
    Scalar(String, Style),
    /// A list.
    List(Vec<Node>, Layout),
    /// A map.
    Map(Vec<MapEntry>, Layout),
}

/// How a list or map stands in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// On lines of its own.
    Block,
    /// In brackets or braces.
    Flow,
    /// One name and value as an item of a list in brackets, without braces.
    Pair,
}

/// One name and value of a map.
#[derive(Debug, Clone)]
pub(crate) struct MapEntry {
    /// The first byte: of the name, or of the `?` before it.
    pub(crate) start: usize,
    /// The name: a scalar.
    pub(crate) key: Node,
    /// The value.
    pub(crate) value: Node,
}

/// Something wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FaultAt {
    /// The first byte of it.
    pub(crate) at: usize,
    /// What was found and what would be right.
    pub(crate) message: String,
}

/// A document, read as far as it can be.
#[derive(Debug)]
pub(crate) struct Parsed {
    /// The root, unless the text is no YAML or holds nothing.
    pub(crate) root: Option<Node>,
    /// What is wrong, in no order.
    pub(crate) faults: Vec<FaultAt>,
    /// Where reading ended, if the text is no YAML.
    pub(crate) failure: Option<Failure>,
}

/// Where the parser gave up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The byte at which it noticed.
    pub(crate) at: usize,
    /// Up to where the text is beyond doubt.
    pub(crate) behind: usize,
    /// The innermost bracket that is open there.
    pub(crate) open: Option<usize>,
}

impl Node {
    /// The text and style of a scalar.
    pub(crate) fn as_scalar(&self) -> Option<(&str, Style)> {
        match &self.content {
            NodeContent::Scalar(text, style) => Some((text, *style)),
            NodeContent::List(..) | NodeContent::Map(..) => None,
        }
    }

    /// How a list or map stands in the file.
    pub(crate) fn layout(&self) -> Option<Layout> {
        match &self.content {
            NodeContent::Scalar(..) => None,
            NodeContent::List(_, layout) | NodeContent::Map(_, layout) => Some(*layout),
        }
    }

    /// The entries of a map.
    pub(crate) fn entries(&self) -> &[MapEntry] {
        match &self.content {
            NodeContent::Map(entries, _) => entries,
            NodeContent::Scalar(..) | NodeContent::List(..) => &[],
        }
    }

    /// The items of a list.
    pub(crate) fn items(&self) -> &[Node] {
        match &self.content {
            NodeContent::List(items, _) => items,
            NodeContent::Scalar(..) | NodeContent::Map(..) => &[],
        }
    }

    /// The value of a map's entry with this name.
    pub(crate) fn entry(&self, name: &str) -> Option<&MapEntry> {
        self.entries().iter().find(|entry| entry.name() == name)
    }

    /// Calls `visit` with the bytes of every scalar, in the order of the text.
    pub(crate) fn scalars(&self, visit: &mut impl FnMut(&Range<usize>)) {
        match &self.content {
            NodeContent::Scalar(..) => visit(&self.span),
            NodeContent::List(items, _) => items.iter().for_each(|item| item.scalars(visit)),
            NodeContent::Map(entries, _) => entries.iter().for_each(|entry| {
                entry.key.scalars(visit);
                entry.value.scalars(visit);
            }),
        }
    }
}

impl MapEntry {
    /// The name.
    pub(crate) fn name(&self) -> &str {
        self.key.as_scalar().map_or("", |(text, _)| text)
    }

    /// From the name, or the `?` before it, to the end of the value.
    pub(crate) fn span(&self) -> Range<usize> {
        self.start..self.value.span.end.max(self.key.span.end)
    }
}

/// Reads a document.
pub(crate) fn parse(text: &str) -> Parsed {
    let mut builder = TreeBuilder::new(text);
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let (more, failure) = match event {
            Ok((event, span)) => (builder.take(event, span), None),
            Err(error) => (false, Some(builder.failure(error.marker().index()))),
        };
        if !more {
            return Parsed { root: None, faults: builder.faults, failure };
        }
    }
    if let Some(root) = &builder.root {
        let tabs = gaps(text, root).into_iter().filter_map(|gap| stray_tab(text, gap));
        let found = tabs.map(|at| FaultAt { at, message: "a tab stands here; type a blank".into() });
        builder.faults.extend(found);
    }
    Parsed { root: builder.root, faults: builder.faults, failure: None }
}

/// The bytes between the scalars: indentation, indicators and comments.
pub(crate) fn gaps(text: &str, root: &Node) -> Vec<Range<usize>> {
    let mut gaps = Vec::new();
    let mut from = 0;
    root.scalars(&mut |scalar| {
        gaps.push(from..scalar.start.max(from));
        from = scalar.end.max(from);
    });
    gaps.push(from..text.len());
    gaps
}

/// The comments in a gap, each from its `#` to the end of its line.
pub(crate) fn comments(text: &str, gap: Range<usize>) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut from = gap.start;
    while let Some(at) = text[from..gap.end].find('#').map(|at| from + at) {
        let end = text[at..].find(['\n', '\r']).map_or(text.len(), |length| at + length);
        found.push(at..end);
        from = end.min(gap.end);
    }
    found
}

/// A tab that readers may take for indentation or refuse: any between indicators and values.
fn stray_tab(text: &str, gap: Range<usize>) -> Option<usize> {
    let comments = comments(text, gap.clone());
    text[gap.clone()].match_indices('\t').map(|(at, _)| gap.start + at).find(|&at| {
        let rest = text[at..].trim_start_matches([' ', '\t']);
        let last = rest.is_empty() || rest.starts_with(['\n', '\r', '#']);
        !last && !comments.iter().any(|comment| comment.contains(&at))
    })
}
