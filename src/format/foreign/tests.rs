use super::*;
use crate::domain::Value;

fn value(text: &str) -> String {
    match read(text.as_bytes()) {
        Ok(node) => node.map_or(Value::Null, |node| node.to_value()).to_string(),
        Err(Fault { line, column, message }) => format!("{line}:{column}: {message}"),
    }
}

#[test]
fn scalars_are_those_of_the_core_schema() {
    assert_eq!(
        value(
            "[yes, No, on, true, ~, null, 12, 0o17, 0x1F, +1, -1.50, 1e3, .5, 1.2.3, 2024-01-01, 12:30, .inf, 08]"
        ),
        r#"["yes", "No", "on", true, null, null, 12, 15, 31, 1, -1.5, 1000.0, 0.5, "1.2.3", "2024-01-01", "12:30", ".inf", 8]"#
    );
    assert_eq!(value("a: !!str 12\nb: \"12\"\n"), r#"{"a": "12", "b": "12"}"#);
}

#[test]
fn what_libyaml_refuses_and_yaml_1_2_has_is_read() {
    assert_eq!(
        value("- {label: What is it?, name: why?x}\n"),
        r#"[{"label": "What is it?", "name": "why?x"}]"#
    );
}

#[test]
fn a_byte_order_mark_and_windows_line_ends_are_fine() {
    assert_eq!(value("\u{feff}a: b\r\nc:\r\n  - d\r\n"), r#"{"a": "b", "c": ["d"]}"#);
}

#[test]
fn json_is_read_as_json_has_it() {
    assert_eq!(value("{\n\t\"a\": [1,\t\"\\ud83d\\ude00\\u00e9\\/\"]\n}\n"), "{\"a\": [1, \"😀é/\"]}");
    assert_eq!(value(r#"{"a": "\\ud83d\\ude00"}"#), r#"{"a": "\\ud83d\\ude00"}"#);
}

#[test]
fn anchors_and_merge_keys_stand_for_what_they_name() {
    let text = "base: &b {x: 1, y: 2}\nmore: &m\n  <<: *b\n  y: 3\nboth: {<<: [*m, *b], z: 4}\nlist: [*b]\n";
    assert_eq!(
        value(text),
        r#"{"base": {"x": 1, "y": 2}, "more": {"x": 1, "y": 3}, "both": {"x": 1, "y": 3, "z": 4}, "list": [{"x": 1, "y": 2}]}"#
    );
    assert_eq!(value("a: {<<: 1}\n"), "1:9: `<<` takes the entries of a map, or of a list of maps");
}

#[test]
fn an_alias_of_nothing_is_told_where_it_stands() {
    let message = "`*nope` is an alias, and no `&nope` stands above it; mend the name, or put a text in quotes: \"*nope\"";
    for (text, place) in [
        ("é: 1\nlist:\n  - <<: *nope\n    a: 1\n", "3:9"),
        ("a: {<<: [*nope]}\n", "1:10"),
        ("a: &b 1\nc: *nope\n", "2:4"),
        ("a: *nope\nb: &nope 1\n", "1:4"),
    ] {
        assert_eq!(value(text), format!("{place}: {message}"));
    }
}

#[test]
fn what_aliases_stand_for_has_a_bound() {
    let laughs: String = (1..40).map(|n| format!("l{n}: &l{n} [*l{0}, *l{0}, *l{0}]\n", n - 1)).collect();
    let fault = value(&format!("l0: &l0 [x, x, x]\n{laughs}"));
    assert!(fault.ends_with("the aliases stand for more than 200000 values"), "{fault}");
    let deep: String = (1..99).map(|n| format!("l{n}: &l{n} [[*l{0}]]\n", n - 1)).collect();
    assert!(value(&format!("l0: &l0 [x]\n{deep}")).ends_with("nested 100 deep"));
    assert_eq!(value("a: &a [*a]\n"), "1:8: this alias stands inside of what it stands for");
    let brackets = format!("{}{}", "[".repeat(101), "]".repeat(101));
    assert!(value(&brackets).ends_with("nested 100 deep"));
    assert!(read("[".repeat(1_000_000).as_bytes()).is_err());
}

#[test]
fn what_decap_refuses_is_refused_where_it_stands() {
    assert_eq!(value("a: 1\nb: 2\na: 3\n"), "3:1: `a` stands here twice; keep one");
    assert_eq!(
        value("a: 1\n---\nb: 2\n"),
        "2:1: a second document begins here; only one is allowed in a file"
    );
}

#[test]
fn a_file_that_cannot_be_read_says_what_it_looks_like() {
    let jekyll = value("---\n---\nbackend:\n  name: git-gateway\n");
    assert!(jekyll.starts_with("2:1: this looks like a Jekyll page"), "{jekyll}");
    let liquid = value("collections:\n{% for c in site.collections %}\n  - name: {{ c }}\n{% endfor %}\n");
    assert!(liquid.starts_with("2:1: this looks like a Liquid template"), "{liquid}");
    for (text, message) in [
        ("a: 1\nslug: {{slug}}\n", "2:7: a text that begins with `{{` needs quotes; write \"{{slug}}\""),
        (
            "slug: {{year}}-{{slug}} # x\n",
            "1:7: a text that begins with `{{` needs quotes; write \"{{year}}-{{slug}}\"",
        ),
        (
            "c: [{name: a, slug: {{slug}}}]\n",
            "1:21: a text that begins with `{{` needs quotes; write \"{{slug}}\"",
        ),
    ] {
        assert_eq!(value(text), message);
    }
    let blank = value("backend:\n  name:git-gateway\n  branch: main\n");
    assert!(blank.starts_with("2:") && blank.contains("blank"), "{blank}");
    assert_eq!(
        value("collections:\n  - name:a\n    folder: x\n"),
        "2:9: write a blank after the colon: `name: a`"
    );
    assert!(value("a: [1, 2\nb: 3\n").contains("never closed"));
}

#[test]
fn bytes_that_are_no_text_are_told_as_what_they_are() {
    let message = |bytes: &[u8]| read(bytes).unwrap_err().message;
    assert!(message(&[0xff, 0xfe, b'a', 0]).contains("UTF-16"));
    assert!(message(b"a: \xe9\n").contains("0xe9"));
    assert!(message(&vec![b' '; SOURCE_BYTES_MAX + 1]).contains("more than"));
    assert!(read(b"").unwrap().is_none() && read(b"# nothing\n").unwrap().is_none());
}
