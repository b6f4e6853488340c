//! Edits that leave a hand-written file as its author wrote it.
//!
//! Each attribute that differs is changed on its own, in the smallest way that is proven right:
//!
//! 1. **splice**: replace the bytes of the values that differ, down to one scalar; add or take
//!    out single items, members and attributes ([`value`], [`parts`]);
//! 2. **re-emit**: write the one attribute anew where it stands;
//! 3. **rewrite**: write the whole file in canonical form under its leading comment.
//!
//! The proof of a step is reading its result back: it must be the collection that was asked for,
//! every other attribute must stand there byte for byte and in its order, no comment outside of
//! what was replaced may be gone, and an independent reader must see what we see.
//! Whatever falls back says so in [`Edited::fallback`].

mod below;
mod parts;
mod proof;
mod splice;
mod statuses;
mod value;

use std::ops::Range;

use self::parts::Part;
use self::proof::Proof;
use self::splice::{Sheet, Splice, applied};
use self::value::Place;
use super::read::{self, BYTE_ORDER_MARK};
use super::scalar::Style;
use super::tree::{Entry, Layout, Node};
use super::{Edited, write};
use crate::domain::{Attribute, Change, Collection, Shorthand, Value, changes};

/// Turns the file of `before` into a file of `after`.
pub(super) fn edit(old: &[u8], before: &Collection, after: &Collection) -> Edited {
    let text = std::str::from_utf8(old).unwrap_or_default();
    let (mark, text) = match text.strip_prefix(BYTE_ORDER_MARK) {
        Some(rest) => (BYTE_ORDER_MARK, rest),
        None => ("", text),
    };
    // A line that is added behind a text without a last line end would give it one.
    let attempt = edited(text, before, after)
        .or_else(|reason| edited(&below::ended(text).ok_or(reason)?, before, after));
    let (text, fallback) = match attempt {
        Ok((text, reasons)) => (text, (!reasons.is_empty()).then(|| reasons.join("; "))),
        Err(reason) => {
            (rewritten(text, after), Some(format!("{reason}, so the whole file was written anew")))
        }
    };
    Edited { bytes: format!("{mark}{text}").into_bytes(), fallback }
}

/// The text after all changes, and why an attribute had to be written anew.
fn edited(text: &str, before: &Collection, after: &Collection) -> Result<(String, Vec<String>), String> {
    if before.kind() != after.kind() || before.key() != after.key() {
        return Err("the kind changed".to_owned());
    }
    let mut root = match read::read_with_tree(before.key(), text) {
        Ok((read, root)) if read == *before => root,
        _ => return Err("the file does not read as the collection it is said to hold".to_owned()),
    };
    let mut text = text.to_owned();
    let mut now = before.clone();
    let mut reasons = Vec::new();
    for change in changes(Some(before), Some(after)) {
        let next = with(&now, &change);
        let step = Step { text: &text, root: &root, next: &next, change: &change };
        let (changed, reason) = step.taken()?;
        reasons.extend(reason);
        (text, root) = changed;
        now = next;
    }
    Ok((text, reasons))
}

/// A collection with one change made.
fn with(collection: &Collection, change: &Change) -> Collection {
    let kept = collection.attributes().iter().filter(|(name, _)| name.as_str() != change.attribute);
    let mut attributes: Vec<(String, Value)> =
        kept.map(|(name, value)| (name.to_string(), value.clone())).collect();
    attributes.extend(change.to.clone().map(|value| (change.attribute.clone(), value)));
    Collection::new(collection.key().clone(), collection.kind(), attributes)
        .expect("the attributes of two collections of one kind keep every rule")
}

/// The whole file anew, with the comment at its top and its line ends.
fn rewritten(text: &str, after: &Collection) -> String {
    let sheet = Sheet::new(text);
    let is_leading = |line: &&str| line.starts_with('#') || line.trim().is_empty();
    let leading: String = text.split_inclusive('\n').take_while(is_leading).collect();
    let leading = if leading.contains('#') { leading } else { String::new() };
    format!("{leading}{}", sheet.lines(&write::write(after)))
}

/// The change of one attribute.
struct Step<'a> {
    text: &'a str,
    root: &'a Node,
    next: &'a Collection,
    change: &'a Change,
}

