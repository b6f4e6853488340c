//! The JSON Schema of a collection file agrees with the reader of files.

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::domain::{self, Value};
use crate::format::tests::key;
use crate::format::{self, Fault};
use crate::random::cases;

fn schema() -> serde_json::Value {
    serde_json::from_str(&domain::schema().to_string()).unwrap()
}

/// Valid and invalid names and values near the limits of the rules.
fn entry() -> impl Strategy<Value = (String, Value)> {
    let name = prop::sample::select(vec![
        "name",
        "directory",
        "recursive",
        "format",
        "documentTitleKey",
        "unpublishedStatuses",
        "revisionDirectory",
        "accept",
        "url",
        "pathFormat",
        "draftDirectory",
        "trashDirectory",
        "x-a",
        "x-ä",
        "x-a_",
        "x-",
        "X-a",
        "x-a.b",
        "nmae",
        "x--",
        "x-1",
    ]);
    prop_oneof![
        5 => (name.prop_map(str::to_owned), value()),
        1 => statuses().prop_map(|statuses| ("unpublishedStatuses".to_owned(), statuses)),
    ]
}

/// Statuses that are nearly valid, so that nested rules are reached too.
fn statuses() -> impl Strategy<Value = Value> {
    let text = || prop::sample::select(vec!["", "a", "a/b", "../a", "a\nb"]);
    let member = prop::sample::select(vec!["directory", "directory", "name", "name", "x"]);
    let status = prop::collection::btree_map(member, text(), 1..3);
    prop::collection::vec((prop::sample::select(vec!["draft", "archive", "", "a b", "a\u{7}"]), status), 0..3)
        .prop_map(|statuses| {
            let entries = statuses.into_iter().map(|(name, members)| {
                let members = members.into_iter().map(|(name, text)| (name.to_owned(), Value::from(text)));
                (name.to_owned(), Value::Map(members.collect()))
            });
            let mut entries: Vec<(String, Value)> = entries.collect();
            entries.dedup_by(|one, two| one.0 == two.0);
            Value::Map(entries.into())
        })
}

fn value() -> impl Strategy<Value = Value> {
    let text = prop::sample::select(vec![
        "",
        "a",
        "a/b",
        "/a",
        "a//b",
        "a/",
        "a/.",
        "..",
        "a/..b",
        "...",
        ".a",
        "C:",
        "c:/x",
        "cd:x",
        "a\\b",
        "a\nb",
        "a\u{85}b",
        "größe",
        "image/png",
        "image/*",
        "*/*",
        ".pdf",
        "png",
        ".",
        "image/",
        "a/b/c",
        "*/png",
        ".tar.gz",
    ]);
    let leaf = prop_oneof![
        3 => text.clone().prop_map(Value::from),
        1 => prop::sample::select(vec!["a".repeat(1000), "b".repeat(1001), "c".repeat(1025)]).prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
    ];
    let member = prop::sample::select(vec!["directory", "name", "draft", "x", ""]);
    leaf.prop_recursive(3, 12, 4, move |inner| {
        let map = prop::collection::btree_map(member.clone().prop_map(str::to_owned), inner.clone(), 0..4);
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(|items| Value::List(items.into())),
            map.prop_map(|members| Value::Map(members.into_iter().collect())),
        ]
    })
}

#[test]
fn the_schema_and_the_reader_of_files_agree() {
    let validator = jsonschema::draft202012::new(&schema()).unwrap();
    let kind = prop::sample::select(vec!["document", "media", "other"]);
    let files = (kind, prop::collection::vec(entry(), 0..4));
    let mut runner = TestRunner::new(cases(4000));
    runner
        .run(&files, |(kind, entries)| {
            let mut members = vec![("type".to_owned(), Value::from(kind))];
            for (name, value) in entries {
                if members.iter().all(|(known, _)| *known != name) {
                    members.push((name, value));
                }
            }
            let text = format::write_document(&members);
            let document = serde_json::from_str(&Value::Map(members.into()).to_string()).unwrap();
            let problems = problems(&text);
            let faults: Vec<String> =
                validator.iter_errors(&document).map(|error| error.to_string()).collect();
            prop_assert_eq!(problems.is_empty(), faults.is_empty(), "{}\n{:?}\n{:?}", text, problems, faults);
            Ok(())
        })
        .unwrap();
    for (file, is_right) in [
        ("type: document\n", true),
        ("type: media\naccept: [image/png]\nx-a: {b: [1]}\n", true),
        ("type: document\nunpublishedStatuses: {draft: {directory: d, name: D}}\n", true),
        ("type: document\nunpublishedStatuses: {draft: {directory: d}}\n", false),
        ("type: document\nunpublishedStatuses: {draft: {directory: d}}\ndraftDirectory: d\n", false),
        ("name: Posts\n", false),
        ("type: media\nformat: json\n", false),
        (&format!("type: document\ndirectory: {}\n", "a".repeat(1024)), true),
        (&format!("type: document\ndirectory: {}/\n", "a".repeat(1024)), true),
        (&format!("type: document\ndirectory: {}\n", "a".repeat(1025)), false),
    ] {
        let document = serde_yaml::from_str(file).unwrap();
        assert_eq!(
            (problems(file).is_empty(), validator.is_valid(&document)),
            (is_right, is_right),
            "{file}"
        );
    }
}

/// All that `collectory check` reports of a file: what can't be read, and what it lacks although it is served.
fn problems(text: &str) -> Vec<Fault> {
    let read = format::read(&key(), text.as_bytes());
    read.map_or_else(|faults| faults, |collection| format::missing_status_names(&collection, text.as_bytes()))
}

#[test]
fn the_schema_is_one_and_says_what_attributes_mean() {
    let schema = schema();
    assert!(jsonschema::draft202012::meta::is_valid(&schema));
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    for attributes in [&schema["then"]["properties"], &schema["else"]["properties"]] {
        let described = attributes.as_object().unwrap().iter().filter(|(name, _)| *name != "type");
        assert!(described.clone().count() > 4);
        described.for_each(|(name, it)| assert!(it["description"].is_string(), "{name} is explained"));
    }
}
