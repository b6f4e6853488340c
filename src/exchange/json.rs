//! The list document of our own API, as `GET /collections` and `collectory export` return it.

use percent_encoding::percent_decode_str;

use crate::domain::Kind;
use crate::exchange::ImportSource;
use crate::format::Fault;
use crate::format::foreign::ForeignNode;

/// Reads a document whose data is one resource or a list of them.
pub(super) fn read(root: &ForeignNode) -> Result<ImportSource, Fault> {
    let Some(data) = root.get_non_null("data") else {
        return Err(root.at.fault("a document of the API has its collections in `data`"));
    };
    let mut source = ImportSource::default();
    source.partial = partial(root, data);
    source.sparse = sparse(root);
    match data.items() {
        Some(items) => items.iter().for_each(|resource| import_resource(&mut source, resource)),
        None => import_resource(&mut source, data),
    }
    Ok(source)
}

/// Returns why the document is incomplete: it says that it is a page or filtered, or it is not a list.
fn partial(root: &ForeignNode, data: &ForeignNode) -> Option<Fault> {
    let fault = |node: &ForeignNode, what| {
        node.at.fault(format!(
            "this is {what}, and --prune would delete all the others; give it the whole list, without page[...] and filter[...]"
        ))
    };
    if data.items().is_none() {
        return Some(fault(data, "one collection"));
    }
    let page = ["next", "prev"].iter().find_map(|name| root.get("links")?.get_non_null(name));
    let page = page.or_else(|| self_link_with_parameter(root, "page["));
    page.map(|node| fault(node, "one page of a list"))
        .or_else(|| self_link_with_parameter(root, "filter[").map(|node| fault(node, "a list with a filter")))
}

/// Returns why attributes may be missing.
fn sparse(root: &ForeignNode) -> Option<Fault> {
    let message = "this list leaves attributes out, and --existing replace and --prune take it for all there is; give it without fields[...]";
    self_link_with_parameter(root, "fields[").map(|node| node.at.fault(message))
}

/// Returns the document's `self` link, if a parameter of its query begins with `prefix`.
fn self_link_with_parameter<'a>(root: &'a ForeignNode, prefix: &str) -> Option<&'a ForeignNode> {
    let this = root.get("links")?.get("self")?;
    let address = this.get("href").unwrap_or(this).as_text()?;
    let (_, query) = address.split_once('?')?;
    let is_asked = |pair: &str| percent_decode_str(pair).decode_utf8_lossy().starts_with(prefix);
    query.split('&').any(is_asked).then_some(this)
}

fn import_resource(source: &mut ImportSource, resource: &ForeignNode) {
    let Some(id) = resource.get("id").filter(|id| id.as_text().is_some()) else {
        return source.faults.push(resource.at.fault("a resource has an `id`, the key of the collection"));
    };
    let Some(key) = source.key_at(id) else { return };
    let kind = resource.get("type").and_then(ForeignNode::as_text).and_then(kind_of);
    let Some(kind) = kind else {
        let message = format!("{key}: its `type` is `document-collection` or `media-collection`");
        return source.faults.push(resource.at.fault(message));
    };
    let attributes = resource.get("attributes");
    let written = attributes.into_iter().flat_map(ForeignNode::entries);
    let written = written.filter_map(|(name, value)| Some((name.as_text()?.to_owned(), value.to_value())));
    let locate = |path: &_| attributes.unwrap_or(resource).locate(path);
    source.add_candidate(key, kind, written.collect(), resource.at, locate);
}

/// Returns the kind that a resource's `type` names.
fn kind_of(text: &str) -> Option<Kind> {
    Kind::parse(text.strip_suffix("-collection")?)
}
