//! The nodes of a YAML document with the bytes that each of them takes.
//!
//! Built from the events of `saphyr-parser` without recursion, and only as deep as a collection
//! may be, so no input can exhaust the stack. What the format forbids (anchors, tags, a second
//! document, duplicate names) is noted where it stands and reading goes on, so that one look
//! finds all of it.
//!
//! The parser's start of a node can be relied on, its end can't (a quoted scalar takes the
//! comment that follows it along), so ends are found here, in the text.

use std::ops::Range;

use saphyr_parser::{Event, Parser, ScalarStyle, Span};

use super::scalar::Style;
use crate::domain::VALUE_DEPTH_MAX;

/// One node and where it stands, in bytes.
#[derive(Debug, Clone)]
pub(super) struct Node {
    /// From its first to behind its last byte; empty, behind what precedes it, if nothing is
    /// written. A block collection begins with its first name or item, `- ` aside, and ends with
    /// its last.
    pub(super) span: Range<usize>,
    /// What it is.
    pub(super) content: Content,
}

/// What a node is.
#[derive(Debug, Clone)]
pub(super) enum Content {
    /// A text and how it is quoted.
    Scalar(String, Style),
    /// A list.
    List(Vec<Node>, Layout),
    /// A map.
    Map(Vec<Entry>, Layout),
}

/// How a list or map stands in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// On lines of its own.
    Block,
    /// In brackets or braces.
    Flow,
    /// One name and value as an item of a list in brackets, without braces.
    Pair,
}

/// One name and value of a map.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// The name: a scalar.
    pub(super) key: Node,
    /// The value.
    pub(super) value: Node,
}

/// Something wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// The first byte of it.
    pub(super) at: usize,
    /// What was found and what would be right.
    pub(super) message: String,
}

/// A document, read as far as it can be.
#[derive(Debug)]
pub(super) struct Parsed {
    /// The root, unless the text is no YAML or holds nothing.
    pub(super) root: Option<Node>,
    /// What is wrong, in no order.
    pub(super) faults: Vec<Found>,
}

impl Node {
    /// The text and style of a scalar.
    pub(super) fn as_scalar(&self) -> Option<(&str, Style)> {
        match &self.content {
            Content::Scalar(text, style) => Some((text, *style)),
            Content::List(..) | Content::Map(..) => None,
        }
    }

    /// The entries of a map.
    pub(super) fn entries(&self) -> &[Entry] {
        match &self.content {
            Content::Map(entries, _) => entries,
            Content::Scalar(..) | Content::List(..) => &[],
        }
    }

    /// The items of a list.
    pub(super) fn items(&self) -> &[Node] {
        match &self.content {
            Content::List(items, _) => items,
            Content::Scalar(..) | Content::Map(..) => &[],
        }
    }

    /// The value of a map's entry with this name.
    pub(super) fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.name() == name)
    }

    /// Calls `visit` with the bytes of every scalar, in the order of the text.
    pub(super) fn scalars(&self, visit: &mut impl FnMut(&Range<usize>)) {
        match &self.content {
            Content::Scalar(..) => visit(&self.span),
            Content::List(items, _) => items.iter().for_each(|item| item.scalars(visit)),
            Content::Map(entries, _) => entries.iter().for_each(|entry| {
                entry.key.scalars(visit);
                entry.value.scalars(visit);
            }),
        }
    }
}

impl Entry {
    /// The name.
    pub(super) fn name(&self) -> &str {
        self.key.as_scalar().map_or("", |(text, _)| text)
    }

    /// From the name to the end of the value.
    pub(super) fn span(&self) -> Range<usize> {
        self.key.span.start..self.value.span.end.max(self.key.span.end)
    }
}

/// Reads a document.
pub(super) fn parse(text: &str) -> Parsed {
    let mut builder = Builder::new(text);
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let more = match event {
            Ok((event, span)) => builder.take(event, span),
            Err(error) => {
                let at = builder.byte(error.marker().index());
                builder.fail(at, format!("this is not YAML: {}", error.info()))
            }
        };
        if !more {
            return Parsed { root: None, faults: builder.faults };
        }
    }
    if let Some(root) = &builder.root {
        let tabs = gaps(text, root).into_iter().find_map(|gap| stray_tab(text, gap));
        builder
            .faults
            .extend(tabs.map(|at| Found { at, message: "write blanks in place of the tab".into() }));
    }
    Parsed { root: builder.root, faults: builder.faults }
}

