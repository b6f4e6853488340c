use std::fmt::Write as _;
use std::ops::Range;
use std::time::Duration;

use proptest::prelude::*;
use rustix::time::{ClockId, clock_gettime};

use crate::domain::{ATTRIBUTES_MAX, Kind, Number, Patch, Value};
use crate::format::edit::*;
use crate::format::scalar::Style;
use crate::format::tests::{key, nasty_text};
use crate::format::{read, scalar};
use crate::random::cases;

fn list(items: &[&str]) -> Value {
    Value::List(items.iter().map(|item| Value::from(*item)).collect())
}

fn map(members: &[(&str, Value)]) -> Value {
    Value::Map(members.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
}

fn int(n: i64) -> Value {
    Value::Number(Number::Integer(n))
}

/// Edits `old` by a patch, checks that the result reads right, and returns it with the fallback.
#[track_caller]
fn patched(old: &str, patch: &[(&str, Value)]) -> (String, Option<String>) {
    let before = read(&key(), old.as_bytes()).unwrap_or_else(|fault| panic!("{old}\n{fault:?}"));
    let patch = Patch::new(patch.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    let after = before.patched_leniently(&patch).unwrap();
    let edited = edit(old.as_bytes(), &before, &after);
    let text = String::from_utf8(edited.bytes).unwrap();
    let back = read(&key(), text.as_bytes()).unwrap_or_else(|fault| panic!("{text}\n{fault:?}"));
    assert_eq!(back, after, "{text}");
    // Equal maps may differ in their order, which the debug form includes.
    assert_eq!(format!("{:?}", edited.collection), format!("{back:?}"), "{text}");
    (text, edited.fallback)
}

#[track_caller]
fn check(old: &str, patch: &[(&str, Value)], new: &str) {
    let (text, fallback) = patched(old, patch);
    assert_eq!(text, new);
    assert_eq!(fallback, None);
}

#[test]
fn a_scalar_keeps_its_quotes_its_blanks_and_its_comment() {
    check(
        "type: document\nname:   'a'   # c\n",
        &[("name", "it's".into())],
        "type: document\nname:   'it''s'   # c\n",
    );
    check(
        "type: document\r\nname: \"a\"\r\n",
        &[("name", "ä\"".into())],
        "type: document\r\nname: \"ä\\\"\"\r\n",
    );
    check("type: document\nname: a", &[("name", "yes".into())], "type: document\nname: \"yes\"");
    check(
        "type: document\nrecursive: false # c\n",
        &[("recursive", true.into())],
        "type: document\nrecursive: true # c\n",
    );
    check(
        "type: document\nx-a: # empty\nname: a\n",
        &[("x-a", int(1))],
        "type: document\nx-a: 1 # empty\nname: a\n",
    );
    check("type: document\n? name\n: a\n", &[("name", "b".into())], "type: document\n? name\n: b\n");
}

#[test]
fn a_scalar_of_several_lines_is_replaced_whole() {
    check(
        "type: document\nname: >-  # folded\n  a\n  b\n\n# next\nformat: md\n",
        &[("name", "c".into())],
        "type: document\nname: c  # folded\n\n# next\nformat: md\n".replace("c  #", "c #").as_str(),
    );
    check(
        "type: document\nname: 'a\n  b'\nformat: md\n",
        &[("name", "c".into())],
        "type: document\nname: 'c'\nformat: md\n",
    );
    check("type: document\nname: a\n  b # c\n", &[("name", "d".into())], "type: document\nname: d # c\n");
    check(
        "type: document\nx-a: |\n    a\n    b\n\nname: me\n",
        &[("x-a", "c\n\nd\n".into())],
        "type: document\nx-a: |\n    c\n\n    d\n\nname: me\n",
    );
    check("type: document\nx-a: |\n  a\n", &[("x-a", "c\nd".into())], "type: document\nx-a: |-\n  c\n  d\n");
}

#[test]
fn a_value_of_another_shape_leaves_the_comment_behind_the_name_and_takes_those_of_its_items() {
    let old = "type: document\nx-l:   # the list\n  # first\n  - a\n  - b # second\nformat: md # end\n";
    let head = "type: document\nx-l:";
    check(old, &[("x-l", list(&[]))], &format!("{head} []   # the list\nformat: md # end\n"));
    check(old, &[("x-l", int(1))], &format!("{head} 1   # the list\nformat: md # end\n"));
    check(
        old,
        &[("x-l", map(&[("c", int(1))]))],
        &format!("{head}   # the list\n  c: 1\nformat: md # end\n"),
    );
    let nested = "type: document\nx-l: # lists\n  - - a # one\n    - b # two\n";
    check(nested, &[("x-l", Value::List([list(&[])].into()))], "type: document\nx-l: # lists\n  - []\n");
    let folded = "type: document\r\nx-m: |  # text\r\n  a\r\n";
    check(folded, &[("x-m", list(&["b"]))], "type: document\r\nx-m: # text\r\n  - b\r\n");
    let scalar = "type: document\nx-m: a#b   # text\n";
    check(scalar, &[("x-m", list(&["b"]))], "type: document\nx-m:   # text\n  - b\n");
    let map_of = "type: document\nx-m:  # the map\n  a: 1 # one\n";
    check(map_of, &[("x-m", map(&[]))], "type: document\nx-m: {}  # the map\n");
}

#[test]
fn a_new_attribute_stands_behind_the_one_that_precedes_it() {
    let old = "# top\ntype: document   # kind\n\n# where\ndirectory: d\nformat: md";
    check(
        old,
        &[("name", "All".into())],
        "# top\ntype: document   # kind\nname: All\n\n# where\ndirectory: d\nformat: md",
    );
    check(old, &[("x-a", list(&["b"]))], &format!("{old}\nx-a:\n  - b"));
    check("---\ntype: media\r\n...\r\n", &[("url", "/m".into())], "---\ntype: media\r\nurl: /m\n...\r\n");
    check(
        "{type: document, name: x}\n",
        &[("recursive", true.into())],
        "{type: document, name: x, recursive: true}\n",
    );
    check(
        "{\n  type: document # c\n}\n",
        &[("name", "x, y".into())],
        "{\n  type: document, # c\n  name: \"x, y\"\n}\n",
    );
    for (old, new) in [
        ("x-a: a", "x-a: a,\n  x-b: 1"),
        ("x-a: a,", "x-a: a,\n  x-b: 1,"),
        ("x-a: a # own", "x-a: a, # own\n  x-b: 1"),
        ("x-a: [a, b]", "x-a: [a, b],\n  x-b: 1"),
    ] {
        for end in ["\n", "\r\n"] {
            let [old, new] =
                [old, new].map(|it| format!("{{\n  type: document, # kind\n  {it}\n}}\n").replace('\n', end));
            check(&old, &[("x-b", int(1))], &new);
        }
    }
    for (comma, changed, new) in [
        ("", ("x-b", int(1)), "x-a: a, x-b: 1\n  ,\n  name: me"),
        (" # own", ("x-b", int(1)), "x-a: a, x-b: 1 # own\n  ,\n  name: me"),
        ("", ("x-a", Value::Null), "name: me"),
    ] {
        let old = format!("{{\n  type: document,\n  x-a: a{comma}\n  ,\n  name: me\n}}\n");
        check(&old, &[changed], &format!("{{\n  type: document,\n  {new}\n}}\n"));
    }
    check("  type: document\n", &[("name", "x".into())], "  type: document\n  name: x\n");
}

#[test]
fn a_removed_attribute_takes_its_own_comment_along_and_no_other() {
    let old = "# top\ntype: document\n# above\nname: me # own\n# below\n\nformat: md\n";
    check(old, &[("name", Value::Null)], "# top\ntype: document\n# above\n# below\n\nformat: md\n");
    check(old, &[("format", Value::Null)], "# top\ntype: document\n# above\nname: me # own\n# below\n\n");
    check("type: document\nname: me", &[("name", Value::Null)], "type: document");
    check(
        "{\"type\": \"document\", \"name\": \"x\"}\n",
        &[("recursive", true.into()), ("directory", "a".into())],
        "{\"type\": \"document\", \"name\": \"x\", \"directory\": \"a\", \"recursive\": true}\n",
    );
    check("{type: document, name: x}\n", &[("name", Value::Null)], "{type: document}\n");
    check("{name: x, type: document}\n", &[("name", Value::Null)], "{type: document}\n");
}

#[test]
fn a_list_gains_and_loses_single_items() {
    let old = "type: media\naccept: # what\n- 'image/*' # all\n- '.pdf'\n# end\nurl: /m\n";
    check(
        old,
        &[("accept", list(&["image/*", ".pdf", ".zip"]))],
        "type: media\naccept: # what\n- 'image/*' # all\n- '.pdf'\n- '.zip'\n# end\nurl: /m\n",
    );
    check(old, &[("accept", list(&[".pdf"]))], "type: media\naccept: # what\n- '.pdf'\n# end\nurl: /m\n");
    check(
        old,
        &[("accept", list(&["image/*", ".doc"]))],
        "type: media\naccept: # what\n- 'image/*' # all\n- '.doc'\n# end\nurl: /m\n",
    );
    check(
        old,
        &[("accept", list(&[".a", "image/*", ".pdf"]))],
        "type: media\naccept: # what\n- .a\n- 'image/*' # all\n- '.pdf'\n# end\nurl: /m\n"
            .replace("- .a", "- '.a'")
            .as_str(),
    );
    check(
        "type: media\naccept: [ .a, .b ] # c\n",
        &[("accept", list(&[".a", ".b", ".c"]))],
        "type: media\naccept: [ .a, .b, .c ] # c\n",
    );
    check(
        "type: media\naccept: [ .a, .b ] # c\n",
        &[("accept", list(&[".b"]))],
        "type: media\naccept: [ .b ] # c\n",
    );
    check("type: media\naccept: [.a, .b, .c]\n", &[("accept", list(&[".a"]))], "type: media\naccept: [.a]\n");
    check("type: media\naccept: []\n", &[("accept", list(&[".a"]))], "type: media\naccept: [.a]\n");
    check("type: media\naccept: [.a]\n", &[("accept", list(&[]))], "type: media\naccept: []\n");
    check(
        "type: media\naccept: [\n  .a, # a\n  .b # b\n]\n",
        &[("accept", list(&[".a", ".b", ".c"]))],
        "type: media\naccept: [\n  .a, # a\n  .b, # b\n  .c\n]\n",
    );
    check(
        "type: media\naccept: [\n  .a, # a\n  .b # b\n]\n",
        &[("accept", list(&[".a"]))],
        "type: media\naccept: [\n  .a # a\n]\n",
    );
    check("type: media\naccept:\n  - .a\n", &[("accept", list(&[]))], "type: media\naccept: []\n");
}

#[test]
fn a_map_changes_in_its_members_only() {
    let old = "type: document\nunpublishedStatuses:\n    draft: {directory: d, name: 'D'} # one\n    # two\n    gone:\n        directory: \"g\" # why\n";
    let draft = |name: &str| map(&[("directory", "d".into()), ("name", name.into())]);
    let gone = |directory: &str| map(&[("directory", directory.into())]);
    check(
        old,
        &[("unpublishedStatuses", map(&[("gone", gone("h")), ("draft", draft("E"))]))],
        "type: document\nunpublishedStatuses:\n    draft: {directory: d, name: 'E'} # one\n    # two\n    gone:\n        directory: \"h\" # why\n",
    );
    check(
        old,
        &[("unpublishedStatuses", map(&[("draft", draft("D")), ("gone", gone("g")), ("x", gone("x"))]))],
        &format!("{old}    x:\n      directory: x\n"),
    );
    check(
        old,
        &[("unpublishedStatuses", map(&[("gone", gone("g"))]))],
        "type: document\nunpublishedStatuses:\n    # two\n    gone:\n        directory: \"g\" # why\n",
    );
    let nested = "type: document\nx-a:\n- b: 1 # c\n  d: 2\n- - e # f\n  - g\n";
    let value = |b: i64, g: &str| Value::List([map(&[("b", int(b)), ("d", int(2))]), list(&["e", g])].into());
    check(nested, &[("x-a", value(3, "h"))], "type: document\nx-a:\n- b: 3 # c\n  d: 2\n- - e # f\n  - h\n");
}

#[test]
fn a_comment_behind_a_dash_stays_and_its_item_changes_in_place() {
    let fields = "type: document\nx-a:\n  - # the title\n    # - of a post\n\n    name: title   # t1\n    widget: \"string\"\n  - name: body    # b1\n";
    let title = |widget: &str| map(&[("name", "title".into()), ("widget", widget.into())]);
    let body = map(&[("name", "body".into())]);
    let items = |items: &[&Value]| [("x-a", Value::List(items.iter().copied().cloned().collect()))];
    check(fields, &items(&[&title("text"), &body]), &fields.replace("string", "text"));
    check(fields, &items(&[&title("string"), &body, &body]), &format!("{fields}  - name: body\n"));
    check(fields, &items(&[&body]), "type: document\nx-a:\n  - name: body    # b1\n");
    check(
        "type: document\nx-a:\n- # c\n  one\n- two # c2\n",
        &[("x-a", list(&["One", "two", "three"]))],
        "type: document\nx-a:\n- # c\n  One\n- two # c2\n- three\n",
    );
    check(
        "type: document\r\nx-a:\r\n- - # c\r\n    - a # c1\r\n",
        &[("x-a", Value::List([Value::List([list(&["b"])].into())].into()))],
        "type: document\r\nx-a:\r\n- - # c\r\n    - b # c1\r\n",
    );
}

#[test]
fn a_comment_stays_with_its_item_when_another_goes_in_the_same_change() {
    let item = |id: &str, v: i64| map(&[("id", id.into()), ("v", int(v))]);
    let lines = |id: &str, v: i64| format!("- id: {id} # {id}\n  v: {v}\n");
    let old = format!("type: document\nx-a:\n{}{}{}", lines("a", 1), lines("b", 2), lines("c", 3));
    let check = |items: &[Value], new: &[String]| {
        let new = format!("type: document\nx-a:\n{}", new.concat());
        check(&old, &[("x-a", Value::List(items.into()))], &new);
    };
    check(&[item("a", 1), item("c", 4)], &[lines("a", 1), lines("c", 4)]);
    check(&[item("b", 1), item("c", 2)], &[lines("b", 1), lines("c", 2)]);
    check(&[item("a", 1), item("b", 5), item("c", 4)], &[lines("a", 1), lines("b", 5), lines("c", 4)]);
    let new = "- id: new\n  v: 0\n".to_owned();
    check(
        &[item("a", 1), item("new", 0), item("b", 3), item("c", 3)],
        &[lines("a", 1), new, lines("b", 3), lines("c", 3)],
    );
}

#[test]
fn a_map_that_changes_keeps_the_order_of_the_file_and_is_told_in_it() {
    check(
        "type: document\nx-a:\n  b: 1 # c\n",
        &[("x-a", map(&[("a", int(0)), ("b", int(1))]))],
        "type: document\nx-a:\n  b: 1 # c\n  a: 0\n",
    );
    let (text, fallback) = patched(
        "type: document\ndraftDirectory: d\nunpublishedStatuses: {b: {directory: b}}\n",
        &[(
            "unpublishedStatuses",
            map(&[
                ("draft", map(&[("name", "D".into()), ("directory", "d".into())])),
                ("b", map(&[("name", "B".into()), ("directory", "b".into())])),
            ]),
        )],
    );
    assert!(text.contains("{b: {directory: b, name: B}, draft: {name: D, directory: d}}"), "{text}");
    assert_eq!(fallback, None);
}

#[test]
fn a_shorthand_stays_one_as_long_as_it_can() {
    let status = |directory: &str, name: &str| map(&[("directory", directory.into()), ("name", name.into())]);
    let old = "type: document\ndraftDirectory: d/ # c\ntrashDirectory: t\n";
    check(
        old,
        &[("draftDirectory", "e".into())],
        "type: document\ndraftDirectory: e # c\ntrashDirectory: t\n",
    );
    check(old, &[("draftDirectory", Value::Null)], "type: document\ntrashDirectory: t\n");
    check(old, &[("unpublishedStatuses", Value::Null)], "type: document\n");
    check(
        old,
        &[("archiveDirectory", "a".into())],
        &format!("{old}unpublishedStatuses:\n  archived:\n    directory: a\n    name: Archived\n"),
    );
    check(
        old,
        &[(
            "unpublishedStatuses",
            map(&[("draft", status("d", "Entwurf")), ("trash", status("t", "Trash"))]),
        )],
        "type: document\ntrashDirectory: t\nunpublishedStatuses:\n  draft:\n    directory: d\n    name: Entwurf\n",
    );
    let both =
        "type: document\ndraftDirectory: d\nunpublishedStatuses: {draft: {directory: own, name: Own}}\n";
    check(
        both,
        &[("draftDirectory", "e".into())],
        "type: document\ndraftDirectory: d\nunpublishedStatuses: {draft: {directory: e, name: Own}}\n",
    );
    check(both, &[("draftDirectory", Value::Null)], "type: document\n");
}

#[test]
fn a_text_that_the_file_ends_in_stays_as_it_is_when_something_comes_behind_it() {
    let added = [("x-c", int(1))];
    let before = "# c\ntype: document\nx-a: 1\n";
    for (text, stripped) in [("|\n  a", "|-\n  a"), (">+2 # d\n  a\n  b", ">2- # d\n  a\n  b")] {
        check(&format!("{before}x-b: {text}"), &added, &format!("{before}x-b: {stripped}\nx-c: 1\n"));
    }
    check(&format!("{before}x-b: |\n  a"), &[("x-a", int(2))], "# c\ntype: document\nx-a: 2\nx-b: |\n  a");
    check(&format!("{before}x-b: |\n  a"), &[("x-b", "b".into())], &format!("{before}x-b: b"));
}

#[test]
fn attributes_come_and_go_in_one_edit() {
    check(
        "type: document\nname: |\n  a\n# above\nformat: md\n  # below\nx-a: 1 # a\nx-b: 2",
        &[("recursive", true.into()), ("format", Value::Null), ("x-b", Value::Null), ("x-c", int(3))],
        "type: document\nname: |\n  a\nrecursive: true\n# above\n  # below\nx-a: 1 # a\nx-c: 3",
    );
    check(
        "{\n  type: document, # t\n  x-a: 1,\n  x-b: 2 # b\n}\n",
        &[("name", "me".into()), ("x-a", Value::Null), ("x-b", Value::Null), ("x-c", int(3))],
        "{\n  type: document, # t\n  name: me,\n  x-c: 3\n}\n",
    );
    check(
        "{type: document, x-a: 1, x-b: 2}",
        &[("name", "me".into()), ("x-b", Value::Null), ("x-a", int(3))],
        "{type: document, name: me, x-a: 3}",
    );
}

#[test]
fn what_can_not_be_done_in_place_is_told() {
    let (text, fallback) =
        patched("type: document\nx-a: {b: 1, ? c : 2} # c\n", &[("x-a", map(&[("b", int(1))]))]);
    assert_eq!((text.as_str(), fallback), ("type: document\nx-a: {b: 1} # c\n", None));
    check("type: document\nx-a: |+\n  a\n\n", &[("x-b", int(1))], "type: document\nx-a: |+\n  a\n\nx-b: 1\n");
    let (text, fallback) = patched("# keep\ntype: document\n? x-a # a\n: a # b\n", &[("x-a", list(&["c"]))]);
    assert_eq!(text, "# keep\ntype: document\nx-a:\n  - c # b\n");
    assert_eq!(fallback.as_deref(), Some("`x-a` could not be changed in place and was written anew"));
}

#[test]
fn a_file_that_is_not_what_it_is_said_to_be_is_written_anew() {
    let before = read(&key(), b"type: document\n").unwrap();
    let edited =
        edit(b"type: media\n", &before, &before.patched(&Patch::new([("name".into(), "a".into())])).unwrap());
    assert_eq!(edited.bytes, b"type: document\nname: a\n");
    assert!(edited.fallback.is_some());
}

#[test]
fn a_comment_below_a_removed_attribute_does_not_become_text_of_the_one_above() {
    let old = "# head\ntype: document   # kind\nformat: |\n  tr\nrevisionDirectory: rv\n  # about nothing\nname: 'Quoted'   # the name\n";
    let gone = [("revisionDirectory", Value::Null)];
    let new =
        "# head\ntype: document   # kind\nformat: |\n  tr\n# about nothing\nname: 'Quoted'   # the name\n";
    check(old, &gone, new);
    check(&old.replace('|', ">-"), &gone, &new.replace('|', ">-"));
    check(&old.replace('|', "|+ # +"), &gone, &new.replace('|', "|+ # +"));
    check(&old.replace('\n', "\r\n"), &gone, &new.replace('\n', "\r\n"));
    let below = |old: &str, lines: &str| old.replace("  # about nothing\n", lines);
    let new = new.replace("# about nothing\n", "  # about nothing\n");
    let several = "\n    # one\n      # two\n\n  # three\n";
    check(&below(old, several), &gone, &below(&new, "\n# one\n# two\n\n  # three\n"));
    check(&below(old, " \n       \n"), &gone, &below(&new, "\n\n"));
    check(&below(old, "\n  # c\n").replace('|', "|+"), &gone, &below(&new, "# c\n").replace('|', "|+"));
    check(&below(old, "\n\n").replace('|', "|+"), &gone, &below(&new, "").replace('|', "|+"));
}

#[test]
fn a_name_behind_a_question_mark_is_removed_with_its_mark() {
    check(
        "# h\n? type # tk\n: document # k\n? name\n# mid\n: z # n\n# end\n",
        &[("name", Value::Null)],
        "# h\n? type # tk\n: document # k\n# end\n",
    );
    check(
        "# h?\n? # why?\n  name\n: z\ntype: document # k\n",
        &[("name", Value::Null)],
        "# h?\ntype: document # k\n",
    );
    check("{? name : z, type: document}\n", &[("name", Value::Null)], "{type: document}\n");
    check(
        "? type\n: document\nformat: md # f\n",
        &[("name", "me".into())],
        "? type\n: document\nname: me\nformat: md # f\n",
    );
}

#[test]
fn a_comment_below_removed_items_and_members_does_not_become_text_either() {
    let list = |items: &[&str]| [("x-a", list(items))];
    check(
        "type: document\nx-a:\n- |\n  a\n- b\n  # b\n- c\n    # c\n- d # d\n",
        &list(&["a\n", "d"]),
        "type: document\nx-a:\n- |\n  a\n# b\n    # c\n- d # d\n",
    );
    check(
        "type: document\nx-a:\n- |\n  a\n# a\n- b\n  # b\n",
        &list(&["a\n"]),
        "type: document\nx-a:\n- |\n  a\n# a\n  # b\n",
    );
    check(
        "type: document\nx-a:\n  b:\n    c: |\n      t\n  d: 1\n        # d\nname: me # n",
        &[("x-a", map(&[("b", map(&[("c", "t\n".into())]))]))],
        "type: document\nx-a:\n  b:\n    c: |\n      t\n  # d\nname: me # n",
    );
}

/// A sequence of small random choices from one seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn one_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }
}

/// Writes files in the random style of one person.
struct Hand {
    dice: Dice,
    comments: usize,
    step: usize,
    dash: usize,
    /// Whether the last value is a text after `|`.
    in_text: bool,
}

impl Hand {
    fn comment(&mut self, out: &mut String) {
        if self.dice.one_in(3) {
            self.comments += 1;
            let number = self.comments;
            write!(out, "{}# c{number}: \"it's\" [{{", " ".repeat(1 + self.dice.roll(3) as usize)).unwrap();
        }
        out.push('\n');
    }

    fn above(&mut self, out: &mut String, indent: usize) {
        while self.dice.one_in(4) {
            if self.dice.one_in(2) {
                out.push('\n');
            } else {
                self.comments += 1;
                writeln!(out, "{:indent$}# c{} - a: b", "", self.comments).unwrap();
            }
        }
    }

    fn scalar(&mut self, value: &Value, in_flow: bool) -> String {
        let style = [Style::Plain, Style::Single, Style::Double][self.dice.roll(3) as usize];
        scalar::emit_scalar(value, style, in_flow)
    }

    fn name(&mut self, name: &str, in_flow: bool) -> String {
        if self.dice.one_in(4) {
            self.scalar(&name.into(), in_flow)
        } else {
            scalar::emit_text(name, Style::Plain, in_flow)
        }
    }

    fn flow(&mut self, value: &Value) -> String {
        let space = [" ", ""][self.dice.roll(2) as usize];
        let comma = if self.dice.one_in(4) { "," } else { "" };
        match value {
            Value::List(items) if !items.is_empty() => {
                let items: Vec<_> = items.iter().map(|item| self.flow(item)).collect();
                format!("[{space}{}{comma}{space}]", items.join(", "))
            }
            Value::Map(members) if !members.is_empty() => {
                let members: Vec<_> = members
                    .iter()
                    .map(|(name, value)| format!("{}: {}", self.name(name, true), self.flow(value)))
                    .collect();
                format!("{{{space}{}{comma}{space}}}", members.join(",  "))
            }
            Value::List(_) => "[]".into(),
            Value::Map(_) => "{}".into(),
            scalar => self.scalar(scalar, true),
        }
    }

    /// Writes what follows a colon or a dash, with the line end.
    fn behind(&mut self, out: &mut String, indent: usize, value: &Value) {
        self.in_text = false;
        match value {
            Value::List(items) if !items.is_empty() && self.dice.one_in(2) => {
                self.comment(out);
                let indent = indent + self.dash;
                for item in items {
                    self.above(out, indent);
                    write!(out, "{:indent$}-", "").unwrap();
                    let nested = self.dash.max(2) + indent;
                    self.behind(out, nested, item);
                }
            }
            Value::Map(members) if !members.is_empty() && self.dice.one_in(2) => {
                self.comment(out);
                let indent = indent + self.step;
                for (name, value) in members {
                    self.above(out, indent);
                    let name = self.name(name, false);
                    write!(out, "{:indent$}{name}:", "").unwrap();
                    self.behind(out, indent, value);
                }
            }
            Value::Text(text)
                if text.ends_with('\n')
                    && !text.starts_with([' ', '\n'])
                    && !text.ends_with("\n\n")
                    && text.trim() != ""
                    && text.trim_end().chars().all(|c| c == '\n' || !c.is_control())
                    && self.dice.one_in(2)
                    && !text.contains(scalar::is_forbidden) =>
            {
                out.push_str(" |");
                self.comment(out);
                self.in_text = true;
                let indent = indent + self.step;
                for line in text.lines() {
                    if line.is_empty() {
                        out.push('\n');
                    } else {
                        writeln!(out, "{:indent$}{line}", "").unwrap();
                    }
                }
            }
            Value::List(_) | Value::Map(_) => {
                let flow = self.flow(value);
                write!(out, " {flow}").unwrap();
                self.comment(out);
            }
            scalar => {
                let scalar = self.scalar(scalar, false);
                write!(out, "{}{scalar}", " ".repeat(1 + self.dice.roll(2) as usize)).unwrap();
                self.comment(out);
            }
        }
    }
}

/// A file as a person might write it: the lines of each attribute, in the order of the file, and
/// whether the file ends in a text after `|`.
fn by_hand(seed: u64, attributes: &[(String, Value)]) -> (Vec<(String, String)>, bool) {
    let mut dice = Dice(seed);
    let (step, dash) = ([2, 4, 3][dice.roll(3) as usize], [0, 2, 4][dice.roll(3) as usize]);
    let mut hand = Hand { dice, comments: 0, step, dash, in_text: false };
    let mut order: Vec<_> = attributes.iter().collect();
    for at in (1..order.len()).rev() {
        order.swap(at, hand.dice.roll(at as u64 + 1) as usize);
    }
    let parts = order.into_iter().map(|(name, value)| {
        let mut out = String::new();
        hand.above(&mut out, 0);
        let written = hand.name(name, false);
        write!(out, "{written}{}:", if hand.dice.one_in(8) { " " } else { "" }).unwrap();
        hand.behind(&mut out, 0, value);
        (name.clone(), out)
    });
    (parts.collect(), hand.in_text)
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (-9..99_i64).prop_map(int),
        nasty_text().prop_map(Value::from),
        "[a-z]{1,4}( [a-z]{1,4})?".prop_map(Value::from),
        "([a-z#: ]{0,4}\n){1,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|items| Value::List(items.into())),
            prop::collection::btree_map("[a-d]|yes|ä b", inner, 0..4)
                .prop_map(|members| Value::Map(members.into_iter().collect())),
        ]
    })
}

