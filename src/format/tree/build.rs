//! Building nodes from parser events, with the exact range of each.

use std::ops::Range;

use saphyr_parser::{Event, ScalarStyle, Span};

use crate::domain::{VALUE_DEPTH_MAX, excerpt};
use crate::format::lookalike::{MERGE_KEY, braces};
use crate::format::scalar::Style;
use crate::format::tree::{Failure, FaultAt, Layout, MapEntry, Node, NodeContent, comments};

/// YAML's white space, line ends included.
const BLANK: [char; 4] = [' ', '\t', '\r', '\n'];

/// The fault of a second document, which in a file of settings is one too many (YAML 1.2.2 section 9.2).
const SECOND_DOCUMENT: &str =
    "a line `---` or `...` divides the file in two, and only one part can be read; remove that line";

const ALIAS: &str =
    "a text that begins with `*` needs quotes; it would be an alias, and those are not allowed";

/// A list or map that has not ended yet.
struct Open {
    node: Node,
    /// A name that waits for its value.
    key: Option<Node>,
}

/// Builds nodes from events.
pub(crate) struct TreeBuilder<'t> {
    text: &'t str,
    /// The byte offset of each character, unless all are one byte long.
    bytes: Option<Vec<usize>>,
    stack: Vec<Open>,
    /// The root, once it is complete.
    pub(crate) root: Option<Node>,
    documents: usize,
    /// The end of the last scalar, bracket or brace.
    last_end: usize,
    /// The end of the text that was parsed beyond doubt.
    understood: usize,
    pub(crate) faults: Vec<FaultAt>,
}

