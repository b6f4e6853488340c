//! Edits that keep a hand-written file as its author wrote it.
//!
//! All changes are made in one pass over one parsed tree, by the smallest of these steps that is
//! proven right:
//!
//! 1. **splice**: replace the bytes of the values that differ, down to one scalar; add or remove
//!    single items, members and attributes ([`value`], [`parts`]);
//! 2. **re-emit**: rewrite the attributes that differ in their places;
//! 3. **rewrite**: write the whole file in canonical form under its leading comment.
//!
//! A step is proven by reading its result back, once. It must be the requested collection, every
//! other attribute must be unchanged byte for byte and in its order, no comment outside of what was
//! replaced may be missing, and an independent reader must read the same values.
//! [`EditedFile::fallback`] says whether a later step was needed, and why.

mod below;
mod parts;
mod proof;
mod splice;
mod statuses;
mod step;
mod value;

use crate::domain::{Attribute, Change, Collection, Kind, Shorthand, changes};
use crate::format::edit::parts::{Insertion, NewPart, Parts};
use crate::format::edit::proof::Proof;
use crate::format::edit::splice::{SourceText, Splice, applied};
use crate::format::edit::step::RootEdit;
use crate::format::edit::value::style_behind;
use crate::format::read::BYTE_ORDER_MARK;
use crate::format::tree::Node;
use crate::format::{EditedFile, read, write};

/// Maximum number of attributes that a reason names.
const NAMES_SHOWN_MAX: usize = 5;

/// Turns the file of `before` into a file of `after`, changing only the bytes of what changed.
///
/// `old` must read as `before`.
#[must_use]
pub fn edit(old: &[u8], before: &Collection, after: &Collection) -> EditedFile {
    let text = std::str::from_utf8(old).unwrap_or_default();
    let (mark, text) = match text.strip_prefix(BYTE_ORDER_MARK) {
        Some(rest) => (BYTE_ORDER_MARK, rest),
        None => ("", text),
    };
    // A line that is added after a block scalar without a last line end would give it one.
    let attempt = try_edit(text, before, after)
        .or_else(|reason| try_edit(&below::ended(text).ok_or(reason)?, before, after));
    let mut edited = attempt.unwrap_or_else(|reason| EditedFile {
        bytes: rewritten(text, after).into_bytes(),
        collection: after.clone(),
        fallback: Some(format!("{reason}, so the whole file was written anew")),
    });
    edited.bytes.splice(..0, mark.bytes());
    edited
}

/// Returns the text with all changes, or why they can't be made in it.
fn try_edit(text: &str, before: &Collection, after: &Collection) -> Result<EditedFile, String> {
    if before.kind() != after.kind() || before.key() != after.key() {
        return Err("the kind changed".to_owned());
    }
    let root = match read::read_with_tree(before.key(), text) {
        Ok((read, root)) if read == *before => root,
        _ => return Err("the file does not read as the collection it is said to hold".to_owned()),
    };
    let changes = changes(Some(before), Some(after));
    let edit = Edit { source: SourceText::new(text), root: &root, after, changes: &changes };
    let whole = || changes.iter().map(|change| change.attribute.as_str()).collect::<Vec<_>>();
    edit.try_apply(|change| edit.in_place(change))
        .or_else(|| edit.try_apply(|_| None))
        .ok_or_else(|| format!("{} could not be changed in place", listed(&whole())))
}

/// The first names of a list, and the number of the others.
fn listed(names: &[&str]) -> String {
    let shown: Vec<_> = names.iter().take(NAMES_SHOWN_MAX).map(|name| format!("`{name}`")).collect();
    match names.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Rewrites the whole file, but keeps the comment at its top and its line ends.
fn rewritten(text: &str, after: &Collection) -> String {
    let source = SourceText::new(text);
    let is_leading = |line: &&str| line.starts_with('#') || line.trim().is_empty();
    let leading: String = text.split_inclusive('\n').take_while(is_leading).collect();
    let leading = if leading.contains('#') { leading } else { String::new() };
    format!("{leading}{}", source.lines(&write::write(after)))
}

/// The names in a file that make up an attribute.
fn names(attribute: &str) -> impl Iterator<Item = &str> {
    let is_statuses = attribute == Attribute::UnpublishedStatuses.as_str();
    let shorthands = Shorthand::ALL.map(Shorthand::as_str).into_iter().filter(move |_| is_statuses);
    std::iter::once(attribute).chain(shorthands)
}

struct Edit<'a> {
    source: SourceText<'a>,
    root: &'a Node,
    after: &'a Collection,
    changes: &'a [Change],
}

