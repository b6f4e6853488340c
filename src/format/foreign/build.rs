//! Building nodes from events, with aliases and merge keys expanded within limits.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use saphyr_parser::{Event, Marker, ScalarStyle, Tag};

use crate::domain::excerpt;
use crate::format::Fault;
use crate::format::foreign::{EXPANDED_NODES_MAX, ForeignContent, ForeignNode, Position, SOURCE_DEPTH_MAX};

/// A list or map that has not ended yet.
struct Open {
    node: ForeignNode,
    size: Size,
    anchor: usize,
    /// A name that waits for its value.
    key: Option<Arc<ForeignNode>>,
}

/// The size of a node, which counts again for each of its aliases.
#[derive(Debug, Clone, Copy)]
struct Size {
    nodes: usize,
    depth: usize,
}

const LEAF: Size = Size { nodes: 1, depth: 0 };

/// Builds nodes from events without recursion, so no input exhausts the stack.
#[derive(Default)]
pub(super) struct ForeignBuilder {
    stack: Vec<Open>,
    anchors: HashMap<usize, (Arc<ForeignNode>, Size)>,
    expanded: usize,
    documents: usize,
    pub(super) root: Option<Arc<ForeignNode>>,
}

impl ForeignBuilder {
    pub(super) fn on_event(&mut self, event: Event<'_>, start: Marker) -> Result<(), Fault> {
        let at = Position { line: start.line(), column: start.col() + 1 };
        match event {
            Event::DocumentStart(_) => {
                self.documents += 1;
                match self.documents {
                    1 => Ok(()),
                    _ => Err(at.fault("a second document begins here; only one is allowed in a file")),
                }
            }
            Event::Scalar(text, style, anchor, tag) => {
                let content = match style {
                    ScalarStyle::Plain if !is_string(tag.as_deref()) => {
                        ForeignContent::Plain(text.into_owned())
                    }
                    _ => ForeignContent::Text(text.into_owned()),
                };
                self.place(Arc::new(ForeignNode { at, content }), LEAF, anchor)
            }
            Event::Alias(anchor) => self.alias(anchor, at),
            Event::SequenceStart(anchor, _) => self.open(at, anchor, ForeignContent::List(Vec::new())),
            Event::MappingStart(anchor, _) => self.open(at, anchor, ForeignContent::Map(Vec::new())),
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
        }
    }

    fn open(&mut self, at: Position, anchor: usize, content: ForeignContent) -> Result<(), Fault> {
        if self.stack.len() >= SOURCE_DEPTH_MAX {
            return Err(too_deep(at));
        }
        self.stack.push(Open { node: ForeignNode { at, content }, size: LEAF, anchor, key: None });
        Ok(())
    }

    fn close(&mut self) -> Result<(), Fault> {
        let Some(Open { mut node, mut size, anchor, .. }) = self.stack.pop() else { return Ok(()) };
        if let ForeignContent::Map(entries) = &mut node.content {
            distinct(entries)?;
            *entries = merged(std::mem::take(entries))?;
        }
        size.depth += 1;
        self.place(Arc::new(node), size, anchor)
    }

    fn alias(&mut self, anchor: usize, at: Position) -> Result<(), Fault> {
        let Some((node, size)) = self.anchors.get(&anchor) else {
            return Err(at.fault("this alias stands inside of what it stands for"));
        };
        self.expanded = self.expanded.saturating_add(size.nodes);
        if self.expanded > EXPANDED_NODES_MAX {
            return Err(at.fault(format!("the aliases stand for more than {EXPANDED_NODES_MAX} values")));
        }
        if self.stack.len() + size.depth > SOURCE_DEPTH_MAX {
            return Err(too_deep(at));
        }
        let (node, size) = (Arc::clone(node), *size);
        self.place(node, size, 0)
    }

    /// Adds a finished node to its parent, or makes it the root.
    fn place(&mut self, node: Arc<ForeignNode>, size: Size, anchor: usize) -> Result<(), Fault> {
        if anchor != 0 {
            self.anchors.insert(anchor, (Arc::clone(&node), size));
        }
        let Some(open) = self.stack.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        open.size.nodes = open.size.nodes.saturating_add(size.nodes);
        open.size.depth = open.size.depth.max(size.depth);
        match &mut open.node.content {
            ForeignContent::List(items) => items.push(node),
            ForeignContent::Map(entries) => match open.key.take() {
                Some(key) => entries.push((key, node)),
                None if node.as_text().is_none() => {
                    return Err(node.at.fault("a name is a text; lists and maps can't be names"));
                }
                None => open.key = Some(node),
            },
            ForeignContent::Plain(_) | ForeignContent::Text(_) => {}
        }
        Ok(())
    }
}

fn too_deep(at: Position) -> Fault {
    at.fault(format!("lists and maps may be nested {SOURCE_DEPTH_MAX} deep"))
}

/// Whether a tag makes a text of any scalar.
fn is_string(tag: Option<&Tag>) -> bool {
    tag.is_some_and(|tag| tag.suffix == "str")
}

type Entries = Vec<(Arc<ForeignNode>, Arc<ForeignNode>)>;

/// Refuses a duplicate name, because readers disagree on which one counts.
fn distinct(entries: &Entries) -> Result<(), Fault> {
    let mut seen = HashSet::new();
    let mut names = entries.iter().map(|(name, _)| name).filter(|name| !is_merge(name));
    match names.find(|name| !seen.insert(name.as_text())) {
        Some(twice) => {
            let name = excerpt(twice.as_text().unwrap_or_default());
            Err(twice.at.fault(format!("`{}` stands here twice; keep one", name.escape_debug())))
        }
        None => Ok(()),
    }
}

fn is_merge(name: &ForeignNode) -> bool {
    matches!(&name.content, ForeignContent::Plain(text) if text == "<<")
}

/// Replaces `<<` by the entries of other maps. A name in the map itself wins, then the first one
/// ([YAML 1.1, merge key](https://yaml.org/type/merge.html)).
fn merged(entries: Entries) -> Result<Entries, Fault> {
    if !entries.iter().any(|(name, _)| is_merge(name)) {
        return Ok(entries);
    }
    let written = entries.iter().filter(|(name, _)| !is_merge(name));
    let mut taken: HashSet<String> =
        written.filter_map(|(name, _)| name.as_text().map(str::to_owned)).collect();
    let mut out = Vec::with_capacity(entries.len());
    for (name, value) in entries {
        if !is_merge(&name) {
            out.push((name, value));
            continue;
        }
        for map in maps(&value)? {
            let fresh = |name: &ForeignNode| taken.insert(name.as_text().unwrap_or_default().to_owned());
            out.extend(borrowed(&map, fresh));
        }
    }
    Ok(out)
}

fn borrowed(map: &ForeignNode, mut fresh: impl FnMut(&ForeignNode) -> bool) -> Entries {
    match &map.content {
        ForeignContent::Map(entries) => entries.iter().filter(|(name, _)| fresh(name)).cloned().collect(),
        ForeignContent::Plain(_) | ForeignContent::Text(_) | ForeignContent::List(_) => Vec::new(),
    }
}

/// The maps to which a merge key refers.
fn maps(value: &Arc<ForeignNode>) -> Result<Vec<Arc<ForeignNode>>, Fault> {
    let maps = value.items().map_or_else(|| vec![Arc::clone(value)], <[_]>::to_vec);
    match maps.iter().find(|map| !map.is_map()) {
        Some(other) => Err(other.at.fault("`<<` takes the entries of a map, or of a list of maps")),
        None => Ok(maps),
    }
}