/// The bytes between the scalars: indentation, indicators and comments.
pub(super) fn gaps(text: &str, root: &Node) -> Vec<Range<usize>> {
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
pub(super) fn comments(text: &str, gap: Range<usize>) -> Vec<Range<usize>> {
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

/// Blanks to YAML, line ends included.
const BLANK: [char; 4] = [' ', '\t', '\r', '\n'];

/// A list or map whose end has not come yet.
struct Open {
    node: Node,
    /// A name that waits for its value.
    key: Option<Node>,
}

/// Makes nodes of events.
struct Builder<'t> {
    text: &'t str,
    /// Where each character begins, if they are not all one byte long.
    bytes: Option<Vec<usize>>,
    stack: Vec<Open>,
    root: Option<Node>,
    documents: usize,
    /// Behind the last scalar, bracket or brace.
    behind: usize,
    faults: Vec<Found>,
}

impl<'t> Builder<'t> {
    fn new(text: &'t str) -> Self {
        let bytes = (!text.is_ascii()).then(|| text.char_indices().map(|(at, _)| at).collect());
        Self { text, bytes, stack: Vec::new(), root: None, documents: 0, behind: 0, faults: Vec::new() }
    }

    /// The byte at which a character begins.
    fn byte(&self, character: usize) -> usize {
        let at = match &self.bytes {
            Some(bytes) => bytes.get(character).copied().unwrap_or(self.text.len()),
            None => character,
        };
        at.min(self.text.len())
    }

    fn note(&mut self, at: usize, message: impl Into<String>) {
        self.faults.push(Found { at, message: message.into() });
    }

    /// Notes a fault behind which nothing can be read.
    fn fail(&mut self, at: usize, message: impl Into<String>) -> bool {
        self.note(at, message);
        false
    }

    /// Takes the next event; false if reading can't go on.
    fn take(&mut self, event: Event<'_>, span: Span) -> bool {
        let at = self.byte(span.start.index());
        match event {
            Event::DocumentStart(_) => {
                self.documents += 1;
                self.documents == 1 || self.fail(at, "only one document is allowed in a file")
            }
            Event::Alias(_) => {
                self.note(at, "aliases are not allowed; write the value again");
                let end = self.byte(span.end.index()).max(at);
                self.behind = end;
                self.place(Node { span: at..end, content: Content::Scalar(String::new(), Style::Double) });
                true
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.bare(at, anchor, tag.is_some());
                if text_ends_unclear(self.text, &text, style) {
                    self.note(
                        self.text.len(),
                        "end the last line of the text with a line end, or leave its blanks out",
                    );
                }
                let scalar = self.scalar(at, self.byte(span.end.index()), text.into_owned(), style);
                self.behind = scalar.span.end;
                self.place(scalar);
                true
            }
            Event::SequenceStart(anchor, tag) => {
                self.bare(at, anchor, tag.is_some());
                self.open(at, !span.is_empty(), |layout| Content::List(Vec::new(), layout))
            }
            Event::MappingStart(anchor, tag) => {
                self.bare(at, anchor, tag.is_some());
                self.open(at, !span.is_empty(), |layout| Content::Map(Vec::new(), layout))
            }
            Event::SequenceEnd | Event::MappingEnd => {
                self.close();
                true
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => true,
        }
    }

    /// Notes an anchor or a tag.
    fn bare(&mut self, at: usize, anchor: usize, tagged: bool) {
        if anchor != 0 {
            self.note(at, "anchors are not allowed; write the value again where it is needed");
        } else if tagged {
            self.note(at, "tags are not allowed; write the value without it, a string in quotes");
        }
    }

    fn open(&mut self, at: usize, bracket: bool, content: impl FnOnce(Layout) -> Content) -> bool {
        if self.stack.len() > VALUE_DEPTH_MAX {
            return self.fail(at, format!("lists and maps may be nested {VALUE_DEPTH_MAX} deep"));
        }
        let inside = self.stack.last().is_some_and(|open| open.node.layout() != Some(Layout::Block));
        let layout = match bracket {
            true => Layout::Flow,
            false if inside => Layout::Pair,
            false => Layout::Block,
        };
        if layout == Layout::Flow {
            self.behind = at + 1;
        }
        self.stack.push(Open { node: Node { span: at..at, content: content(layout) }, key: None });
        true
    }

    fn close(&mut self) {
        let Some(Open { mut node, .. }) = self.stack.pop() else {
            return;
        };
        if node.layout() == Some(Layout::Flow) {
            let at = self.next();
            self.behind = at + usize::from(self.text[at..].starts_with(['}', ']']));
        }
        node.span.end = self.behind.max(node.span.start);
        let twice = repeated(node.entries());
        self.faults.extend(twice);
        self.place(node);
    }

    /// Puts a finished node where it belongs.
    fn place(&mut self, node: Node) {
        let Some(open) = self.stack.last_mut() else {
            self.root = Some(node);
            return;
        };
        let stray = match &mut open.node.content {
            Content::List(items, _) => {
                items.push(node);
                None
            }
            Content::Map(entries, _) => match open.key.take() {
                Some(key) => {
                    entries.push(Entry { key, value: node });
                    None
                }
                None => {
                    let stray = node.as_scalar().is_none().then_some(node.span.start);
                    open.key = Some(node);
                    stray
                }
            },
            Content::Scalar(..) => None,
        };
        if let Some(at) = stray {
            self.note(at, "a name is a string; lists and maps can't be names");
        }
    }

    /// Finds where a scalar really stands.
    fn scalar(&self, at: usize, end: usize, text: String, style: ScalarStyle) -> Node {
        let (span, style) = match style {
            ScalarStyle::Plain if text.is_empty() => (self.behind..self.behind, Style::Plain),
            ScalarStyle::Plain => (at..at + self.text[at..end.max(at)].trim_end().len(), Style::Plain),
            ScalarStyle::SingleQuoted => (self.quoted(at, '\''), Style::Single),
            ScalarStyle::DoubleQuoted => (self.quoted(at, '"'), Style::Double),
            ScalarStyle::Literal | ScalarStyle::Folded => (self.block(end, &text), Style::Block),
        };
        Node { span, content: Content::Scalar(text, style) }
    }

    /// From the opening to behind the closing quote.
    fn quoted(&self, at: usize, quote: char) -> Range<usize> {
        let open = self.text[at..].find(quote).map_or(at, |open| at + open);
        let mut rest = self.text[open..].char_indices().skip(1).peekable();
        while let Some((offset, c)) = rest.next() {
            if c == '\\' && quote == '"' {
                rest.next();
            } else if c == quote {
                if quote == '\'' && rest.peek().is_some_and(|(_, next)| *next == quote) {
                    rest.next();
                } else {
                    return at..open + offset + 1;
                }
            }
        }
        at..self.text.len()
    }

    /// From the `|` or `>` to the end of the last line that counts: blank lines at the end do
    /// only where the value ends in one.
    fn block(&self, end: usize, value: &str) -> Range<usize> {
        let start = self.next();
        let header = self.text[start..].lines().next().unwrap_or_default().trim_end();
        let content = &self.text[start..end.max(start)];
        let last = value.strip_suffix('\n').unwrap_or(value).rsplit('\n').next().unwrap_or_default();
        let content = if value.is_empty() || !last.trim_matches(BLANK).is_empty() {
            content.trim_end_matches(BLANK)
        } else {
            let lines = if end >= self.text.len() {
                content.len()
            } else {
                content.rfind('\n').map_or(0, |at| at + 1)
            };
            let lines = &content[..lines];
            let line = lines.strip_suffix('\n').unwrap_or(lines);
            line.strip_suffix('\r').unwrap_or(line)
        };
        start..start + content.len().max(header.len())
    }

    /// What follows the last scalar or bracket, indicators between them aside: a closing bracket,
    /// or the `|` or `>` of a block scalar.
    fn next(&self) -> usize {
        let mut at = self.behind;
        loop {
            let rest = &self.text[at..];
            let skipped =
                rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n', ':', '-', '?', ',']).len();
            at += skipped;
            if !self.text[at..].starts_with('#') {
                return at;
            }
            at = self.text[at..].find('\n').map_or(self.text.len(), |end| at + end);
        }
    }
}

impl Node {
    /// How a list or map stands in the file.
    pub(super) fn layout(&self) -> Option<Layout> {
        match &self.content {
            Content::Scalar(..) => None,
            Content::List(_, layout) | Content::Map(_, layout) => Some(*layout),
        }
    }
}

/// Whether readers disagree on the end of a block scalar: on blanks in a last line without end.
fn text_ends_unclear(file: &str, value: &str, style: ScalarStyle) -> bool {
    let last = file.rsplit('\n').next().unwrap_or_default();
    matches!(style, ScalarStyle::Literal | ScalarStyle::Folded)
        && (value.is_empty() || value.ends_with([' ', '\n']))
        && last.len() > last.trim_matches(BLANK).len()
        && last.trim_matches(BLANK).is_empty()
}

/// The names that a map has before.
fn repeated(entries: &[Entry]) -> Vec<Found> {
    let mut order: Vec<&Entry> = entries.iter().collect();
    order.sort_by_key(|entry| entry.name());
    let twice = order.windows(2).filter(|pair| pair[0].name() == pair[1].name());
    twice
        .map(|pair| Found {
            at: pair[1].key.span.start,
            message: format!("`{}` stands here twice; keep one", pair[1].name().escape_debug()),
        })
        .collect()
}
