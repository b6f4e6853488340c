//! Reading and writing, compared with independent readers.

mod schema;

use proptest::prelude::*;

use crate::domain::{ATTRIBUTES_MAX, Key, Kind, Number, VALUE_DEPTH_MAX, Value};
use crate::format::*;
use crate::random::cases;

pub(crate) fn key() -> Key {
    Key::parse("posts").unwrap()
}

#[track_caller]
fn faulty(text: &str, line: usize, column: usize, message: &str) {
    let fault = &read(&key(), text.as_bytes()).unwrap_err()[0];
    assert_eq!((fault.line, fault.column, fault.message.as_str()), (line, column, message), "{text}");
}

/// Checks the fault of an attribute `x-a` with this value, which begins in column 6.
#[track_caller]
fn faulty_value(value: &str, message: &str) {
    faulty(&format!("type: document\nx-a: {value}\n"), 2, 6, message);
}

#[track_caller]
fn good(text: &str) -> Collection {
    read(&key(), text.as_bytes()).unwrap_or_else(|fault| panic!("{text}\n{fault:?}"))
}

/// Reads the value of `x-a` in a document collection.
#[track_caller]
fn value(text: &str) -> Value {
    let collection = good(&format!("type: document\nx-a: {text}\n"));
    collection.by_name("x-a").unwrap().clone()
}

#[test]
fn a_file_is_read_with_everything_that_yaml_allows_and_people_write() {
    let text = "\u{feff}--- # our posts\r\n\"type\": document\r\nname: 'It''s'   # quoted\r\n\r\ndirectory: >-\r\n  content/posts\r\nunpublishedStatuses: {draft: {directory: d, name: Ä}}\r\nx-list:\r\n- 1\r\n-   - a\r\n    - ~\r\n- {b: [c, \"d\"]}\r\n...\r\n";
    let read = good(text);
    assert_eq!(
        String::from_utf8(write(&read)).unwrap(),
        "type: document\nname: It's\ndirectory: content/posts\nunpublishedStatuses:\n  draft:\n    directory: d\n    name: Ä\nx-list:\n  - 1\n  - - a\n    - null\n  - b:\n      - c\n      - d\n"
    );
}

#[test]
fn what_yaml_readers_disagree_on_is_refused_with_the_way_to_write_it() {
    let attribute = |text: &str, message| {
        faulty(&format!("type: document\n{text}\n"), 2, 1 + text.find(' ').unwrap() + 1, message);
    };
    attribute(
        "name: yes",
        "name: `yes` is a boolean to some YAML readers and a string to others; write \"yes\" in quotes",
    );
    attribute(
        "recursive: yes",
        "recursive: `yes` is a boolean to some YAML readers and a string to others; write true",
    );
    attribute(
        "recursive: off",
        "recursive: `off` is a boolean to some YAML readers and a string to others; write false",
    );
    attribute("name: 2024", "name: expected a string, found a number (2024); write \"2024\" in quotes");
    attribute("name: 1.10", "name: expected a string, found a number (1.10); write \"1.10\" in quotes");
    attribute("name: True", "name: expected a string, found a boolean (True); write \"True\" in quotes");
    attribute(
        "name: 2024-01-01",
        "name: `2024-01-01` is a date to some YAML readers and a string to others; write \"2024-01-01\" in quotes",
    );
    faulty_value(
        "no",
        "x-a: `no` is a boolean to some YAML readers and a string to others; write false, or \"no\" in quotes",
    );
    faulty_value(
        "010",
        "x-a: `010` is not the same number, or no number, to all YAML readers; write \"010\" in quotes",
    );
    faulty_value(
        "12:30:00",
        "x-a: `12:30:00` is not the same number, or no number, to all YAML readers; write \"12:30:00\" in quotes",
    );
    faulty_value(
        "18446744073709551616",
        "x-a: `18446744073709551616` does not fit into a whole number of 64 bits; write \"18446744073709551616\" in quotes",
    );
    faulty(
        "type: document\nx-a: {a: [1, on]}\n",
        2,
        14,
        "x-a.a[1]: `on` is a boolean to some YAML readers and a string to others; write true, or \"on\" in quotes",
    );
    faulty(
        "type: document\nx-a: {1: a}\n",
        2,
        7,
        "x-a.1: a name is a string, found a number; write \"1\" in quotes",
    );
    faulty(
        "type: document\nx-a:\n  <<: {b: c}\n",
        3,
        3,
        "x-a.<<: `<<` is a merge key to some YAML readers; write \"<<\" in quotes",
    );
}