prop_compose! {
    fn attributes()(
        name in prop::option::of("[a-zé ':]{1,8}|yes|12"),
        recursive in prop::option::of(any::<bool>()),
        directory in prop::option::of("[a-z]{1,4}/[a-z]{1,4}"),
        statuses in prop::option::of(prop::collection::btree_map("draft|trash|[a-c]", "[a-z]{1,3}", 0..4)),
        draft in prop::option::of("[a-z]{1,3}"),
        free in prop::collection::btree_map("x-[a-c]", value(), 0..4),
    ) -> Vec<(String, Value)> {
        let mut attributes = vec![("type".to_owned(), Value::from("document"))];
        let mut add = |name: &str, value: Option<Value>| attributes.extend(value.map(|value| (name.to_owned(), value)));
        add("name", name.map(Value::from));
        add("recursive", recursive.map(Value::Bool));
        add("directory", directory.map(Value::from));
        add("draftDirectory", draft.map(Value::from));
        add("unpublishedStatuses", statuses.map(|statuses| {
            let statuses = statuses.into_iter().map(|(status, directory)| (status, map(&[("directory", directory.as_str().into())])));
            Value::Map(statuses.collect())
        }));
        attributes.extend(free);
        attributes
    }
}

fn collection(attributes: &[(String, Value)]) -> Collection {
    Collection::from_file(key(), Kind::Document, attributes.iter().cloned()).unwrap()
}

