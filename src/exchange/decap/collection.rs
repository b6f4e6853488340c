//! One entry of `collections`.

use crate::domain::{Directory, Key, Kind, Segment, Value};
use crate::exchange::ImportSource;
use crate::exchange::decap::{Context, DESCRIPTION, EXTRA, ORIGINAL_NAME, inner_path, key_and_name, media};
use crate::format::foreign::{ForeignContent, ForeignNode, Position, hint};

/// The settings that have an equivalent, or are never imported.
pub(in crate::exchange) const NOT_EXTRA: [&str; 10] = [
    "name",
    "label",
    "description",
    "folder",
    "identifier_field",
    "fields",
    "editor",
    "backend",
    "files",
    "file",
];

/// The settings that describe forms or contain secrets, at any depth.
const NEVER: [&str; 3] = ["fields", "editor", "backend"];

/// The statuses of Decap's editorial workflow and of what a content store adds; each has its own directory.
const STATUSES: [(&str, &str); 5] = [
    ("draft", "Draft"),
    ("pending_review", "Pending Review"),
    ("pending_publish", "Pending Publish"),
    ("archived", "Archived"),
    ("trash", "Trash"),
];

/// Imports one entry, or records why not; `place` is its place in the file, from 1.
pub(super) fn import_entry(
    source: &mut ImportSource,
    media: &mut media::Folders,
    node: &ForeignNode,
    place: usize,
    context: &Context<'_>,
) {
    let wrong = |message: String| hint::missing_colon(node).unwrap_or_else(|| node.at.fault(message));
    if !node.is_map() {
        return source
            .faults
            .push(wrong(format!("collection {place}: expected a map with `name` and `folder`")));
    }
    let name = node.get_non_null("name").and_then(ForeignNode::as_text);
    let called = name.map_or_else(|| format!("collection-{place}"), str::to_owned);
    let folder = match folder(node, context.options.keep_files) {
        Folder::Of(folder) => Ok(folder),
        Folder::Odd(found) => Err(found.to_value().describe_type()),
        Folder::Skipped(why) => return source.skipped.push((called, why.to_owned())),
        Folder::Wrong => {
            return source.faults.push(wrong(format!("{called}: it has neither a `folder` nor `files`")));
        }
    };
    let Some(name) = name else {
        return source.faults.push(wrong(format!("collection {place}: it has no `name`")));
    };
    let name_at = node.get_non_null("name").map_or(node.at, |name| name.at);
    let (key, original) = key_and_name(source, name, place, name_at, context);
    let at = node.get_non_null("folder").map_or(node.at, |folder| folder.at);
    let folder = match checked(folder) {
        Ok(folder) => folder,
        Err(message) => {
            source.reserve_key(&key, node.at);
            return source.faults.push(at.fault(format!("{key}: {message}")));
        }
    };
    let attributes = attributes(source, &key, node, folder, original, context);
    source.add_candidate(key.clone(), Kind::Document, attributes, node.at, |path| locate(node, path));
    media.note(&key, node);
}

/// Checks that a folder can be a collection's; the error in `folder` describes a value that is not a text.
fn checked(folder: Result<String, &str>) -> Result<String, String> {
    let folder = folder.map_err(|found| {
        format!("`folder` is {found}; write one path as a text, such as `folder: content/posts`")
    })?;
    if folder.is_empty() {
        return Err("`folder` is empty; write where the collection lies".to_owned());
    }
    Directory::parse(&folder).map_err(|why| format!("folder: {why}"))?;
    Ok(folder)
}

/// The folder of a collection.
enum Folder<'n> {
    Of(String),
    /// It is not a text.
    Odd(&'n ForeignNode),
    Skipped(&'static str),
    Wrong,
}

/// Returns the path of a collection's folder, if it has one.
pub(super) fn folder_of(node: &ForeignNode, keep_files: bool) -> Option<String> {
    match folder(node, keep_files) {
        Folder::Of(folder) => Some(folder),
        Folder::Odd(_) | Folder::Skipped(_) | Folder::Wrong => None,
    }
}

fn folder(node: &ForeignNode, keep_files: bool) -> Folder<'_> {
    if let Some(folder) = node.get("folder") {
        return match folder.as_text() {
            Some(text) if !folder.is_null() => Folder::Of(inner_path(text).to_owned()),
            Some(_) => Folder::Of(String::new()),
            None => Folder::Odd(folder),
        };
    }
    if node.get("divider").is_some_and(ForeignNode::is_truthy) {
        return Folder::Skipped("a divider is no collection");
    }
    match node.get("files").or_else(|| node.get("file")) {
        None => Folder::Wrong,
        Some(_) if !keep_files => Folder::Skipped("a collection of single files has no folder"),
        Some(files) => match common_folder(files) {
            Some(folder) => Folder::Of(folder),
            None => Folder::Skipped("its files do not lie in one folder"),
        },
    }
}