impl Edit<'_> {
    /// Returns the text with all changes, if it is proven right. Attributes that can't be changed in place are
    /// rewritten, and named in the fallback.
    fn try_apply(&self, in_place: impl Fn(&Change) -> Option<RootEdit>) -> Option<EditedFile> {
        let mut whole = RootEdit::default();
        let mut anew = Vec::new();
        for change in self.changes {
            whole.extend(in_place(change).unwrap_or_else(|| {
                anew.push(change.attribute.as_str());
                self.anew(change)
            }));
        }
        let (text, collection) = self.proven(self.splices(whole)?)?;
        let fallback = (!anew.is_empty())
            .then(|| format!("{} could not be changed in place and was written anew", listed(&anew)));
        Some(EditedFile { bytes: text.into_bytes(), collection, fallback })
    }

    /// Makes the smallest change of an attribute.
    fn in_place(&self, change: &Change) -> Option<RootEdit> {
        let Change { attribute, from, to } = change;
        if attribute == Attribute::UnpublishedStatuses.as_str() {
            return statuses::changed(self.source, self.root, to.as_ref());
        }
        let mut step = RootEdit::default();
        match (self.root.entry(attribute), to) {
            (Some(entry), Some(to)) => {
                step.change(self.source, self.root, entry, from.as_ref()?, to)?;
            }
            (Some(entry), None) => step.remove(entry),
            (None, Some(to)) => step.add(attribute, to),
            (None, None) => {}
        }
        Some(step)
    }

    /// Rewrites an attribute at the position of its first part.
    fn anew(&self, Change { attribute, from: _, to }: &Change) -> RootEdit {
        let mut step = RootEdit::default();
        let mut present = names(attribute).filter_map(|name| self.root.entry(name)).collect::<Vec<_>>();
        present.sort_by_key(|entry| entry.start);
        match (present.split_first(), to) {
            (Some((first, others)), Some(to)) => {
                step.write(self.source, self.root, first, attribute, to);
                others.iter().for_each(|entry| step.remove(entry));
            }
            (Some(_), None) => present.iter().for_each(|entry| step.remove(entry)),
            (None, Some(to)) => step.add(attribute, to),
            (None, None) => {}
        }
        step
    }

    /// All splices of a step, in the order of the text.
    fn splices(&self, step: RootEdit) -> Option<Vec<Splice>> {
        let entries = self.root.entries();
        let is_gone = |at: usize| step.gone.contains(&entries[at].start);
        let (gone, kept): (Vec<usize>, Vec<usize>) = (0..entries.len()).partition(|&at| is_gone(at));
        let ranks: Vec<_> = kept.into_iter().map(|at| (self.rank(entries[at].name()), at)).collect();
        let mut insertions: Vec<Insertion<'_>> = Vec::new();
        for (name, value) in &step.added {
            let rank = self.rank(name);
            let (_, anchor) = *ranks.iter().filter(|(kept, _)| *kept <= rank).max()?;
            match insertions.iter_mut().find(|insertion| insertion.after == Some(anchor)) {
                Some(insertion) => insertion.parts.push(NewPart::Member(name, value)),
                None => {
                    let parts = vec![NewPart::Member(name, value)];
                    let style = style_behind(self.root, &entries[anchor]);
                    insertions.push(Insertion { after: Some(anchor), parts, style });
                }
            }
        }
        let mut splices = step.splices;
        splices.extend(Parts::of(self.source, self.root)?.changed(&gone, &insertions)?);
        splices.sort_by_key(|splice| (splice.at.start, splice.at.end));
        Some(splices)
    }

    /// The rank of a name in canonical order; `type` is first.
    fn rank(&self, name: &str) -> Option<Attribute> {
        match Shorthand::parse(name).filter(|_| self.after.kind() == Kind::Document) {
            Some(_) => Some(Attribute::UnpublishedStatuses),
            None => Attribute::parse(self.after.kind(), name),
        }
    }

    /// Applies splices; returns the text and the collection that it reads as, if that is proven right.
    fn proven(&self, splices: Vec<Splice>) -> Option<(String, Collection)> {
        let names = self.changes.iter().flat_map(|change| names(&change.attribute)).collect();
        let proof = Proof { text: self.source.text, root: self.root, after: self.after, names };
        let text = applied(self.source.text, &splices)?;
        self.endings(text).into_iter().find_map(|text| {
            let read = proof.read(&text, &splices)?;
            Some((text, read))
        })
    }

    /// The text with and without a last line end, best first: without one if there was none before,
    /// unless the last value now is a block scalar that needs it.
    fn endings(&self, text: String) -> Vec<String> {
        let end = self.source.line_end;
        match text.strip_suffix(end) {
            Some(stripped) if !self.source.text.ends_with('\n') => vec![stripped.to_owned(), text],
            Some(_) => vec![text],
            None => {
                let ended = format!("{text}{end}");
                vec![text, ended]
            }
        }
    }
}

#[cfg(test)]
mod tests;
