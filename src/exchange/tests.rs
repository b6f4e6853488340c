//! Imports of realistic settings files: `fixtures/decap` and `fixtures/laika` contain them, and beside each the
//! plan, the notes and faults, and every file that is written.
//!
//! With `COLLECTORY_BLESS=1` the expectations are rewritten, to be reviewed before they are committed.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::domain::{Catalog, Collection, Key, Kind};
use crate::format;
use crate::format::tests::any_collection;
use crate::random::cases;

fn options(keep_files: bool) -> ImportOptions {
    ImportOptions { keep_files, media_key: Key::parse("media").unwrap(), schemas: Schemas::new() }
}

/// Reads a text as a source for a repository without collections.
fn source_of(text: &str) -> ImportSource {
    parse(text.as_bytes(), None).unwrap().read(&options(false), &Catalog::default()).unwrap()
}

/// Returns the collections that an import into a repository without collections creates.
fn catalog_of(source: &ImportSource) -> Catalog {
    source.candidates.iter().map(|it| Arc::clone(&it.collection)).collect()
}

/// Returns the outcome of a file: the plan, the notes and faults with their positions, and the written files.
fn outcome(bytes: &[u8], options: &ImportOptions) -> String {
    let source = match parse(bytes, None).and_then(|parsed| parsed.read(options, &Catalog::default())) {
        Ok(source) => source,
        Err(fault) => return text_of(&fault),
    };
    let mut out = String::new();
    let notes: String = source.notes.iter().map(text_of).collect();
    let plan = plan(source, &ExistingCollections::default(), Existing::Fail, false).unwrap();
    plan.lines.iter().for_each(|line| writeln!(out, "{line}").unwrap());
    out.push_str(&notes);
    out.extend(plan.faults.iter().map(text_of));
    for line in &plan.lines {
        if let PlanStep::Create(collection) = &line.step {
            let file = format::write(collection);
            let read = format::read(collection.key(), &file).expect("what is written can be read");
            assert_eq!(read, **collection);
            writeln!(out, "\n# {}.yaml\n{}", collection.key(), String::from_utf8(file).unwrap().trim_end())
                .unwrap();
        }
    }
    out
}

fn text_of(fault: &Fault) -> String {
    format!("{}:{}: {}\n", fault.line, fault.column, fault.message)
}

#[test]
fn every_fixture_becomes_what_the_table_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let mut seen = 0;
    for folder in ["decap", "laika"] {
        let files = fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path());
        for file in files.filter(|file| file.extension().is_none_or(|ending| ending != "expected")) {
            let keep = file.to_string_lossy().contains("-kept");
            let outcome = outcome(&fs::read(&file).unwrap(), &options(keep));
            let expected = file.with_extension("expected");
            if std::env::var_os("COLLECTORY_BLESS").is_some() {
                fs::write(&expected, &outcome).unwrap();
            }
            assert_eq!(outcome, fs::read_to_string(&expected).unwrap_or_default(), "{}", file.display());
            seen += 1;
        }
    }
    assert!(seen >= 30);
}

#[test]
fn a_blank_that_is_missing_behind_a_colon_is_told_where_it_is_missing() {
    let refusal = |item: &str| outcome(format!("collections:\n  - {item}\n").as_bytes(), &options(false));
    let name = "write a blank after the colon: `name: a`\n";
    assert_eq!(refusal("name:a\n    folder: x"), format!("2:9: {name}"));
    assert_eq!(refusal("name:a\n    folder:x"), format!("2:9: {name}"));
    assert_eq!(refusal("{name:a, folder:x}"), format!("2:10: {name}"));
    assert_eq!(refusal("{name:a, folder: x}"), format!("2:10: {name}"));
    assert_eq!(refusal("{name: a, folder:x}"), "2:21: write a blank after the colon: `folder: x`\n");
}

#[test]
fn a_folder_that_is_no_text_is_told_as_what_it_is() {
    let result = |folder: &str| {
        outcome(format!("collections:\n  - name: a\n    folder: {folder}\n").as_bytes(), &options(false))
    };
    let write = "write one path as a text, such as `folder: content/posts`\n";
    assert_eq!(result("[x]"), format!("3:13: a: `folder` is a list; {write}"));
    assert_eq!(result("{x: y}"), format!("3:13: a: `folder` is a map; {write}"));
    assert_eq!(result("\"\""), "3:13: a: `folder` is empty; write where the collection lies\n");
}

