//! The configuration of Decap CMS, which Netlify, Static and Sveltia CMS read too.
//!
//! Folder collections become document collections, and media folders become media collections. Small settings
//! without an equivalent are kept together in `x-decap`, so that an export can restore them. `fields` and `editor`,
//! which describe forms, and `backend`, which contains secrets in practice, are never imported.

mod collection;
mod key;
mod media;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::domain::{Attribute, Catalog, Key, Value};
pub(super) use crate::exchange::decap::collection::{NOT_EXTRA, format_of, statuses};
use crate::exchange::{ImportOptions, ImportSource};
use crate::format::Fault;
use crate::format::foreign::{ForeignNode, Position};

/// The attribute that keeps small settings without an equivalent.
pub(super) const EXTRA: &str = "x-decap";

/// The attribute that keeps a name that is not a key.
pub(super) const ORIGINAL_NAME: &str = "x-decap-name";

/// The attribute that keeps the description.
pub(super) const DESCRIPTION: &str = "x-description";

/// What the whole configuration says about all of its collections.
struct Context<'n> {
    options: &'n ImportOptions,
    /// The keys that entries of this configuration have from an earlier import, by place in the list.
    known: HashMap<usize, Key>,
    /// The keys in `known`, folded; no other name may get them.
    reserved: HashSet<Key>,
    is_workflow: bool,
    /// How translations are stored, unless a collection says otherwise.
    i18n: Option<&'n ForeignNode>,
}

pub(super) fn read(
    root: &ForeignNode,
    options: &ImportOptions,
    there: &Catalog,
) -> Result<ImportSource, Fault> {
    let list = match root.get_non_null("collections") {
        None => &[][..],
        Some(node) => {
            node.items().ok_or_else(|| node.at.fault("`collections` is a list in Decap's configuration"))?
        }
    };
    let known = known(list, there, options.keep_files);
    let context = Context {
        options,
        reserved: known.values().map(Key::folded).collect(),
        known,
        is_workflow: root.get("publish_mode").and_then(ForeignNode::as_text) == Some("editorial_workflow"),
        i18n: root.get_non_null("i18n"),
    };
    let mut source = ImportSource::default();
    let mut media = media::Folders::default();
    for (place, node) in (1..).zip(list) {
        collection::import_entry(&mut source, &mut media, node, place, &context);
    }
    let singletons = root.get_non_null("singletons").and_then(ForeignNode::items).unwrap_or_default();
    for (place, node) in (1..).zip(singletons) {
        let name = node.get_non_null("name").and_then(ForeignNode::as_text);
        let called = name.map_or_else(|| format!("singleton-{place}"), str::to_owned);
        source.skipped.push((called, "a single file has no folder".to_owned()));
    }
    media.import_all(&mut source, root, options, there);
    Ok(source)
}

/// Normalizes a path as Decap does, without outer slashes and `./`.
fn inner_path(path: &str) -> &str {
    let mut path = path.trim_end_matches('/');
    while let Some(rest) = path.strip_prefix("./").or_else(|| path.strip_prefix('/')) {
        path = rest;
    }
    path
}

/// Returns the URL template of media: the public folder, and a placeholder for the file's name.
fn url(public_folder: &ForeignNode) -> Option<Value> {
    let folder = public_folder.as_text()?.trim_end_matches('/');
    Some(Value::from(format!("{folder}/{{filename}}")))
}

/// Returns the keys that collections have from an earlier import, which they keep at any place in the list. Those of
/// one name are distinguished by their folders, and those of one folder by their order, as long as none was added or
/// removed.
fn known(list: &[Arc<ForeignNode>], there: &Catalog, keep_files: bool) -> HashMap<usize, Key> {
    let mut named: HashMap<&str, &Key> = HashMap::new();
    let mut placed: HashMap<(&str, &str), Vec<&Key>> = HashMap::new();
    for it in there.iter() {
        let Some(name) = it.by_name(ORIGINAL_NAME).and_then(Value::as_text) else { continue };
        let directory = it.get(&Attribute::Directory).and_then(Value::as_text).unwrap_or_default();
        named.insert(name, it.key());
        placed.entry((name, directory)).or_default().push(it.key());
    }
    let name = |node: &Arc<ForeignNode>| Some(node.get_non_null("name")?.as_text()?.to_owned());
    let folder = |node| collection::folder_of(node, keep_files).unwrap_or_default();
    let entries: Vec<(usize, String, String)> =
        (1..).zip(list).filter_map(|(place, node)| Some((place, name(node)?, folder(node)))).collect();
    let mut names: HashMap<&str, usize> = HashMap::new();
    let mut places: HashMap<(&str, &str), Vec<usize>> = HashMap::new();
    for (place, name, folder) in &entries {
        *names.entry(name).or_default() += 1;
        places.entry((name, folder)).or_default().push(*place);
    }
    let mut known = HashMap::new();
    for (both, places) in places {
        match placed.get(&both) {
            // Only where an export has them in the order of the file: `-10` sorts before `-9`.
            Some(keys) if keys.len() == places.len() && keys.is_sorted_by_key(|key| key.as_str().len()) => {
                known.extend(places.into_iter().zip(keys.iter().copied().cloned()));
            }
            _ if names[both.0] == 1 => {
                known.extend(named.get(both.0).map(|key| (places[0], Key::clone(key))));
            }
            _ => {}
        }
    }
    known
}

/// Returns the key for a name, and the name if it differs, which is also noted.
fn key_and_name(
    source: &mut ImportSource,
    name: &str,
    place: usize,
    at: Position,
    context: &Context<'_>,
) -> (Key, Option<String>) {
    let key = match context.known.get(&place) {
        Some(key) => source.free(key, &HashSet::new()),
        None => source.free(&key::of(name, place), &context.reserved),
    };
    if key.as_str() == name {
        return (key, None);
    }
    source.notes.push(at.fault(format!("the collection {} becomes {key}", Value::from(name))));
    (key, Some(name.to_owned()))
}
