//! The proof that an edit did what it should and nothing else.

use super::super::read;
use super::super::tree::{self, Entry, Node};
use crate::domain::{Collection, Number, Value};

/// What an edit started from, and what it should come to.
pub(super) struct Proof<'a> {
    /// The text before.
    pub(super) text: &'a str,
    /// Its nodes.
    pub(super) root: &'a Node,
    /// What the text should read as afterwards.
    pub(super) next: &'a Collection,
    /// The names in the file that may change.
    pub(super) names: &'a [&'a str],
}

impl Proof<'_> {
    /// Whether a text is right; with `all_comments`, those inside of what changed are there too,
    /// except where their own value went away.
    pub(super) fn holds(&self, text: &str, all_comments: bool) -> bool {
        let Some(root) = tree::parse(text).root else {
            return false;
        };
        read::read_text(self.next.key(), text).as_ref() == Ok(self.next)
            && self.others(self.text, self.root) == self.others(text, &root)
            && self.keeps_comments(text, &root, all_comments)
            && (agrees(text, &root) || !agrees(self.text, self.root))
    }

    /// The bytes of the attributes that may not change.
    fn others<'t>(&self, text: &'t str, root: &Node) -> Vec<&'t str> {
        let others = root.entries().iter().filter(|entry| !self.may_change(entry));
        others.map(|entry| &text[entry.span()]).collect()
    }

    fn may_change(&self, entry: &Entry) -> bool {
        self.names.contains(&entry.name())
    }

    /// Whether the comments before are still there, in their order. Those of an attribute that
    /// changed may be gone with a value of its own, or at all if it was written anew.
    fn keeps_comments(&self, text: &str, root: &Node, all: bool) -> bool {
        let mut left = comments(text, root).into_iter().map(|(_, comment)| comment);
        let changing: Vec<_> = self.root.entries().iter().filter(|entry| self.may_change(entry)).collect();
        let gone = |at: usize| {
            changing.iter().any(|entry| {
                let span = entry.span();
                let line = self.text[span.end..].find('\n').map_or(self.text.len(), |stop| span.end + stop);
                let stays =
                    all && root.entry(entry.name()).is_some_and(|new| same_shape(&entry.value, &new.value));
                (span.start..line).contains(&at) && !stays
            })
        };
        comments(self.text, self.root)
            .into_iter()
            .filter(|(at, _)| !gone(*at))
            .all(|(_, comment)| left.any(|other| other == comment))
    }
}

/// Whether nothing was taken out of a value, so that all its comments have their place still.
fn same_shape(old: &Node, new: &Node) -> bool {
    old.layout() == new.layout()
        && old.items().len() <= new.items().len()
        && old
            .entries()
            .iter()
            .all(|entry| new.entry(entry.name()).is_some_and(|other| same_shape(&entry.value, &other.value)))
        && old.items().iter().zip(new.items()).all(|(one, two)| same_shape(one, two))
}

fn comments<'t>(text: &'t str, root: &Node) -> Vec<(usize, &'t str)> {
    let comments = tree::gaps(text, root).into_iter().flat_map(|gap| tree::comments(text, gap));
    comments.map(|comment| (comment.start, text[comment].trim_end())).collect()
}

/// Whether an independent reader sees the same values.
fn agrees(text: &str, root: &Node) -> bool {
    match serde_yaml::from_str(text) {
        Ok(seen) => same(&seen, &Value::Map(read::written(root))),
        Err(_) => false,
    }
}

fn same(seen: &serde_yaml::Value, value: &Value) -> bool {
    match value {
        Value::Null => seen.is_null(),
        Value::Bool(value) => seen.as_bool() == Some(*value),
        Value::Number(Number::Integer(number)) => seen.as_i64() == Some(*number),
        Value::Number(Number::Unsigned(number)) => seen.as_u64() == Some(*number),
        Value::Number(Number::Float(number)) => seen.is_f64() && seen.as_f64() == Some(*number),
        Value::Text(text) => seen.as_str() == Some(text),
        Value::List(items) => seen.as_sequence().is_some_and(|seen| {
            seen.len() == items.len() && seen.iter().zip(items).all(|(seen, item)| same(seen, item))
        }),
        Value::Map(members) => seen.as_mapping().is_some_and(|seen| {
            seen.len() == members.len()
                && members
                    .iter()
                    .all(|(name, value)| seen.get(name.as_str()).is_some_and(|seen| same(seen, value)))
        }),
    }
}