#[test]
fn what_is_left_of_several_of_one_name_keeps_its_keys_in_an_export() {
    let name = "\u{65e5}\u{672c}";
    for text in [
        // Keys by place, while other entries are gone from the export.
        format!("collections:\n  - {{divider: true}}\n  - {{name: {name}, folder: a}}\n  - {{name: b, folder: b}}\n  - {{name: {name}, folder: c}}\n"),
        // The same folder as well.
        format!("collections:\n  - {{name: b, folder: b}}\n  - {{name: {name}, folder: a}}\n  - {{name: c, folder: c}}\n  - {{name: {name}, folder: a, label: L}}\n"),
        // Keys with a number, where the entry without one was not imported.
        "collections:\n  - {name: \u{fc}, folder: ''}\n  - {name: \u{fc}, folder: c}\n  - {name: \u{fc}, folder: a}\n".to_owned(),
        // Media folders whose key another collection had.
        "media_folder: m\ncollections:\n  - {name: media, folder: ''}\n  - {name: b, folder: b}\n".to_owned(),
        "media_folder: m\ncollections:\n  - {name: media, folder: a}\n  - {name: media, folder: ''}\n".to_owned(),
    ] {
        let catalog = catalog_of(&source_of(&text));
        assert!(catalog.len() >= 2, "{text}");
        let warnings = news(&text, &catalog);
        assert!(warnings.iter().all(|line| line.starts_with("skip") || line.contains("`folder` is empty")), "{warnings:?}");
        assert_eq!(news(&export::decap(&catalog), &catalog), [""; 0], "{text}");
    }
}

#[test]
fn no_secret_of_a_backend_is_taken_over() {
    let file = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/decap/secrets.yml")).unwrap();
    assert!(String::from_utf8_lossy(&file).contains("hunter2"));
    let outcome = outcome(&file, &options(false));
    assert!(outcome.contains("create posts") && !outcome.contains("hunter2"), "{outcome}");
    assert!(!outcome.contains("backend"), "{outcome}");
}

/// Returns what an import of a text over a catalog would do, without the unchanged lines.
fn news(text: &str, there: &Catalog) -> Vec<String> {
    let source = parse(text.as_bytes(), None).and_then(|parsed| parsed.read(&options(false), there));
    let there = ExistingCollections { catalog: there.clone(), ..ExistingCollections::default() };
    let plan = match source.and_then(|source| plan(source, &there, Existing::Replace, true)) {
        Ok(plan) => plan,
        Err(fault) => return vec![format!("{}in:\n{text}", text_of(&fault))],
    };
    let lines = plan.lines.iter().filter(|line| !matches!(line.step, PlanStep::Unchanged));
    plan.faults.iter().map(text_of).chain(lines.map(|line| format!("{line}\n{text}"))).collect()
}

fn any_catalog() -> impl Strategy<Value = Catalog> {
    let keys = prop::collection::btree_set("[a-z]{1,3}|true|1\\.10|0x1F|No|null|2024", 1..5);
    (keys, prop::collection::vec(any_collection(), 5)).prop_map(|(keys, collections)| {
        let keyed = keys.iter().zip(&collections).map(|(key, it)| {
            let attributes = it.attributes().iter().map(|(name, value)| (name.to_string(), value.clone()));
            Arc::new(Collection::new(Key::parse(key).unwrap(), Kind::Document, attributes).unwrap())
        });
        keyed.filter(|it| format::write(it).len() <= format::FILE_BYTES_MAX).collect()
    })
}