fn comments_in(text: &str) -> Vec<String> {
    let number = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
    text.match_indices("# c")
        .map(|(at, _)| number(&text[at + 3..]))
        .filter(|number| !number.is_empty())
        .collect()
}

fn check_edit(seed: u64, before: &[(String, Value)], after: &Collection) -> Result<(), TestCaseError> {
    let mut dice = Dice(seed ^ 7);
    let (crlf, cut, start) = (dice.one_in(3), dice.one_in(4), dice.one_in(4));
    let ends = |text: &str| if crlf { text.replace('\n', "\r\n") } else { text.to_owned() };
    let (parts, in_text) = by_hand(seed, before);
    let parts: Vec<_> = parts.into_iter().map(|(name, text)| (name, ends(&text))).collect();
    let mut old: String = parts.iter().map(|(_, text)| text.as_str()).collect();
    if start {
        old.insert_str(0, &ends("--- # c0\n"));
    }
    let kept = old.trim_end_matches(['\r', '\n']);
    // The last line end of a text after `|` belongs to the value.
    if cut && !in_text {
        old.truncate(kept.len());
    }
    let before = collection(before);
    let seen = read(&key(), old.as_bytes());
    prop_assert_eq!(seen.as_ref(), Ok(&before), "{}", old);
    prop_assert_eq!(edit(old.as_bytes(), &before, &before).bytes, old.as_bytes());

    let edited = edit(old.as_bytes(), &before, after);
    let new = String::from_utf8(edited.bytes).unwrap();
    let read_back = read(&key(), new.as_bytes());
    prop_assert_eq!(read_back.as_ref(), Ok(after), "{}\n----\n{}", &old, &new);
    prop_assert_eq!(
        format!("{:?}", Ok::<_, ()>(&edited.collection)),
        format!("{:?}", read_back.as_ref().map_err(|_| ()))
    );
    prop_assert_eq!(edited.fallback, None, "{}\n----\n{}", &old, &new);
    let changed: Vec<String> =
        changes(Some(&before), Some(after)).into_iter().map(|change| change.attribute).collect();
    let is_changed = |name: &str| {
        changed.iter().any(|it| it == name)
            || (Shorthand::parse(name).is_some() && changed.iter().any(|it| it == "unpublishedStatuses"))
    };
    let mut from = 0;
    for (name, text) in &parts {
        if !is_changed(name) {
            let text = text.trim_end();
            let at = new[from..].find(text);
            prop_assert!(at.is_some(), "{} is not as it was\n{}\n----\n{}", name, &old, &new);
            from += at.unwrap() + text.len();
        } else {
            let above: String =
                text.split_inclusive('\n').take_while(|line| line.starts_with(['#', '\n', '\r'])).collect();
            let left = comments_in(&new);
            prop_assert!(
                comments_in(&above).iter().all(|it| left.contains(it)),
                "a comment is gone\n{}\n----\n{}",
                &old,
                &new
            );
        }
    }
    Ok(())
}

