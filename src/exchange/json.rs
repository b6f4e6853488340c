//! The list document of our own API, as `GET /collections` and `collectory export` give it.

use super::Source;
use crate::domain::{Key, Kind};
use crate::format::Fault;
use crate::format::foreign::Node;

/// Reads a document whose data is one resource or a list of them.
pub(super) fn read(root: &Node) -> Result<Source, Fault> {
    let Some(data) = root.given("data") else {
        return Err(root.at.fault("a document of the API has its collections in `data`"));
    };
    let mut source = Source::default();
    match data.items() {
        Some(items) => items.iter().for_each(|resource| take(&mut source, resource)),
        None => take(&mut source, data),
    }
    Ok(source)
}

fn take(source: &mut Source, resource: &Node) {
    let Some(id) = resource.get("id").filter(|id| id.as_text().is_some()) else {
        return source.faults.push(resource.at.fault("a resource has an `id`, the key of the collection"));
    };
    let text = id.as_text().unwrap_or_default();
    let key = match Key::parse(text) {
        Ok(key) => key,
        Err(error) => return source.faults.push(id.at.fault(format!("{text}: {error}"))),
    };
    let kind = resource.get("type").and_then(Node::as_text).and_then(kind_of);
    let Some(kind) = kind else {
        let message = format!("{key}: its `type` is `document-collection` or `media-collection`");
        return source.faults.push(resource.at.fault(message));
    };
    let attributes = resource.get("attributes").map_or(resource, |attributes| attributes);
    let written = attributes
        .entries()
        .filter(|_| !std::ptr::eq(attributes, resource))
        .filter_map(|(name, value)| Some((name.as_text()?.to_owned(), value.to_value())));
    source.take(key, kind, written.collect(), resource.at, |path| attributes.locate(path));
}

/// The kind that a resource's `type` names.
fn kind_of(text: &str) -> Option<Kind> {
    Kind::parse(text.strip_suffix("-collection")?)
}