/// Generates a configuration of anything that Decap accepts.
fn any_configuration() -> impl Strategy<Value = String> {
    let select = |texts: &'static [&'static str]| prop::sample::select(texts);
    let name = select(&[
        "posts",
        "Posts",
        "Blog Posts",
        "blog-posts",
        "\u{65e5}\u{8a18}",
        "media",
        "a-media",
        "a",
        "\u{fc}",
    ]);
    let line = select(&[
        "label: L",
        "description: d",
        "format: frontmatter",
        "format: md",
        "format: json",
        "format: toml",
        "format: markdown",
        "extension: md",
        "extension: yml",
        "extension: html",
        "identifier_field: h",
        "nested: {depth: 3}",
        "path: '{{year}}/{{slug}}'",
        "path: '{{slug}}'",
        "i18n: true",
        "i18n: {structure: multiple_folders}",
        "media_folder: /img",
        "media_folder: img",
        "media_folder: ''",
        "public_folder: /p",
        "public_folder: ''",
        "slug: '{{slug}}'",
        "create: true",
        "fields: []",
    ]);
    let collection = (name, prop::collection::vec(line, 0..5)).prop_map(|(name, lines)| {
        let mut names = BTreeSet::new();
        let lines = lines.into_iter().filter(|line| names.insert(line.split(':').next().unwrap()));
        let lines: String = lines.map(|line| format!(", {line}")).collect();
        format!("  - {{name: {name}, folder: content{lines}}}\n")
    });
    let top = select(&[
        "publish_mode: editorial_workflow\n",
        "i18n: {structure: multiple_folders, locales: [en]}\n",
        "media_folder: static\npublic_folder: /\n",
        "media_folder: static\n",
        "media_folder: static\npublic_folder: /up\n",
    ]);
    (prop::collection::vec(top, 0..3), prop::collection::vec(collection, 1..6)).prop_map(
        |(top, collections)| {
            let (mut seen, mut seen_names) = (BTreeSet::new(), BTreeSet::new());
            let top: String =
                top.into_iter().filter(|it| seen.insert(it.split(':').next().unwrap())).collect();
            // Decap requires names to be unique.
            let collections: String = collections
                .into_iter()
                .filter(|it| seen_names.insert(it.split(',').next().unwrap().to_owned()))
                .collect();
            format!("{top}collections:\n{collections}")
        },
    )
}

