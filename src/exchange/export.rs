//! Collections in the formats of other programs.

mod decap;

use std::collections::BTreeSet;

use crate::domain::{Attribute, Catalog, Collection, Key, Value};
pub(crate) use crate::exchange::export::decap::decap;
use crate::exchange::laika::{EXTRA, is_known};
use crate::exchange::plan::{Existing, ExistingCollections, PlanStep, plan};
use crate::exchange::{Form, ImportOptions, Schemas, parse};
use crate::format;

/// Writes one document `collections:`, with the attributes of each as its file has them.
pub(crate) fn yaml(catalog: &Catalog) -> String {
    let collections = catalog.iter().map(|it| (it.key().to_string(), Value::Map(attributes(it).into())));
    format::write_document(&[("collections".to_owned(), Value::Map(collections.collect()))])
}

/// Writes Laika's settings file.
pub(crate) fn laika(catalog: &Catalog) -> String {
    let collections = catalog.iter().map(|it| (it.key().to_string(), Value::Map(settings(it).into())));
    let document = Value::from([("collections", Value::Map(collections.collect()))]);
    let mut out = String::new();
    pretty(&mut out, &document, 0);
    out.push('\n');
    out
}

/// Lists what Laika's settings file adds to the collections: Laika refuses the whole file if a status has no name.
pub(crate) fn additions(catalog: &Catalog) -> Vec<String> {
    let nameless = |it: &Collection| -> Vec<String> {
        let Some(Value::Map(statuses)) = it.get(&Attribute::UnpublishedStatuses) else { return Vec::new() };
        let nameless = statuses.iter().filter(|(_, status)| !has_name(status));
        let describe = |status: &str| {
            format!("{}: the status `{status}` has no name, and gets its key for one", it.key())
        };
        nameless.map(|(status, _)| describe(status)).collect()
    };
    catalog.iter().flat_map(|it| nameless(it)).collect()
}

/// Lists what a Decap configuration can't express: what importing it would change in the catalog that it came from.
pub(crate) fn inexpressible(text: &str, catalog: &Catalog) -> Vec<String> {
    let media_key = Key::parse("media").expect("it is a key");
    let options = ImportOptions { keep_files: false, media_key, schemas: Schemas::default() };
    let there = ExistingCollections { catalog: catalog.clone(), ..ExistingCollections::default() };
    let source = parse(text.as_bytes(), Some(Form::Decap)).and_then(|parsed| parsed.read(&options, catalog));
    match source.and_then(|source| plan(source, &there, Existing::Replace, true)) {
        Err(fault) => vec![format!("it can't be imported: {}", fault.message)],
        Ok(plan) => {
            let faults = plan.faults.iter().map(|fault| format!("it can't be imported: {}", fault.message));
            let lost =
                plan.lines.iter().filter(|line| matches!(line.step, PlanStep::Update(_) | PlanStep::Delete));
            faults.chain(lost.map(|line| format!("an import of it would {line}"))).collect()
        }
    }
}

/// Writes a table for a spreadsheet: a row for each collection, a column for each attribute that one of them has.
pub(crate) fn csv(catalog: &Catalog) -> csv::Result<Vec<u8>> {
    let attributes = catalog.iter().flat_map(|it| it.attributes());
    let columns: BTreeSet<&Attribute> = attributes.map(|(attribute, _)| attribute).collect();
    let mut table = csv::Writer::from_writer(Vec::new());
    table.write_record(["id", "type"].into_iter().chain(columns.iter().map(|it| it.as_str())))?;
    for collection in catalog.iter() {
        let value = |column: &&Attribute| collection.get(column).map_or_else(String::new, format::csv::cell);
        let start = [collection.key().to_string(), collection.kind().to_string()];
        table.write_record(start.into_iter().chain(columns.iter().map(value)))?;
    }
    table.into_inner().map_err(|error| error.into_error().into())
}

/// Returns the attributes as the file has them, `type` first.
fn attributes(collection: &Collection) -> Vec<(String, Value)> {
    let kind = ("type".to_owned(), Value::from(collection.kind().as_str()));
    let all = collection.attributes().iter().map(|(name, value)| (name.to_string(), value.clone()));
    std::iter::once(kind).chain(all).collect()
}

/// Returns the attributes with `key`, and with Laika's own attributes where Laika looks for them.
fn settings(collection: &Collection) -> Vec<(String, Value)> {
    let mut settings = attributes(collection);
    settings.insert(1, ("key".to_owned(), collection.key().as_str().into()));
    let statuses = Attribute::UnpublishedStatuses.to_string();
    if let Some((_, statuses)) = settings.iter_mut().find(|(name, _)| *name == statuses) {
        *statuses = named(statuses);
    }
    let extra = settings.iter().position(|(name, _)| name == EXTRA);
    let is_lost = |name: &str| name == "key" || is_known(collection.kind(), name);
    if let Some(at) = extra
        && let Value::Map(members) = &settings[at].1
        && !members.is_empty()
        && !members.iter().any(|(name, _)| is_lost(name))
    {
        let members = members.to_vec();
        settings.splice(at..=at, members);
    }
    settings
}

/// Gives each status a name, because Laika requires one.
fn named(statuses: &Value) -> Value {
    let Value::Map(statuses) = statuses else { return statuses.clone() };
    let named = |(key, status): &(String, Value)| match status {
        Value::Map(members) if !has_name(status) => {
            let name = [("name".to_owned(), Value::from(key.as_str()))];
            (key.clone(), Value::Map(members.iter().cloned().chain(name).collect()))
        }
        status => (key.clone(), status.clone()),
    };
    Value::Map(statuses.iter().map(named).collect())
}

fn has_name(status: &Value) -> bool {
    status.get("name").is_some()
}

/// The indentation of each level of JSON.
const STEP: usize = 2;

/// Writes JSON with a line for each member of a map.
fn pretty(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Map(members) if !members.is_empty() => {
            out.push('{');
            for (index, (name, value)) in members.iter().enumerate() {
                out.push_str(if index == 0 { "\n" } else { ",\n" });
                out.extend(std::iter::repeat_n(' ', indent + STEP));
                out.push_str(&format!("{}: ", Value::from(name.as_str())));
                pretty(out, value, indent + STEP);
            }
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
            out.push('}');
        }
        other => out.push_str(&other.to_string()),
    }
}