#[test]
fn a_text_that_ends_in_blanks_keeps_the_line_end_that_it_needs() {
    let text = |text: &str| vec![("type".to_owned(), "document".into()), ("x-a".to_owned(), text.into())];
    for seed in (0..200).chain([11_814_236_849_811_795_079]) {
        check_edit(seed, &text("a \n"), &collection(&text("b \n"))).unwrap();
        check_edit(seed, &text("a \n"), &collection(&text("a \n \n"))).unwrap();
    }
    check(
        "type: document\nx-a: |\n  a \nname: b",
        &[("name", Value::Null)],
        "type: document\nx-a: |\n  a \n",
    );
}

proptest! {
    #![proptest_config(cases(250))]

    #[test]
    fn an_edit_changes_what_changed_and_nothing_else(seed in any::<u64>(), before in attributes(), other in attributes(), mix in any::<u16>()) {
        let mut after: Vec<_> = before.iter().filter(|(name, _)| name != "type").cloned().collect();
        for (at, (name, value)) in other.iter().enumerate() {
            if mix >> at & 1 == 1 {
                after.retain(|(known, _)| known != name);
                after.push((name.clone(), value.clone()));
            }
        }
        if mix >> 12 & 1 == 1 && !after.is_empty() {
            after.remove(0);
        }
        check_edit(seed, &before, &collection(&after))?;
    }
}