#[test]
fn what_the_format_leaves_out_is_refused() {
    faulty_value(
        "&a b",
        "a text that begins with `&` needs quotes; it would be an anchor, and those are not allowed",
    );
    faulty_value(
        "!!str b",
        "a text that begins with `!` needs quotes; it would be a tag, and those are not allowed",
    );
    faulty_value(
        "! b",
        "a text that begins with `!` needs quotes; it would be a tag, and those are not allowed",
    );
    faulty(
        "type: document\nx-a: &a b\nx-b: *a\n",
        2,
        6,
        "a text that begins with `&` needs quotes; it would be an anchor, and those are not allowed",
    );
    faulty("%YAML 1.1\n---\ntype: document\n", 1, 1, "directives (lines that begin with %) are not allowed");
    faulty(
        "type: document\n---\ntype: media\n",
        2,
        1,
        "a line `---` or `...` divides the file in two, and only one part can be read; remove that line",
    );
    faulty("type: document\nname: a\nname: b\n", 3, 1, "`name` stands here twice; keep one");
    // A duplicate attribute has no other fault, and none at the position of the first one.
    for second in ["12", "\"b\" c", "/b", "{}"] {
        let text = format!("type: document\ndirectory: a\nname: A\ndirectory: {second}\n");
        let faults = read(&key(), text.as_bytes()).unwrap_err();
        assert!(faults.iter().all(|fault| fault.line == 4), "{second}: {faults:?}");
    }
    faulty("type: document\nx-a: {b: 1, \"b\": 2}\n", 2, 13, "`b` stands here twice; keep one");
    faulty("type: document\n? [a]\n: b\n", 2, 3, "a name is a string; lists and maps can't be names");
    faulty("type: document\nx-a: [1,\t2]\n", 2, 9, "a tab stands here; type a blank");
    faulty(
        "type: document\nname: a\u{85}b\n",
        2,
        8,
        "the character U+0085 is not allowed as it is; write \"\\u0085\" in double quotes",
    );
    faulty(
        "type: document\n# ä\u{2028}x\n",
        2,
        4,
        "the character U+2028 is not allowed as it is; write \"\\u2028\" in double quotes",
    );
    faulty(
        "type: document\nx-a: |\n  a\n  b ",
        4,
        5,
        "end the last line of the text with a line end, or leave its blanks out",
    );
    good("type: document\nx-a: |\n  a\nname: b ");
    faulty("type: document\rname: a\n", 1, 15, "a line ends in LF or CR LF, not in CR alone");
}

#[test]
fn a_file_that_holds_no_attributes_is_a_fault_and_no_empty_collection() {
    let empty = "the file is empty; a collection needs at least `type: document` or `type: media`";
    for text in ["", "\n", "# only this\n", "---\n", "\u{feff}"] {
        faulty(text, 1, 1, empty);
    }
    faulty("- a\n", 1, 1, "expected attributes such as `type: document`, found a list");
    faulty("posts\n", 1, 1, "expected attributes such as `type: document`, found a single value");
    faulty("{}\n", 1, 1, "`type` is missing; write `type: document` or `type: media`");
    faulty("name: a\n", 1, 1, "`type` is missing; write `type: document` or `type: media`");
    faulty("name: a\ntype: Document\n", 2, 7, "type: expected `document` or `media`, found \"Document\"");
}

#[test]
fn a_rule_of_the_domain_is_told_where_it_is_broken() {
    faulty("type: document\nnmae: a\n", 2, 1, "nmae: there is no such attribute; did you mean `name`?");
    faulty(
        "type: media\naccept:\n  - image/png\n  # second\n  - Ä\n",
        5,
        5,
        "accept[1]: \"Ä\" is neither a media type such as \"image/png\" or \"image/*\" nor an extension such as \".pdf\"",
    );
    faulty(
        "type: document\nunpublishedStatuses:\n  draft:\n    directory: ../x\n    nmae: x\n",
        4,
        16,
        "unpublishedStatuses.draft.directory: \"../x\" has the part `..`; write the path without it",
    );
    faulty(
        "type: document\nunpublishedStatuses:\n  draft:\n    name: x\n",
        3,
        3,
        "unpublishedStatuses.draft: a status needs a `directory`",
    );
    faulty(
        "type: document\nname:\n",
        2,
        1,
        "name: expected a string, found null; leave the attribute out to have none",
    );
    faulty(
        "type: document\n\ndraftDirectory: /x\nname: [a]\n",
        3,
        17,
        "draftDirectory: \"/x\" is absolute; write a relative path such as \"content/posts\"",
    );
}