/// Returns the folder that contains all files of a collection.
fn common_folder(files: &ForeignNode) -> Option<String> {
    let mut folders = files.items()?.iter().map(|file| {
        let path = inner_path(file.get_non_null("file")?.as_text()?);
        Some(path.rsplit_once('/')?.0.to_owned())
    });
    let first = folders.next()??;
    folders.all(|other| other.as_ref() == Some(&first)).then_some(first)
}

fn attributes(
    source: &mut ImportSource,
    key: &Key,
    node: &ForeignNode,
    folder: String,
    original: Option<String>,
    context: &Context<'_>,
) -> Vec<(String, Value)> {
    let given = |name: &str| node.get_non_null(name).map(scalar_text);
    let written = node.get_non_null("format").or_else(|| node.get_non_null("extension"));
    let written = written.and_then(|it| Some((it.at, it.as_text()?)));
    let format = written.and_then(|(_, word)| format_of(word));
    if let (Some((at, word)), None) = (written, format) {
        source.notes.push(at.fault(format!("{key}: the format {} is left out", Value::from(word))));
    }
    let statuses = context.is_workflow.then(statuses);
    let all = [
        ("name", given("label")),
        ("directory", Some(Value::from(folder))),
        ("recursive", Some(Value::Bool(is_recursive(node, context)))),
        ("format", format.map(Value::from)),
        ("documentTitleKey", given("identifier_field")),
        ("unpublishedStatuses", statuses),
        (DESCRIPTION, given("description")),
        (ORIGINAL_NAME, original.map(Value::from)),
        (EXTRA, extra(node)),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// Returns a scalar as written: `label: 2024` is a text to Decap's readers too. The rules refuse anything else.
fn scalar_text(node: &ForeignNode) -> Value {
    node.as_text().map_or_else(|| node.to_value(), Value::from)
}

fn is_recursive(node: &ForeignNode, context: &Context<'_>) -> bool {
    let of = |i18n: &ForeignNode| i18n.get("structure")?.as_text().map(str::to_owned);
    let own = node.get_non_null("i18n").filter(|i18n| i18n.is_truthy());
    let structure = own.and_then(|own| of(own).or_else(|| of(context.i18n?)));
    node.get("nested").is_some_and(ForeignNode::is_truthy)
        || node.get("path").and_then(ForeignNode::as_text).is_some_and(|path| path.contains('/'))
        || structure.as_deref() == Some("multiple_folders")
}

/// Returns what a content store calls a format or an extension of Decap.
pub(in crate::exchange) fn format_of(word: &str) -> Option<&'static str> {
    match word {
        "md" | "markdown" => Some("markdown"),
        word if word.ends_with("frontmatter") => Some("markdown"),
        "json" => Some("json"),
        "yaml" | "yml" => Some("yaml"),
        _ => None,
    }
}

/// Returns the statuses of the editorial workflow as an attribute.
pub(in crate::exchange) fn statuses() -> Value {
    let status = |(status, name): &(&str, &str)| {
        let entry = Value::from([("directory", (*status).into()), ("name", (*name).into())]);
        ((*status).to_owned(), entry)
    };
    Value::Map(STATUSES.iter().map(status).collect())
}

/// Returns the small settings without an equivalent, as they are written.
fn extra(node: &ForeignNode) -> Option<Value> {
    let is_extra = |name: &str, value: &ForeignNode| match name {
        name if NOT_EXTRA.contains(&name) => false,
        // A word of Decap's own is kept, so that an export can restore it.
        "format" => !matches!(value.as_text(), Some("json" | "yaml")),
        "media_folder" => !media::is_own(value),
        _ => !value.is_null(),
    };
    let kept = node.entries().filter_map(|(name, value)| {
        let name = name.as_text().filter(|name| is_extra(name, value))?;
        Some((name.to_owned(), importable_value(value)))
    });
    let kept: Box<[_]> = kept.collect();
    (!kept.is_empty()).then_some(Value::Map(kept))
}

/// Returns a value without what is never imported.
fn importable_value(node: &ForeignNode) -> Value {
    match &node.content {
        ForeignContent::Plain(_) | ForeignContent::Text(_) => node.to_value(),
        ForeignContent::List(items) => Value::List(items.iter().map(|item| importable_value(item)).collect()),
        ForeignContent::Map(entries) => {
            let kept = entries.iter().filter_map(|(name, value)| Some((name.as_text()?, value)));
            let kept = kept.filter(|(name, _)| !NEVER.contains(name));
            Value::Map(kept.map(|(name, value)| (name.to_owned(), importable_value(value))).collect())
        }
    }
}

/// Returns where an attribute comes from.
fn locate(node: &ForeignNode, path: &[Segment]) -> Position {
    let from = match path.first() {
        Some(Segment::Name(name)) => match name.as_str() {
            "name" => "label",
            "directory" => "folder",
            "documentTitleKey" => "identifier_field",
            DESCRIPTION => "description",
            _ => "name",
        },
        Some(Segment::Index(_)) | None => "name",
    };
    node.get(from).map_or(node.at, |from| from.at)
}