#[test]
fn what_a_document_does_not_tell_is_never_taken_away() {
    let refused = |document: &str, existing, prune| {
        plan(source_of(document), &ExistingCollections::default(), existing, prune)
            .err()
            .map(|fault| text_of(&fault))
    };
    let list = |links: &str| format!("{{\"links\": {links}, \"data\": []}}");
    for (document, what) in [
        (
            list(r#"{"self": "/c", "prev": null, "next": "/c?page%5Bafter%5D=b"}"#),
            "1:48: this is one page of",
        ),
        (list(r#"{"self": "/c", "prev": {"href": "/c"}}"#), "1:34: this is one page of"),
        (list(r#"{"self": "/c?sort=name&page%5bsize%5d=10"}"#), "1:20: this is one page of"),
        (list(r#"{"self": "/c?page[size]=10"}"#), "1:20: this is one page of"),
        (list(r#"{"self": {"href": "/c?filter%5Btype%5D=media"}}"#), "1:20: this is a list with a filter"),
        (r#"{"data": {"type": "media-collection", "id": "a"}}"#.to_owned(), "1:10: this is one collection"),
    ] {
        let refusal = refused(&document, Existing::Fail, true).unwrap_or_default();
        assert!(refusal.starts_with(what) && refusal.contains("--prune"), "{document}: {refusal}");
        assert_eq!(refused(&document, Existing::Replace, false), None, "{document}");
    }
    let sparse = list(r#"{"self": "/c?fields%5Bdocument-collection%5D=name"}"#);
    let message = "1:20: this list leaves attributes out, and --existing replace and --prune take it for all there is; give it without fields[...]\n";
    assert_eq!(refused(&sparse, Existing::Replace, false).as_deref(), Some(message));
    assert_eq!(refused(&sparse, Existing::Fail, true).as_deref(), Some(message));
    assert_eq!(refused(&sparse, Existing::Merge, false), None);
    for whole in
        [r#"{"self": "/page[/filter[?sort=page[&asOf=HEAD"}"#, r#"{"self": "/c", "next": null}"#, "null"]
    {
        assert_eq!(refused(&list(whole), Existing::Replace, true), None, "{whole}");
    }
}

#[test]
fn a_file_that_cant_be_read_is_skipped_or_told() {
    let broken = BTreeMap::from([(Key::parse("a").unwrap(), "collections/a.yaml:1:7: no".to_owned())]);
    let there = ExistingCollections { broken, ..ExistingCollections::default() };
    let planned = |existing| {
        let text = "collections:\n  a: {type: document}\n  b: {type: document}\n";
        let source = parse(text.as_bytes(), None).unwrap().read(&options(false), &there.catalog).unwrap();
        let plan = plan(source, &there, existing, false).unwrap();
        plan.lines
            .iter()
            .map(|line| format!("{line}\n"))
            .chain(plan.faults.iter().map(text_of))
            .collect::<String>()
    };
    let why = "a: its file can't be read: collections/a.yaml:1:7: no";
    assert_eq!(planned(Existing::Skip), format!("skip {why}\ncreate b\n"));
    for existing in [Existing::Fail, Existing::Merge, Existing::Replace] {
        let refusal = planned(existing);
        assert!(
            refusal.contains(&format!("{why}; mend it, delete it, or leave it")),
            "{existing:?}: {refusal}"
        );
    }
}

#[test]
fn what_stands_under_our_name_for_the_rest_is_kept_whatever_it_is() {
    let text = r#"{"collections": {"k": {"type": "document", "x-laika": [1], "c": 1}}}"#;
    let source = source_of(text);
    let kept = source.candidates[0].collection.by_name("x-laika").map(ToString::to_string);
    assert_eq!(kept.as_deref(), Some(r#"{"c": 1, "x-laika": [1]}"#));
    let catalog = catalog_of(&source);
    assert_eq!(news(&export::laika(&catalog), &catalog), [""; 0]);
}

#[test]
fn a_name_that_stands_twice_stays_what_it_was() {
    let text = "collections:\n  - {name: a, folder: a}\n  - {name: a, folder: b}\n  - {name: A, folder: c}\n";
    let catalog = catalog_of(&source_of(text));
    let keys: Vec<String> = catalog.iter().map(|it| it.key().to_string()).collect();
    assert_eq!(keys, ["A-3", "a", "a-2"]);
    assert_eq!(news(text, &catalog), [""; 0]);
}

/// A search from the first number on would take as many tries for each key as there are keys before it.
#[test]
fn any_number_of_collections_of_one_name_have_their_keys_soon() {
    const COUNT: usize = 30_000;
    let one = "  - {name: a, folder: a}\n";
    let text = format!("collections:\n{}", one.repeat(COUNT));
    let source = source_of(&text);
    let last = source.candidates.last().expect("all of them are there");
    assert_eq!((source.candidates.len(), last.collection.key().as_str()), (COUNT, "a-30000"));
}

/// A search from the first one on would take as many steps for each as there are collections.
#[test]
fn any_number_of_media_collections_are_exported_soon() {
    const COUNT: usize = 10_000;
    let one = |n| format!("  - {{name: n{n}, folder: f{n}, media_folder: /m{n}}}\n");
    let text: String = std::iter::once("collections:\n".to_owned()).chain((0..COUNT).map(one)).collect();
    let catalog = catalog_of(&source_of(&text));
    assert_eq!(catalog.len(), 2 * COUNT);
    let exported = export::decap(&catalog);
    assert_eq!(exported.matches("media_folder: /m").count(), COUNT);
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn an_import_of_an_export_changes_nothing(catalog in any_catalog()) {
        prop_assert_eq!(news(&export::yaml(&catalog), &catalog), [""; 0]);
        prop_assert_eq!(news(&export::laika(&catalog), &catalog), [""; 0]);
    }

    #[test]
    fn what_came_from_decap_goes_there_and_comes_back(text in any_configuration()) {
        let source = source_of(&text);
        prop_assert!(source.faults.is_empty(), "{:?} in {}", source.faults, text);
        let catalog = catalog_of(&source);
        prop_assert_eq!(news(&text, &catalog), [""; 0]);
        prop_assert_eq!(news(&export::decap(&catalog), &catalog), [""; 0], "{}", text);
    }
}
