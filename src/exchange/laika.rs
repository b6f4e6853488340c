//! Laika's settings file: `.contentbase/settings.json`, its YAML form, or the settings object.

use crate::domain::{Attribute, Kind, Shorthand, Value};
use crate::exchange::{ImportOptions, ImportSource};
use crate::format::Fault;
use crate::format::foreign::ForeignNode;

/// The attribute that keeps Laika's attributes unknown to us.
pub(super) const EXTRA: &str = "x-laika";

/// The attribute that keeps a collection's own schema.
pub(super) const SCHEMA: &str = "x-schema";

/// Reads the settings of a content store.
pub(super) fn read(root: &ForeignNode, options: &ImportOptions) -> Result<ImportSource, Fault> {
    let mut source = ImportSource::default();
    let Some(collections) = root.get_non_null("collections") else { return Ok(source) };
    if !collections.is_map() {
        return Err(collections
            .at
            .fault("`collections` is a map in Laika's settings, from key to attributes"));
    }
    for (name, settings) in collections.entries() {
        import_collection(&mut source, name, settings, options);
    }
    for key in options.schemas.keys().filter(|key| collections.get(key).is_none()) {
        source.notes.push(root.at.fault(format!("{key}: has a schema and no settings, and is left out")));
    }
    Ok(source)
}

fn import_collection(
    source: &mut ImportSource,
    name: &ForeignNode,
    settings: &ForeignNode,
    options: &ImportOptions,
) {
    let text = name.as_text().unwrap_or_default();
    let Some(key) = source.key_at(name) else { return };
    let fault = |node: &ForeignNode, message: &str| node.at.fault(format!("{key}: {message}"));
    if !settings.is_map() {
        return source.faults.push(fault(name, "expected its attributes, such as `type: document`"));
    }
    if let Some(inner) = settings.get("key").filter(|inner| inner.as_text() != Some(text)) {
        return source
            .faults
            .push(fault(inner, "its `key` is another one; the name of its entry is what counts"));
    }
    let Some(kind) = settings.get("type").and_then(ForeignNode::as_text).and_then(Kind::parse) else {
        let at = settings.get("type").unwrap_or(name);
        return source.faults.push(fault(at, "its `type` is `document` or `media`"));
    };
    let schema = options.schemas.get(text).map(|schema| (SCHEMA.to_owned(), schema.clone()));
    let attributes = attributes(kind, settings, schema);
    source.add_candidate(key, kind, attributes, name.at, |path| settings.locate(path));
}

/// Returns the attributes; those that only Laika has are in a map of their own.
fn attributes(kind: Kind, settings: &ForeignNode, schema: Option<(String, Value)>) -> Vec<(String, Value)> {
    let all = settings.entries().filter_map(|(name, value)| Some((name.as_text()?, value)));
    let all = all.filter(|(name, _)| *name != "key" && !(*name == SCHEMA && schema.is_some()));
    let (known, extra): (Vec<_>, Vec<_>) = all.partition(|(name, _)| is_known(kind, name));
    let mut attributes: Vec<(String, Value)> = values(known);
    let mut extra = values(extra);
    if let Some(at) = attributes.iter().position(|(name, _)| name == EXTRA).filter(|_| !extra.is_empty()) {
        match attributes.remove(at) {
            (_, Value::Map(more)) => extra.extend(more),
            // A value that is not a map is kept under its own name.
            other => extra.push(other),
        }
    }
    if !extra.is_empty() {
        attributes.push((EXTRA.to_owned(), Value::Map(extra.into())));
    }
    attributes.extend(schema);
    attributes
}

fn values(entries: Vec<(&str, &ForeignNode)>) -> Vec<(String, Value)> {
    entries.into_iter().map(|(name, value)| (name.to_owned(), value.to_value())).collect()
}

/// Reports whether a collection of this kind can have the attribute as it is.
pub(super) fn is_known(kind: Kind, name: &str) -> bool {
    let shorthand = kind == Kind::Document && Shorthand::parse(name).is_some();
    name == "type" || shorthand || Attribute::parse(kind, name).is_some()
}