impl<'t> TreeBuilder<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        let bytes = (!text.is_ascii()).then(|| text.char_indices().map(|(at, _)| at).collect());
        Self {
            text,
            bytes,
            stack: Vec::new(),
            root: None,
            documents: 0,
            last_end: 0,
            understood: 0,
            faults: Vec::new(),
        }
    }

    /// The byte at which a character begins.
    pub(crate) fn byte(&self, character: usize) -> usize {
        let at = match &self.bytes {
            Some(bytes) => bytes.get(character).copied().unwrap_or(self.text.len()),
            None => character,
        };
        at.min(self.text.len())
    }

    /// Describes the failure of the parser at a character.
    pub(crate) fn failure(&self, character: usize) -> Failure {
        let mut open = self.stack.iter().rev().map(|open| &open.node);
        let open = open.find(|node| node.layout() == Some(Layout::Flow)).map(|node| node.span.start);
        Failure { at: self.byte(character), understood_end: self.understood, open }
    }

    fn note(&mut self, at: usize, message: impl Into<String>) {
        self.faults.push(FaultAt { at, message: message.into() });
    }

    /// Records a fault after which nothing can be read.
    fn fail(&mut self, at: usize, message: impl Into<String>) -> bool {
        self.note(at, message);
        false
    }

    /// Handles the next event; returns false if reading can't continue.
    pub(crate) fn on_event(&mut self, event: Event<'_>, span: Span) -> bool {
        let at = self.byte(span.start.index());
        match event {
            Event::DocumentStart(_) => {
                self.documents += 1;
                self.documents == 1 || self.fail(at, SECOND_DOCUMENT)
            }
            Event::Alias(_) => {
                self.note(at, ALIAS);
                let end = self.byte(span.end.index()).max(at);
                self.last_end = end;
                self.place(Node {
                    span: at..end,
                    content: NodeContent::Scalar(String::new(), Style::Double),
                });
                true
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.bare(at, anchor, tag.is_some());
                if ends_unclear(self.text, self.byte(span.end.index()), style) {
                    self.note(
                        self.text.len(),
                        "end the last line of the text with a line end, or leave its blanks out",
                    );
                }
                let scalar = self.scalar(at, self.byte(span.end.index()), text.into_owned(), style);
                self.last_end = scalar.span.end;
                // An unquoted text may have continued over lines that were not meant to belong to it.
                self.understood = match style {
                    ScalarStyle::Plain => scalar.span.start,
                    _ => scalar.span.end,
                };
                self.place(scalar);
                true
            }
            Event::SequenceStart(anchor, tag) => {
                self.bare(at, anchor, tag.is_some());
                self.open(at, !span.is_empty(), |layout| NodeContent::List(Vec::new(), layout))
            }
            Event::MappingStart(anchor, tag) => {
                self.bare(at, anchor, tag.is_some());
                self.open(at, !span.is_empty(), |layout| NodeContent::Map(Vec::new(), layout))
            }
            Event::SequenceEnd | Event::MappingEnd => {
                self.close();
                true
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => true,
        }
    }

    /// Records an anchor or a tag as a fault.
    fn bare(&mut self, at: usize, anchor: usize, tagged: bool) {
        if anchor != 0 {
            self.note(
                at,
                "a text that begins with `&` needs quotes; it would be an anchor, and those are not allowed",
            );
        } else if tagged {
            self.note(
                at,
                "a text that begins with `!` needs quotes; it would be a tag, and those are not allowed",
            );
        }
    }

    fn open(&mut self, at: usize, bracket: bool, content: impl FnOnce(Layout) -> NodeContent) -> bool {
        if self.stack.len() > VALUE_DEPTH_MAX {
            return self.fail(at, too_deep());
        }
        let inside = self.stack.last().is_some_and(|open| open.node.layout() != Some(Layout::Block));
        let layout = match bracket {
            true => Layout::Flow,
            false if inside => Layout::Pair,
            false => Layout::Block,
        };
        if layout == Layout::Flow {
            self.last_end = at + 1;
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
            self.last_end = at + usize::from(self.text[at..].starts_with(['}', ']']));
        }
        node.span.end = self.last_end.max(node.span.start);
        let twice = repeated(node.entries());
        self.faults.extend(twice);
        self.place(node);
    }

    /// Adds a finished node to its parent, or makes it the root.
    fn place(&mut self, node: Node) {
        let Some(open) = self.stack.last_mut() else {
            self.root = Some(node);
            return;
        };
        let stray = match &mut open.node.content {
            NodeContent::List(items, _) => {
                items.push(node);
                None
            }
            NodeContent::Map(entries, _) => match open.key.take() {
                Some(key) => {
                    report_merge_key(&mut self.faults, &key, &node);
                    let from = entries.last().map_or(open.node.span.start, |last| last.span().end);
                    let start = mark(self.text, from..key.span.start).unwrap_or(key.span.start);
                    entries.push(MapEntry { start, key, value: node });
                    None
                }
                None => {
                    let stray = node.as_scalar().is_none().then_some(node.span.start);
                    open.key = Some(node);
                    stray
                }
            },
            NodeContent::Scalar(..) => None,
        };
        if let Some(at) = stray {
            match at.checked_sub(1).and_then(|at| Some((at, self.text.get(at..)?))) {
                Some((at, text)) if text.starts_with("{{") => self.note(at, braces(text)),
                _ => self.note(at, "a name is a string; lists and maps can't be names"),
            }
        }
    }

    /// Whether the next node is a name.
    fn wants_name(&self) -> bool {
        let open = self.stack.last();
        open.is_some_and(|open| matches!(open.node.content, NodeContent::Map(..)) && open.key.is_none())
    }

    /// Finds the exact range of a scalar.
    fn scalar(&self, at: usize, end: usize, mut text: String, style: ScalarStyle) -> Node {
        let (span, style) = match style {
            ScalarStyle::Plain if text.is_empty() => {
                // A missing name is reported at its colon.
                let at =
                    if self.wants_name() && self.text[at..].starts_with(':') { at } else { self.last_end };
                (at..at, Style::Plain)
            }
            ScalarStyle::Plain => (at..at + self.text[at..end.max(at)].trim_end().len(), Style::Plain),
            ScalarStyle::SingleQuoted => (self.quoted(at, '\''), Style::Single),
            ScalarStyle::DoubleQuoted => (self.quoted(at, '"'), Style::Double),
            ScalarStyle::Literal | ScalarStyle::Folded => {
                let span = match style {
                    ScalarStyle::Literal => self.literal(&text),
                    _ => self.folded(end, &text),
                };
                // A text keeps the line end of its last line, but at the end of a file there may be
                // none (YAML 1.2, `b-chomped-last`). The parser takes the end of the file for one.
                if end >= self.text.len() && !self.text.ends_with('\n') && text.ends_with('\n') {
                    text.pop();
                }
                (span, Style::Block)
            }
        };
        Node { span, content: NodeContent::Scalar(text, style) }
    }

    /// The range of a quoted scalar, quotes included.
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

    /// The range from the `|` to the end of the last line: there are as many lines as in the value.
    fn literal(&self, value: &str) -> Range<usize> {
        let start = self.next();
        let lines = self.text[start..].split_inclusive('\n').take(1 + value.lines().count());
        let end = start + lines.map(str::len).sum::<usize>();
        let text = &self.text[start..end];
        let text = text.strip_suffix('\n').unwrap_or(text);
        start..start + text.strip_suffix('\r').unwrap_or(text).len()
    }

    /// The range from the `>` to the end of the last line. Blank lines at the end belong to it only if
    /// the value ends in one.
    fn folded(&self, end: usize, value: &str) -> Range<usize> {
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

    /// The position of what follows the last scalar or bracket, after any indicators and comments: a
    /// closing bracket, or the `|` or `>` of a block scalar.
    fn next(&self) -> usize {
        let mut at = self.last_end;
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

/// Reports a merge key as such, in place of the faults of its aliases.
fn report_merge_key(faults: &mut Vec<FaultAt>, key: &Node, value: &Node) {
    let is_merge = matches!(key.as_scalar(), Some(("<<", Style::Plain)));
    let is_alias = |fault: &FaultAt| fault.message == ALIAS && value.span.contains(&fault.at);
    if is_merge && faults.iter().any(is_alias) {
        faults.retain(|fault| !is_alias(fault));
        faults.push(FaultAt { at: key.span.start, message: MERGE_KEY.to_owned() });
    }
}

/// The message for nesting that is too deep.
pub(crate) fn too_deep() -> String {
    format!("lists and maps may be nested {VALUE_DEPTH_MAX} deep")
}

/// Whether readers disagree on the end of a block scalar that ends at `end`. They do if the last
/// line of the file ends in blanks and has no line end.
fn ends_unclear(file: &str, end: usize, style: ScalarStyle) -> bool {
    matches!(style, ScalarStyle::Literal | ScalarStyle::Folded)
        && file.ends_with([' ', '\t'])
        && end >= file.trim_end_matches(BLANK).len()
}

/// Finds the `?` before a name, in the bytes between the name and what precedes it.
fn mark(text: &str, before: Range<usize>) -> Option<usize> {
    let marks = text.get(before.clone())?.match_indices('?').map(|(at, _)| before.start + at);
    let mut marks = marks.peekable();
    marks.peek()?;
    let comments = comments(text, before.clone());
    marks.find(|at| !comments.iter().any(|comment| comment.contains(at)))
}

/// Returns a fault for each repeated name of a map.
fn repeated(entries: &[MapEntry]) -> Vec<FaultAt> {
    let mut order: Vec<&MapEntry> = entries.iter().collect();
    order.sort_by_key(|entry| entry.name());
    let twice = order.windows(2).filter(|pair| pair[0].name() == pair[1].name());
    twice
        .map(|pair| FaultAt {
            at: pair[1].key.span.start,
            message: format!("`{}` stands here twice; keep one", excerpt(pair[1].name()).escape_debug()),
        })
        .collect()
}