#[test]
fn what_is_no_yaml_is_told_where_it_is_none() {
    for (text, line) in [
        ("type: document\nname: [unclosed", 2),
        ("type: document\nname: a: b\n", 2),
        ("a: \"x\n", 1),
        ("{", 1),
        ("type: document\n  name: a\n", 2),
    ] {
        let fault = read(&key(), text.as_bytes()).unwrap_err();
        assert_eq!(fault[0].line, line, "{text:?}: {fault:?}");
    }
    let half_merged = "type: document\n<<<<<<< HEAD\nname: a\n=======\nname: b\n>>>>>>> theirs\n";
    let fault = read(&key(), half_merged.as_bytes()).unwrap_err().swap_remove(0);
    assert_eq!((fault.line, fault.column), (2, 1));
    assert!(fault.message.starts_with("git could not merge this: "), "{fault:?}");
    let fault = read(&key(), b"type: document\nname: \xff\n").unwrap_err().swap_remove(0);
    assert_eq!((fault.line, fault.column), (2, 7));
    assert_eq!(fault.message, "the byte 0xff is not UTF-8; save the file as UTF-8");
    for utf16 in [&b"t\0y\0"[..], b"\0t\0y", b"\xff\xfet\0", b"\xfe\xff\0t"] {
        let fault = read(&key(), utf16).unwrap_err().swap_remove(0);
        assert_eq!(fault.message, "the file is UTF-16; save it as UTF-8");
    }
}

#[test]
fn a_file_of_the_largest_size_is_read_and_a_larger_one_is_not() {
    let text = format!("type: document\n#{}\n", "x".repeat(FILE_BYTES_MAX - 17));
    assert_eq!(text.len(), FILE_BYTES_MAX);
    good(&text);
    faulty(&format!("{text}\n"), 1, 1, "the file has more than the 65536 bytes that a collection may have");
}

#[test]
fn a_file_with_too_many_attributes_is_told_at_the_first_one_too_many() {
    let text = |count: usize| -> String { (0..count).map(|n| format!("x-{n}: 1\n")).collect() };
    good(&format!("{}type: document\n", text(ATTRIBUTES_MAX)));
    faulty(
        &format!("type: document\n{}", text(ATTRIBUTES_MAX + 2)),
        258,
        1,
        "a collection has at most 256 attributes, these are 258; put some of them into one map",
    );
}

#[test]
fn values_are_read_as_deep_as_the_domain_allows() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(value(&nested(VALUE_DEPTH_MAX)).depth(), VALUE_DEPTH_MAX);
    faulty(
        &format!("type: document\nx-a: {}\n", nested(VALUE_DEPTH_MAX + 1)),
        2,
        6 + VALUE_DEPTH_MAX,
        "lists and maps may be nested 32 deep",
    );
}

#[test]
fn deep_or_repetitive_input_neither_overflows_nor_takes_long() {
    for text in [
        "[", "{a: ", "- ", "? ", "[\n", "a: [\n", "{", "[a: b,", "\"\n", "x-a: {", "!", "&a ", "*a ", "# ",
        "|\n", "a:\n",
    ] {
        let text = text.repeat((FILE_BYTES_MAX - 16) / text.len());
        for text in [text.clone(), format!("type: document\n{text}"), format!("x-a: {text}")] {
            drop(read(&key(), text.as_bytes()));
        }
    }
    let wide: String = (0..8000).map(|n| format!("a{n}: 1\n")).collect();
    assert!(read(&key(), wide.as_bytes()).is_err());
}

/// A value as serde reads it, for comparing with other readers.
fn json(value: &Value) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(value) => (*value).into(),
        Value::Number(Number::Integer(number)) => (*number).into(),
        Value::Number(Number::Unsigned(number)) => (*number).into(),
        Value::Number(Number::Float(number)) => (*number).into(),
        Value::Text(text) => text.as_str().into(),
        Value::List(items) => items.iter().map(json).collect(),
        Value::Map(members) => members.iter().map(|(name, value)| (name.clone(), json(value))).collect(),
    }
}

