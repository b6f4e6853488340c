//! The nodes of a YAML document and their byte ranges.
//!
//! They are built from the events of `saphyr-parser` without recursion, and only as deep as a
//! collection may be, so no input can exhaust the stack. What the format forbids (anchors, tags,
//! a second document, duplicate names) is recorded, and reading continues where possible, so that
//! one pass finds all faults.
//!
//! The parser reports the start of a node reliably, but not its end: the range of a quoted scalar
//! includes a comment that follows it. So ends are found here, in the text.

mod build;

use std::ops::Range;

use saphyr_parser::Parser;

use crate::format::scalar::Style;
use crate::format::tree::build::TreeBuilder;
pub(crate) use crate::format::tree::build::too_deep;

/// A node and its byte range.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    /// The byte range. If nothing is written, it is empty and follows what precedes the node. A block
    /// collection begins with its first name or item, without the `- `, and ends with its last.
    pub(crate) span: Range<usize>,
    pub(crate) content: NodeContent,
}

/// The content of a node.
#[derive(Debug, Clone)]
pub(crate) enum NodeContent {
    /// A text and how it is quoted.
    Scalar(String, Style),
    List(Vec<Node>, Layout),
    Map(Vec<MapEntry>, Layout),
}

/// How a list or map is written in a file.
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
    pub(crate) value: Node,
}

/// A fault at a byte of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FaultAt {
    /// The byte offset.
    pub(crate) at: usize,
    /// What was found and what is expected.
    pub(crate) message: String,
}

/// A document, parsed as far as possible.
#[derive(Debug)]
pub(crate) struct Parsed {
    /// The root, unless the text is empty or not YAML.
    pub(crate) root: Option<Node>,
    /// The faults, in no order.
    pub(crate) faults: Vec<FaultAt>,
    /// Where the parser gave up, if the text is not YAML.
    pub(crate) failure: Option<Failure>,
}

/// Where the parser gave up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The byte at which the parser noticed the error.
    pub(crate) at: usize,
    /// The end of the text that was parsed beyond doubt.
    pub(crate) understood_end: usize,
    /// The innermost bracket that is open at that byte.
    pub(crate) open: Option<usize>,
}

impl Node {
    pub(crate) fn as_scalar(&self) -> Option<(&str, Style)> {
        match &self.content {
            NodeContent::Scalar(text, style) => Some((text, *style)),
            NodeContent::List(..) | NodeContent::Map(..) => None,
        }
    }

    /// How a list or map is written in the file.
    pub(crate) fn layout(&self) -> Option<Layout> {
        match &self.content {
            NodeContent::Scalar(..) => None,
            NodeContent::List(_, layout) | NodeContent::Map(_, layout) => Some(*layout),
        }
    }

    pub(crate) fn entries(&self) -> &[MapEntry] {
        match &self.content {
            NodeContent::Map(entries, _) => entries,
            NodeContent::Scalar(..) | NodeContent::List(..) => &[],
        }
    }

    pub(crate) fn items(&self) -> &[Node] {
        match &self.content {
            NodeContent::List(items, _) => items,
            NodeContent::Scalar(..) | NodeContent::Map(..) => &[],
        }
    }

    /// The entry of a map with this name.
    pub(crate) fn entry(&self, name: &str) -> Option<&MapEntry> {
        self.entries().iter().find(|entry| entry.name() == name)
    }

    /// Calls `visit` with the byte range of every scalar, in the order of the text.
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
    pub(crate) fn name(&self) -> &str {
        self.key.as_scalar().map_or("", |(text, _)| text)
    }

    /// From the name, or the `?` before it, to the end of the value.
    pub(crate) fn span(&self) -> Range<usize> {
        self.start..self.value.span.end.max(self.key.span.end)
    }
}

/// Parses a document.
pub(crate) fn parse(text: &str) -> Parsed {
    let mut builder = TreeBuilder::new(text);
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let (more, failure) = match event {
            Ok((event, span)) => (builder.on_event(event, span), None),
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

/// Finds a tab that readers may take for indentation or refuse: any between indicators and values.
fn stray_tab(text: &str, gap: Range<usize>) -> Option<usize> {
    let comments = comments(text, gap.clone());
    text[gap.clone()].match_indices('\t').map(|(at, _)| gap.start + at).find(|&at| {
        let rest = text[at..].trim_start_matches([' ', '\t']);
        let last = rest.is_empty() || rest.starts_with(['\n', '\r', '#']);
        !last && !comments.iter().any(|comment| comment.contains(&at))
    })
}