/// Lists of texts that end in blanks and line ends, in every place of a file.
fn ragged() -> impl Strategy<Value = Vec<(String, Value)>> {
    let text = || prop_oneof!["[a ]{0,2}(\n[a# ]{0,2}){0,2}\n?", "[a-z]{1,2} \n"].prop_map(Value::from);
    let list = || prop::collection::vec(text(), 0..4).prop_map(|items| Value::List(items.into()));
    let map = || {
        let members = prop::collection::btree_map("[a-c]", prop_oneof![text(), list()], 0..3);
        members.prop_map(|members| Value::Map(members.into_iter().collect()))
    };
    let value = prop_oneof![text(), list(), map()];
    prop::collection::btree_map("name|x-[a-c]", value, 0..4).prop_map(|members| {
        let is_name_text = |(name, value): &(String, Value)| name != "name" || value.as_text().is_some();
        let kind = ("type".to_owned(), Value::from("document"));
        std::iter::once(kind).chain(members.into_iter().filter(is_name_text)).collect()
    })
}

proptest! {
    #![proptest_config(cases(250))]

    #[test]
    fn texts_that_end_in_blanks_are_changed_in_place_too(seed in any::<u64>(), before in ragged(), after in ragged()) {
        check_edit(seed, &before, &collection(&after))?;
    }
}