pub(crate) fn nasty_text() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "",
            " ",
            "a ",
            " a",
            "yes",
            "no",
            "on",
            "y",
            "N",
            "null",
            "~",
            "true",
            "=",
            "<<",
            "1",
            "01",
            "0o7",
            "1.0",
            ".5",
            "1e3",
            "1_0",
            "12:30",
            "2024-01-01",
            "- a",
            "a: b",
            "a #b",
            "#",
            "&a",
            "*a",
            "!a",
            "|",
            ">-",
            "'",
            "\"",
            "%a",
            "@",
            "`",
            "[",
            "]",
            "{",
            "}",
            ",",
            "?",
            "? a",
            ":",
            "-",
            "---",
            "...",
            "a\nb",
            "a\n",
            "\n",
            "\t",
            "a\tb",
            "\r\n",
            "\u{85}",
            "\u{2028}",
            "\u{2029}",
            "\u{feff}",
            "\u{0}",
            "\u{7f}",
            "\u{9f}",
            "\u{fffe}",
            "\u{a0}",
            "ü",
            "記事",
            "🦀",
            "a\\b",
            "it's",
            "https://a.example/?b=c#d",
            "a, b",
            "x:y",
            "é: è",
        ])
        .prop_map(str::to_owned),
        any::<String>(),
        "[ -~]{0,12}",
        Just("k".repeat(1500)),
    ]
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(|n| Value::Number(Number::Integer(n))),
        (i64::MAX as u64 + 1..=u64::MAX).prop_map(|n| Value::Number(Number::Unsigned(n))),
        (prop::num::f64::NORMAL | prop::num::f64::ZERO).prop_map(|n| Value::Number(Number::Float(n))),
        nasty_text().prop_map(Value::from),
        nasty_text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|items| Value::List(items.into())),
            prop::collection::vec((nasty_text(), inner), 0..4).prop_map(|members| {
                let mut distinct: Vec<(String, Value)> = Vec::new();
                for (name, value) in members {
                    if distinct.iter().all(|(known, _)| *known != name) {
                        distinct.push((name, value));
                    }
                }
                Value::Map(distinct.into())
            }),
        ]
    })
}

prop_compose! {
    pub(crate) fn any_collection()(
        name in prop::option::of(nasty_text()),
        recursive in prop::option::of(any::<bool>()),
        free in any_value(),
        statuses in prop::collection::btree_map("[a-z]{1,3}|yes|no|1|ä b", nasty_text(), 0..3),
    ) -> Collection {
        let mut attributes = vec![("x-a".to_owned(), free)];
        attributes.extend(name.map(|name| ("name".to_owned(), Value::Text(name.chars().take(1000).collect()))));
        attributes.extend(recursive.map(|value| ("recursive".to_owned(), value.into())));
        let statuses = statuses.into_iter().map(|(status, name)| {
            (status, Value::Map([("directory".into(), "a/b c".into()), ("name".into(), Value::from(name.chars().take(1000).collect::<String>()))].into()))
        });
        attributes.push(("unpublishedStatuses".to_owned(), Value::Map(statuses.collect())));
        Collection::new(key(), Kind::Document, attributes).unwrap()
    }
}

/// The values that an independent YAML reader reads.
fn seen_by_serde(text: &str) -> Result<serde_json::Value, serde_yaml::Error> {
    serde_yaml::from_str(text)
}

/// The values that a YAML 1.2 reader reads, which resolves scalars by the core schema.
fn seen_by_saphyr(node: &saphyr::Yaml<'_>) -> serde_json::Value {
    use saphyr::{Scalar, Yaml};
    let name = |name: &Yaml<'_>| name.as_str().expect("a name is a string").to_owned();
    match node {
        Yaml::Value(Scalar::Null) => serde_json::Value::Null,
        Yaml::Value(Scalar::Boolean(value)) => (*value).into(),
        Yaml::Value(Scalar::Integer(number)) => (*number).into(),
        Yaml::Value(Scalar::FloatingPoint(number)) => number.into_inner().into(),
        Yaml::Value(Scalar::String(text)) => text.as_ref().into(),
        Yaml::Sequence(items) => items.iter().map(seen_by_saphyr).collect(),
        Yaml::Mapping(members) => {
            members.iter().map(|(key, value)| (name(key), seen_by_saphyr(value))).collect()
        }
        Yaml::Representation(..) | Yaml::Tagged(..) | Yaml::Alias(_) | Yaml::BadValue => {
            panic!("not a value: {node:?}")
        }
    }
}

