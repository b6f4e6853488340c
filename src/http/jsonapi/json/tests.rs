//! What is accepted, what is refused, and what is written.

use proptest::prelude::*;

use crate::domain::{Number, Value};
use crate::http::jsonapi::json::*;
use crate::random::cases;

const DEPTH_MAX: usize = 8;

fn shown(text: &str) -> String {
    match read(text.as_bytes(), DEPTH_MAX) {
        Ok(value) => {
            let mut out = Vec::new();
            write(&value, &mut out);
            String::from_utf8(out).unwrap()
        }
        Err(fault) => fault.to_string(),
    }
}

#[test]
fn what_can_be_kept_is_read_as_it_stands() {
    for (text, compact) in [
        (" null ", "null"),
        ("[ true , false ]", "[true,false]"),
        ("{\"b\":1,\n\t\"a\":[]}\r\n", "{\"b\":1,\"a\":[]}"),
        ("9223372036854775807", "9223372036854775807"),
        ("18446744073709551615", "18446744073709551615"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("0.1", "0.1"),
        ("1e20", "1e20"),
        ("-1.5E-3", "-0.0015"),
        ("1.0", "1.0"),
        (r#""\u00e4\ud83d\ude00\/\b\f\n\r\t\"\\""#, "\"ä😀/\\b\\f\\n\\r\\t\\\"\\\\\""),
        (r#""\u0000""#, "\"\\u0000\""),
        ("[[[[[[[[]]]]]]]]", "[[[[[[[[]]]]]]]]"),
        ("[[],[],[],[],[],[],[],[],[],[]]", "[[],[],[],[],[],[],[],[],[],[]]"),
    ] {
        assert_eq!(shown(text), compact, "{text}");
    }
}

#[test]
fn what_can_not_be_kept_is_refused_with_its_place() {
    for (text, message) in [
        ("", "line 1, column 1: expected a value, found the end of the text"),
        ("\u{feff}{}", "line 1, column 1: the text begins with a byte order mark; leave it out"),
        ("{} {}", "line 1, column 4: there is more text after the value"),
        ("{}\0", "line 1, column 3: there is more text after the value"),
        ("nul", "line 1, column 1: expected a value, found 'n'"),
        ("NaN", "line 1, column 1: expected a value, found 'N'"),
        ("Infinity", "line 1, column 1: expected a value, found 'I'"),
        ("-Infinity", "line 1, column 2: expected a digit, found 'I'"),
        ("1e999", "line 1, column 1: the number is too large"),
        ("1e-400", "line 1, column 1: the number is too small; write 0, or a string"),
        (
            "18446744073709551616",
            "line 1, column 1: the number does not fit into 64 bits; write it as a string",
        ),
        (
            "-9223372036854775809",
            "line 1, column 1: the number does not fit into 64 bits; write it as a string",
        ),
        ("01", "line 1, column 1: a number can't begin with a zero"),
        ("-01", "line 1, column 2: a number can't begin with a zero"),
        ("1.", "line 1, column 3: expected a digit, found the end of the text"),
        (".5", "line 1, column 1: expected a value, found '.'"),
        ("+1", "line 1, column 1: expected a value, found '+'"),
        ("0x10", "line 1, column 2: there is more text after the value"),
        ("1e", "line 1, column 3: expected a digit, found the end of the text"),
        ("'a'", "line 1, column 1: expected a value, found '\\''"),
        ("[1,]", "line 1, column 4: expected a value, found ']'"),
        ("[1 2]", "line 1, column 4: expected `,` or `]`, found '2'"),
        ("[1", "line 1, column 3: expected `,` or `]`, found the end of the text"),
        ("{\"a\":1,}", "line 1, column 8: expected the name of a member in quotes, found '}'"),
        ("{a:1}", "line 1, column 2: expected the name of a member in quotes, found 'a'"),
        ("{\"a\" 1}", "line 1, column 6: expected `:`, found '1'"),
        ("{\"a\":1}}", "line 1, column 8: there is more text after the value"),
        ("{\n \"a\":1,\n \"ä\":2, \"a\":3}", "line 3, column 9: the object has two members named \"a\""),
        (r#"{"a":1,"\u0061":2}"#, "line 1, column 8: the object has two members named \"a\""),
        ("// x\n1", "line 1, column 1: expected a value, found '/'"),
        ("\"a", "line 1, column 3: the string does not end"),
        ("\"a\nb\"", "line 1, column 3: a string can't hold '\\n' as it is; escape it"),
        (r#""\x41""#, "line 1, column 2: there is no such escape"),
        (r#""\u12g4""#, "line 1, column 2: `\\u` is followed by four hexadecimal digits"),
        (r#""\u+123""#, "line 1, column 2: `\\u` is followed by four hexadecimal digits"),
        (r#""\ud800""#, "line 1, column 2: half of a surrogate pair is no character"),
        (r#""\ud800\ud800""#, "line 1, column 2: half of a surrogate pair is no character"),
        (r#""\udc00\ud800""#, "line 1, column 2: half of a surrogate pair is no character"),
        (r#""\ud800x""#, "line 1, column 2: half of a surrogate pair is no character"),
        ("[[[[[[[[[]]]]]]]]]", "line 1, column 9: lists and objects are nested too deep"),
        ("\u{a0}1", "line 1, column 1: expected a value, found '\\u{a0}'"),
    ] {
        assert_eq!(shown(text), message, "{text}");
    }
}

#[test]
fn bytes_that_are_not_utf_8_are_refused_with_their_place() {
    for bytes in [&b"\"a\n\xff\""[..], b"\"a\n\xc3\"", b"\"a\n\xed\xa0\x80\""] {
        let fault = read(bytes, DEPTH_MAX).unwrap_err();
        assert_eq!(fault.to_string(), "line 2, column 1: the text is not UTF-8");
    }
}

#[test]
fn endless_nesting_is_refused_and_not_followed() {
    for text in ["[".repeat(1_000_000), "{\"a\":".repeat(200_000)] {
        let fault = read(text.as_bytes(), 128).unwrap_err();
        assert!(fault.to_string().ends_with(": lists and objects are nested too deep"), "{fault}");
    }
}

#[test]
fn a_name_that_returns_after_many_others_is_found() {
    let many: Vec<String> = (0..50_000).map(|n| format!("\"n{n}\":0")).collect();
    assert!(read(format!("{{{}}}", many.join(",")).as_bytes(), 1).is_ok());
    assert!(read(format!("{{{},\"n7\":1}}", many.join(",")).as_bytes(), 1).is_err());
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(|n| Value::Number(Number::Integer(n))),
        prop::num::f64::NORMAL.prop_map(|n| Value::Number(Number::Float(n))),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(|items| Value::List(items.into())),
            prop::collection::btree_map(any::<String>(), inner, 0..6)
                .prop_map(|members| Value::Map(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn what_is_written_reads_the_same_here_and_elsewhere(value in value()) {
        let mut out = Vec::new();
        write(&value, &mut out);
        prop_assert_eq!(&read(&out, DEPTH_MAX).unwrap(), &value);
        prop_assert!(serde_json::from_slice::<serde_json::Value>(&out).is_ok());
    }

    #[test]
    fn no_text_is_taken_that_a_general_reader_refuses(text in r#"[\[\]{}:,"\\u0-9eE+.\- a-ftrn]{0,24}"#) {
        if read(text.as_bytes(), DEPTH_MAX).is_ok() {
            prop_assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{}", text);
        }
    }
}