impl Step<'_> {
    /// The text after the change with its nodes, and why more than the values had to be written, if so.
    fn taken(&self) -> Result<((String, Node), Option<String>), String> {
        let name = &self.change.attribute;
        let proof = Proof { text: self.text, root: self.root, next: self.next, names: &self.names() };
        let spliced = self.spliced();
        let replaced: Vec<_> = spliced.iter().flatten().map(|splice| splice.at.clone()).collect();
        if let Some(changed) = self.proven(&proof, spliced, &replaced) {
            return Ok((changed, None));
        }
        match self.proven(&proof, self.emitted(), &proof.changing()) {
            Some(changed) => {
                Ok((changed, Some(format!("`{name}` could not be changed in place and was written anew"))))
            }
            None => Err(format!("`{name}` could not be changed in place")),
        }
    }

    /// The text with these splices made, and its nodes, if it is right.
    fn proven(
        &self,
        proof: &Proof<'_>,
        splices: Option<Vec<Splice>>,
        replaced: &[Range<usize>],
    ) -> Option<(String, Node)> {
        let text = applied(self.text, splices?)?;
        self.endings(text).into_iter().find_map(|text| {
            let root = proof.of(&text, replaced)?;
            Some((text, root))
        })
    }

    /// The text with the last line end that it should have, best first: none if there was none,
    /// unless a text behind `|` has come to stand last and needs it.
    fn endings(&self, text: String) -> Vec<String> {
        let end = Sheet::new(self.text).line_end;
        match text.strip_suffix(end) {
            Some(stripped) if !self.text.ends_with('\n') => vec![stripped.to_owned(), text],
            Some(_) => vec![text],
            None => {
                let ended = format!("{text}{end}");
                vec![text, ended]
            }
        }
    }

    /// The names in the file that make up the attribute.
    fn names(&self) -> Vec<&str> {
        let mut names = vec![self.change.attribute.as_str()];
        if self.change.attribute == Attribute::UnpublishedStatuses.as_str() {
            names.extend(Shorthand::ALL.map(Shorthand::as_str));
        }
        names
    }

    /// The smallest splices.
    fn spliced(&self) -> Option<Vec<Splice>> {
        let (sheet, root) = (Sheet::new(self.text), self.root);
        let Change { attribute, from, to } = self.change;
        if attribute == Attribute::UnpublishedStatuses.as_str() {
            return statuses::changed(sheet, root, self.next.kind(), to.as_ref());
        }
        match (root.entry(attribute), to) {
            (Some(entry), Some(to)) => {
                value::changed(sheet, place(sheet, root, entry), &entry.value, from.as_ref()?, to)
            }
            (Some(entry), None) => removed(sheet, root, &[entry]),
            (None, Some(to)) => added(sheet, root, self.next.kind(), attribute, to),
            (None, None) => Some(Vec::new()),
        }
    }

    /// The attribute written anew where its first part stands.
    fn emitted(&self) -> Option<Vec<Splice>> {
        let (sheet, root) = (Sheet::new(self.text), self.root);
        let names = self.names();
        let present: Vec<&Entry> =
            root.entries().iter().filter(|entry| names.contains(&entry.name())).collect();
        let Some(to) = &self.change.to else {
            return removed(sheet, root, &present);
        };
        let (first, others) = present.split_first()?;
        let mut splices = if others.is_empty() { Vec::new() } else { removed(sheet, root, others)? };
        let with = match root.layout()? {
            Layout::Block => sheet.block_entry(sheet.column(first.start), &self.change.attribute, to),
            Layout::Flow | Layout::Pair => write::flow_entry(&self.change.attribute, to, Style::Plain),
        };
        splices.push(Splice { at: first.span(), with });
        Some(splices)
    }
}

/// Where the value of one of the root's entries stands.
fn place<'a>(sheet: Sheet<'_>, root: &Node, entry: &'a Entry) -> Place<'a> {
    match root.layout() {
        Some(Layout::Block) => Place::Entry { entry, column: sheet.column(entry.start) },
        _ => Place::Flow,
    }
}

/// Takes attributes out of the root.
fn removed(sheet: Sheet<'_>, root: &Node, entries: &[&Entry]) -> Option<Vec<Splice>> {
    let gone = |entry: &Entry| entries.iter().any(|it| it.key.span == entry.key.span);
    let indices: Vec<usize> = (0..root.entries().len()).filter(|&at| gone(&root.entries()[at])).collect();
    parts::Parts::of(sheet, root)?.removed(&indices)
}

/// Adds an attribute behind the one that precedes it canonically.
fn added(
    sheet: Sheet<'_>,
    root: &Node,
    kind: crate::domain::Kind,
    name: &str,
    value: &Value,
) -> Option<Vec<Splice>> {
    let rank = |name: &str| match Shorthand::parse(name) {
        Some(_) => Some(Attribute::UnpublishedStatuses),
        None => Attribute::parse(kind, name),
    };
    let new = rank(name);
    let ranked = root.entries().iter().enumerate().map(|(at, entry)| (rank(entry.name()), at));
    let (_, anchor) = ranked.filter(|(rank, _)| *rank <= new).max()?;
    parts::Parts::of(sheet, root)?.inserted_behind(anchor, &[Part::Member(name, value)], Style::Plain)
}

#[cfg(test)]
mod tests;