/// A value with whole numbers above 63 bits as floating point numbers, as saphyr has them.
fn with_signed_numbers(value: serde_json::Value) -> serde_json::Value {
    use serde_json::Value as Json;
    match value {
        Json::Number(number) if number.is_u64() && !number.is_i64() => number.as_f64().into(),
        Json::Array(items) => items.into_iter().map(with_signed_numbers).collect(),
        Json::Object(members) => {
            members.into_iter().map(|(name, value)| (name, with_signed_numbers(value))).collect()
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => value,
    }
}

/// The expected content of a collection's file.
fn expected(collection: &Collection) -> serde_json::Value {
    let attributes = collection.attributes().iter().map(|(name, value)| (name.to_string(), json(value)));
    std::iter::once(("type".to_owned(), collection.kind().as_str().into())).chain(attributes).collect()
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn what_is_written_is_read_the_same_by_every_reader(collection in any_collection()) {
        let bytes = write(&collection);
        let text = String::from_utf8(bytes.clone()).unwrap();
        prop_assert_eq!(&seen_by_serde(&text).map_err(|e| TestCaseError::fail(format!("{e}: {text}")))?, &expected(&collection));
        let documents = <saphyr::Yaml as saphyr::LoadableYamlNode>::load_from_str(&text).unwrap();
        prop_assert_eq!(seen_by_saphyr(&documents[0]), with_signed_numbers(expected(&collection)), "{}", text);
        if bytes.len() <= FILE_BYTES_MAX {
            let back = read(&key(), &bytes);
            prop_assert_eq!(back.as_ref(), Ok(&collection), "{}", text);
        }
    }

    #[test]
    fn no_bytes_make_the_reader_fall(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        drop(read(&key(), &bytes));
    }
}

/// Random sequences of pieces of YAML.
fn mutated() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "type: document\n",
        "name: a\n",
        "x-a:",
        " ",
        "  ",
        "\n",
        "- ",
        "? ",
        ": ",
        ":",
        "{",
        "}",
        "[",
        "]",
        ", ",
        "'",
        "\"",
        "|",
        ">",
        "|+\n",
        "#",
        " # c\n",
        "&a",
        "*a",
        "!t",
        "<<",
        "%",
        "---",
        "...\n",
        "\t",
        "\r\n",
        "é",
        "a",
        "b: ",
        "1",
        "\\",
        "x-b: |\n  t\n",
        "x-c: [1, {a: b}]\n",
        "~",
        "  c: d\n",
        "- e\n",
        "''",
        "\"\"",
        "|2-\n",
        "@",
        "`",
    ]);
    prop::collection::vec(pieces, 0..14).prop_map(|pieces| format!("type: document\nx-0:{}", pieces.concat()))
}

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn what_is_read_is_what_an_independent_reader_reads(text in mutated()) {
        if let Ok(collection) = read(&key(), text.as_bytes()) {
            // A reader that refuses the text does no harm.
            if let Ok(seen) = seen_by_serde(&text) {
                prop_assert_eq!(seen, expected(&collection), "{}", text);
            }
        }
    }
}

#[test]
fn a_text_at_the_end_of_a_file_has_the_line_end_that_stands_there() {
    for (text, expected) in [
        ("|\n  a", "a"),
        ("|\n  a\n", "a\n"),
        ("|+\n  a:", "a:"),
        ("|+\n  a\n\n", "a\n\n"),
        (">\n  a\n  b", "a b"),
        ("|\r\n  a\r\n  b", "a\nb"),
        ("|-\n  a", "a"),
        ("|\n  a\n# c", "a\n"),
        ("|", ""),
    ] {
        let file = format!("type: document\nx-a: {text}");
        let read = good(&file);
        assert_eq!(json(read.by_name("x-a").unwrap()), expected);
        assert_eq!(seen_by_serde(&file).unwrap(), self::expected(&read), "{file}");
    }
}

#[test]
fn a_line_that_a_tab_indents_is_told_where_it_stands() {
    let key = Key::parse("posts").unwrap();
    for (text, line) in [
        ("type: document\nunpublishedStatuses:\n\tdraft:\n\t\tname: Draft\n", 3),
        ("type: document\n\tname: Posts\n", 2),
        ("\ttype: document\n", 1),
        ("# Überschrift\ntype: media\naccept:\n\t- .pdf\n\t- .png\n", 4),
    ] {
        let fault = read(&key, text.as_bytes()).unwrap_err().swap_remove(0);
        assert_eq!((fault.line, fault.column), (line, 1), "{text:?}: {fault:?}");
        assert!(fault.message.contains("tab"), "{fault:?}");
    }
}

#[test]
fn what_is_said_of_a_value_is_short_however_long_that_is() {
    let long = ["9".repeat(60_000), "1:".repeat(30_000) + "1", "!".repeat(60_000), "[".repeat(60_000)];
    let names = ["x-a", "type", "recursive", "format", "accept", "unpublishedStatuses"];
    for value in &long {
        let texts = names.map(|name| format!("type: document\n{name}: {value}\n"));
        for text in texts.into_iter().chain([format!("type: document\nx-{value}: 1\n")]) {
            let faults = read(&key(), text.as_bytes()).err().unwrap_or_default();
            for fault in faults {
                assert!(fault.message.chars().count() <= 401, "{}", fault.message.len());
            }
        }
    }
}