/// The processor's time for the fastest of several runs; that of other threads does not count.
fn quickest(mut work: impl FnMut()) -> Duration {
    let used = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).expect("time does not run back");
    let runs = (0..5).map(|_| {
        let start = used();
        work();
        used() - start
    });
    runs.min().expect("there are runs")
}

/// Files of nearly the largest size, and their collections with every value changed, every other one
/// removed, and as many added.
fn largest() -> Vec<(String, Collection, Collection)> {
    let attributes = |count: usize, value: &dyn Fn(usize) -> Value| -> Vec<(String, Value)> {
        (0..count).map(|n| (format!("x-{n:04}"), value(n))).collect()
    };
    let one = |value: Value| vec![("x-a".to_owned(), value)];
    let member = |n: usize, value: i64| (format!("n{n:04}"), int(value));
    let members = |range: Range<usize>, value: i64| Value::Map(range.map(|n| member(n, value)).collect());
    let half = |value: i64| Value::Map((0..8000).step_by(2).map(|n| member(n, value)).collect());
    let items = |value: i64| Value::List((0..7000).map(|n| int(n * value)).collect());
    let wide = |letter: &str| attributes(ATTRIBUTES_MAX, &|_| letter.repeat(230).into());
    let half_wide: Vec<_> =
        wide("b").into_iter().step_by(2).map(|(name, value)| (format!("{name}a"), value)).collect();
    let pairs = [
        (wide("a"), wide("b")),
        (wide("a"), half_wide),
        (one(members(0..4000, 1)), one(members(0..4000, 2))),
        (one(members(0..4000, 1)), one(half(2))),
        (one(items(1)), one(items(3))),
    ];
    let made = pairs.into_iter().map(|(before, after)| {
        let collection = |written| Collection::new(key(), Kind::Document, written).unwrap();
        let (before, after) = (collection(before), collection(after));
        (write::write(&before), before, after)
    });
    made.collect()
}

#[test]
fn the_largest_file_with_everything_changed_costs_a_few_readings_of_it() {
    for (text, before, after) in largest() {
        assert!(text.len() > 30_000 && text.len() <= crate::format::FILE_BYTES_MAX, "{} bytes", text.len());
        let edited = edit(text.as_bytes(), &before, &after);
        assert_eq!(read::read_text(&key(), std::str::from_utf8(&edited.bytes).unwrap()), Ok(after.clone()));
        assert_eq!(edited.fallback, None);
        let reading = quickest(|| drop(read::read_text(&key(), &text)));
        let editing = quickest(|| drop(edit(text.as_bytes(), &before, &after)));
        assert!(editing < reading * 20, "read in {reading:?}, edited in {editing:?}");
        assert!(editing < Duration::from_secs(2), "edited in {editing:?}");
    }
}
