//! The configuration of Decap CMS, which Netlify, Static and Sveltia CMS read too.
//!
//! Folder collections become document collections, media folders media collections; small settings
//! without a home stay together in `x-decap`, so that an export can give them back. Never taken over:
//! `fields` and `editor`, which are about forms, and `backend`, which holds secrets in the wild.

mod collection;
mod key;
mod media;

use super::{Options, Source};
use crate::domain::{Key, Value};
use crate::format::Fault;
use crate::format::foreign::{Node, Position};

/// Where small settings without a home go.
pub(super) const EXTRA: &str = "x-decap";

/// Where the name goes that is no key.
pub(super) const ORIGINAL_NAME: &str = "x-decap-name";

/// Where the description goes.
pub(super) const DESCRIPTION: &str = "x-description";

/// What the whole configuration says about each of its collections.
struct Context<'n> {
    options: &'n Options,
    is_workflow: bool,
    /// How translations lie on disk, unless a collection says otherwise.
    i18n: Option<&'n Node>,
}

/// Reads a configuration.
pub(super) fn read(root: &Node, options: &Options) -> Result<Source, Fault> {
    let context = Context {
        options,
        is_workflow: root.get("publish_mode").and_then(Node::as_text) == Some("editorial_workflow"),
        i18n: root.given("i18n"),
    };
    let mut source = Source::default();
    let list = match root.given("collections") {
        None => &[][..],
        Some(node) => {
            node.items().ok_or_else(|| node.at.fault("`collections` is a list in Decap's configuration"))?
        }
    };
    let mut media = media::Folders::default();
    for (index, node) in list.iter().enumerate() {
        collection::take(&mut source, &mut media, node, index + 1, &context);
    }
    for (index, node) in root.given("singletons").and_then(Node::items).unwrap_or_default().iter().enumerate()
    {
        let name = node
            .given("name")
            .and_then(Node::as_text)
            .map_or_else(|| format!("singleton-{}", index + 1), str::to_owned);
        source.skipped.push((name, "a single file has no folder".to_owned()));
    }
    media.take_all(&mut source, root, options);
    Ok(source)
}

/// A path as Decap takes it, without outer slashes and `./`.
fn inner_path(path: &str) -> &str {
    let mut path = path.trim_end_matches('/');
    while let Some(rest) = path.strip_prefix("./").or_else(|| path.strip_prefix('/')) {
        path = rest;
    }
    path
}

/// Where a template for the file's name is added to the public folder of media.
fn url(public_folder: &Node) -> Option<Value> {
    let folder = public_folder.as_text()?.trim_end_matches('/');
    Some(Value::from(format!("{folder}/{{filename}}")))
}

/// Takes a collection over under a key that is free; tells where that is not its name.
fn keyed(source: &mut Source, name: &str, place: usize, at: Position) -> (Key, Option<String>) {
    let key = source.free(&key::of(name, place));
    if key.as_str() == name {
        return (key, None);
    }
    source.notes.push(at.fault(format!("the collection {} becomes {key}", Value::from(name))));
    (key, Some(name.to_owned()))
}
