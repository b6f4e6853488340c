//! The part of a Decap configuration that collections can provide.

use std::collections::HashSet;

use crate::domain::{Attribute, Catalog, Collection, Key, Kind, Value};
use crate::exchange::decap::{DESCRIPTION, EXTRA, NOT_EXTRA, ORIGINAL_NAME, format_of, statuses};
use crate::exchange::source::is_numbered;
use crate::format;

type Members = Vec<(String, Value)>;

/// Writes `collections`, `media_folder` and `public_folder` of a configuration, and its global settings.
pub(crate) fn decap(catalog: &Catalog) -> String {
    let documents: Vec<&Collection> =
        catalog.iter().map(|it| &**it).filter(|it| it.kind() == Kind::Document).collect();
    let mut members = Members::new();
    let mut add =
        |name: &str, value: Option<Value>| members.extend(value.map(|value| (name.to_owned(), value)));
    // It applies to all of them; `inexpressible` lists those that differ.
    let has_workflow =
        documents.iter().any(|it| it.get(&Attribute::UnpublishedStatuses) == Some(&statuses()));
    add("publish_mode", has_workflow.then(|| "editorial_workflow".into()));
    add(
        "i18n",
        documents
            .iter()
            .any(|it| is_translated(it))
            .then(|| Value::from([("structure", "multiple_folders".into())])),
    );
    if let Some(media) = site_media(catalog) {
        add("media_folder", media.get(&Attribute::Directory).cloned());
        add("public_folder", public_folder(media));
    }
    let collections = documents.iter().map(|it| Value::Map(collection(it, catalog).into()));
    add("collections", Some(Value::List(collections.collect())));
    format::write_document(&members)
}

fn collection(collection: &Collection, catalog: &Catalog) -> Members {
    let of = |attribute: &Attribute| collection.get(attribute).cloned();
    let own = |name: &str| collection.by_name(name).cloned();
    let key = || Value::from(collection.key().as_str());
    let all = [
        ("name", Some(own(ORIGINAL_NAME).unwrap_or_else(key))),
        ("label", of(&Attribute::Name)),
        ("description", own(DESCRIPTION)),
        // Without a directory, a collection is in the folder named like its key.
        ("folder", Some(of(&Attribute::Directory).unwrap_or_else(key))),
        ("format", format(collection)),
        ("identifier_field", of(&Attribute::DocumentTitleKey)),
    ];
    let mut members: Members =
        all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
    if let Some(Value::Map(extra)) = collection.by_name(EXTRA) {
        let is_extra = |name: &str| name != "format" && !NOT_EXTRA.contains(&name);
        members.extend(extra.iter().filter(|(name, _)| is_extra(name)).cloned());
    }
    let has = |name: &str| members.iter().any(|(other, _)| other == name);
    if let Some(media) = own_media(collection, catalog).filter(|_| !has("media_folder")) {
        let public = public_folder(media).filter(|_| !has("public_folder"));
        let folder = media.get(&Attribute::Directory).and_then(Value::as_text);
        members.extend(folder.map(|folder| ("media_folder".to_owned(), format!("/{folder}").into())));
        members.extend(public.map(|public| ("public_folder".to_owned(), public)));
    }
    members
}

/// Returns Decap's word for the format, unless the extension implies it.
fn format(collection: &Collection) -> Option<Value> {
    let word = |name: &str| extra(collection, name).and_then(Value::as_text);
    let format = collection.get(&Attribute::Format).and_then(Value::as_text);
    match (word("format"), format) {
        (Some(word), format) if format_of(word) == format => Some(word.into()),
        (_, format) if word("extension").and_then(format_of) == format => None,
        (_, Some("markdown")) => Some("frontmatter".into()),
        (_, format) => format.map(Value::from),
    }
}

/// Returns a setting that an import has kept for Decap.
fn extra<'c>(collection: &'c Collection, name: &str) -> Option<&'c Value> {
    collection.by_name(EXTRA)?.get(name)
}

/// Reports whether only the global `i18n` says that the collection has a folder for each language.
fn is_translated(collection: &Collection) -> bool {
    let extra = |name: &str| extra(collection, name);
    let has_no_structure = match extra("i18n") {
        None | Some(Value::Bool(false)) => false,
        Some(i18n) => i18n.get("structure").is_none(),
    };
    let is_said = extra("nested").is_some_and(|nested| *nested != Value::Bool(false))
        || extra("path").and_then(Value::as_text).is_some_and(|path| path.contains('/'));
    collection.get(&Attribute::Recursive) == Some(&Value::Bool(true)) && has_no_structure && !is_said
}

/// Returns the media collection of a document collection, by its key.
fn own_media<'c>(collection: &Collection, catalog: &'c Catalog) -> Option<&'c Collection> {
    // If this key is too long, so is any with a number.
    let stem = Key::parse(&format!("{}-media", collection.key())).ok()?;
    let is_own =
        |it: &&Collection| it.kind() == Kind::Media && (*it.key() == stem || is_numbered(it.key(), &stem));
    let from = catalog.get(stem.as_str()).into_iter().chain(catalog.after(&stem)).map(|it| &**it);
    from.take_while(|it| it.key().as_str().starts_with(stem.as_str())).find(is_own)
}

/// Returns the media collection of the whole site: `media`, else the first that belongs to no document collection.
fn site_media(catalog: &Catalog) -> Option<&Collection> {
    let documents = catalog.iter().filter(|it| it.kind() == Kind::Document);
    let own: HashSet<&Key> = documents.filter_map(|it| own_media(it, catalog)).map(Collection::key).collect();
    let is_free = |it: &&Collection| it.kind() == Kind::Media && !own.contains(it.key());
    let media = catalog.get("media").map(|it| &**it).filter(is_free);
    media.or_else(|| catalog.iter().map(|it| &**it).find(is_free))
}

/// Returns where media are published, if their URL is just a folder and the file name.
fn public_folder(media: &Collection) -> Option<Value> {
    let url = media.get(&Attribute::Url)?.as_text()?;
    let folder = url.strip_suffix("/{filename}")?;
    Some(if folder.is_empty() { "/".into() } else { folder.into() })
}
