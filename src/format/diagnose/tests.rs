//! Mistakes that editors make, and the faults that they get: the position, and what to type instead.

use crate::format::tests::key;
use crate::format::{Fault, read};

const MIXED: &str =
    "attributes and the items of a list can't begin in the same column; indent what belongs below the other";

fn faults(text: &str) -> Vec<Fault> {
    read(&key(), text.as_bytes()).map_or_else(|faults| faults, |_| Vec::new())
}

/// Checks all faults of a text, as `line:column: message`.
#[track_caller]
fn assert_diagnosed(text: &str, expected: &[&str]) {
    let found: Vec<String> =
        faults(text).into_iter().map(|it| format!("{}:{}: {}", it.line, it.column, it.message)).collect();
    assert_eq!(found, expected, "{text}");
}

/// Checks the fault of a line below `type: document`: with another line below, with CR LF, and without a line end.
#[track_caller]
fn line(line: &str, expected: &str) {
    assert_diagnosed(&format!("type: document\n{line}\nrecursive: true\n"), &[expected]);
    assert_diagnosed(&format!("type: document\r\n{line}\r\n"), &[expected]);
    assert_diagnosed(&format!("type: document\n{line}"), &[expected]);
}

#[test]
fn a_colon_is_told_where_it_stands_or_should() {
    line("name:Posts", "2:5: write a blank after the colon: `name: Posts`");
    line("name:Posts # what people see", "2:5: write a blank after the colon: `name: Posts`");
    line("name Posts # what people see", "2:5: no colon after `name`; write `name: Posts`");
    line("name = Posts # what people see", "2:6: write a colon and a blank in place of `=`: `name: Posts`");
    line("name:\"a # b\"", "2:5: write a blank after the colon: `name: \"a # b\"`");
    line("name Posts", "2:5: no colon after `name`; write `name: Posts`");
    line("name", "2:5: no colon after `name`; write `name: …`");
    line("name:\u{a0}Posts", "2:6: a no-break space stands here; type a blank");
    line("name：Posts", "2:5: a full-width colon stands here; type `:` and a blank: `name: Posts`");
    line("name = Posts", "2:6: write a colon and a blank in place of `=`: `name: Posts`");
    line("name=Posts", "2:5: write a colon and a blank in place of `=`: `name: Posts`");
    line("name => Posts", "2:6: write a colon and a blank in place of `=>`: `name: Posts`");
    line("name; Posts", "2:5: write a colon and a blank in place of `;`: `name: Posts`");
    assert_diagnosed(
        "type:document\nname: Posts\n",
        &["1:5: write a blank after the colon: `type: document`"],
    );
    assert_diagnosed(
        "type： document\nname: Posts\n",
        &["1:5: a full-width colon stands here; type `:` and a blank: `type: document`"],
    );
}

#[test]
fn a_colon_is_told_in_a_file_of_one_line_too() {
    let blank = "write a blank after the colon: `type: document`";
    assert_diagnosed("type:document\n", &[&format!("1:5: {blank}")]);
    assert_diagnosed("type:document", &[&format!("1:5: {blank}")]);
    assert_diagnosed(
        "type：document\n",
        &["1:5: a full-width colon stands here; type `:` and a blank: `type: document`"],
    );
    assert_diagnosed("type:\u{a0}document\n", &["1:6: a no-break space stands here; type a blank"]);
    assert_diagnosed(
        "type:document\nname:Posts\n",
        &[&format!("1:5: {blank}"), "2:5: write a blank after the colon: `name: Posts`"],
    );
}

#[test]
fn a_colon_is_told_where_the_line_reads_as_a_text() {
    let statuses = |rest: &str, expected: &str| {
        assert_diagnosed(&format!("type: document\nunpublishedStatuses:{rest}\n"), &[expected]);
    };
    let directory = "write a blank after the colon: `directory: x`";
    statuses(" {draft: {directory:x, name: z}}", &format!("2:40: {directory}"));
    statuses(
        " {draft: {directory：x, name: z}}",
        "2:40: a full-width colon stands here; type `:` and a blank: `directory: x`",
    );
    statuses(
        " {draft:{directory: x, name: z}}",
        "2:28: write a blank after the colon: `draft: {directory: x, name: z}}`",
    );
    let map = "{directory: x, name: z}";
    statuses(&format!("\n  draft:{map}"), &format!("3:8: write a blank after the colon: `draft: {map}`"));
    statuses(
        &format!("\n  draft：{map}"),
        &format!("3:8: a full-width colon stands here; type `:` and a blank: `draft: {map}`"),
    );
    statuses(&format!("\n  draft:\u{a0}{map}"), "3:9: a no-break space stands here; type a blank");
    let draft = |rest: &str, expected: &str| statuses(&format!("\n  draft:{rest}"), expected);
    draft("\n    directory:x", &format!("4:14: unpublishedStatuses.draft: {directory}"));
    draft("\n    directory:x\n    name:z", &format!("4:14: unpublishedStatuses.draft: {directory}"));
    draft("x", "3:8: unpublishedStatuses: write a blank after the colon: `draft: x`");
}

#[test]
fn a_text_that_needs_quotes_is_told_so() {
    line("name: Posts: the best", "2:12: a text with `: ` needs quotes: \"Posts: the best\"");
    line("name: *bold*", "2:7: a text that begins with `*` needs quotes: \"*bold*\"");
    line("name: @x", "2:7: a text that begins with `@` needs quotes: \"@x\"");
    line("name: %x", "2:7: a text that begins with `%` needs quotes: \"%x\"");
    line("name: `x`", "2:7: a text that begins with ``` needs quotes: \"`x`\"");
    line("name: - x", "2:7: a text that begins with `- ` needs quotes: \"- x\"");
    line("name: | x", "2:7: a text that begins with `|` needs quotes: \"| x\"");
    line("name: [draft] Posts", "2:7: a text that begins with `[` needs quotes: \"[draft] Posts\"");
    line(
        "name: !wow",
        "2:7: a text that begins with `!` needs quotes; it would be a tag, and those are not allowed",
    );
    line(
        "name: &amp x",
        "2:7: a text that begins with `&` needs quotes; it would be an anchor, and those are not allowed",
    );
}

#[test]
fn a_text_that_is_a_comment_without_quotes_is_told_so() {
    let comment_fault = |text: &str| {
        format!("a text that begins with `#` needs quotes: \"{text}\"; without them it is a comment")
    };
    line("name: #channel", &format!("2:7: name: {}", comment_fault("#channel")));
    line("directory:   #a/b # c", &format!("2:14: directory: {}", comment_fault("#a/b # c")));
    line("draftDirectory: #x", &format!("2:17: draftDirectory: {}", comment_fault("#x")));
    assert_diagnosed("type: #document\n", &[&format!("1:7: type: {}", comment_fault("#document"))]);
    assert_diagnosed(
        "type: document\nunpublishedStatuses:\n  draft:\n    directory: d\n    name: #new\n",
        &[&format!("5:11: unpublishedStatuses.draft.name: {}", comment_fault("#new"))],
    );
    assert_diagnosed(
        "type: media\naccept:\n  # all of them\n  - #pdf\n",
        &[&format!("4:5: accept[0]: {}", comment_fault("#pdf"))],
    );
    let empty = |place: &str| format!("{place}: this item is empty; write a media type, or remove it");
    for (list, places) in [
        ("  - .pdf\n  - # none\n  - .png\n", &["4:3: accept[1]"][..]),
        ("  -\n  - .pdf\n", &["3:3: accept[0]"]),
        ("  - .pdf # - a\n\n  # - b\n  -\n  -\n", &["6:3: accept[1]", "7:3: accept[2]"]),
        ("- .pdf\n-\n", &["4:1: accept[1]"]),
    ] {
        let faults: Vec<String> = places.iter().map(|place| empty(place)).collect();
        let faults: Vec<&str> = faults.iter().map(String::as_str).collect();
        assert_diagnosed(&format!("type: media\naccept:\n{list}"), &faults);
    }
    let null = "2:1: name: expected a string, found null; leave the attribute out to have none";
    for comment in ["name: # what people call it", "name: #", "name: ##", "name:\n  #channel", "name:"] {
        assert_diagnosed(&format!("type: document\n{comment}\n"), &[null]);
    }
}

#[test]
fn a_merge_key_is_told_as_such_whether_there_is_its_anchor_or_not() {
    let merge =
        "`<<` would be a merge key, and those are not allowed; write in this place what it stands for";
    line("<<: *a", &format!("2:1: {merge}"));
    line("<<: [*a, *b]", &format!("2:1: {merge}"));
    line("x-a: {<<: *a, b: c}", &format!("2:7: {merge}"));
    line("x-a: {b: c, <<: *a}", &format!("2:13: {merge}"));
    line("x-a:\n  - <<: *nope\n    b: c", &format!("3:5: {merge}"));
    line("x-a:\n  <<: *nope\n  b: c", &format!("3:3: {merge}"));
    let anchor =
        "2:6: a text that begins with `&` needs quotes; it would be an anchor, and those are not allowed";
    for (map, place) in [("\n  <<: *a", "4:3"), (" {<<: *a, d: e}", "3:7"), ("\n  <<: [*a]", "4:3")] {
        assert_diagnosed(
            &format!("type: document\nx-a: &a {{b: c}}\nx-b:{map}\n"),
            &[anchor, &format!("{place}: {merge}")],
        );
    }
    assert_diagnosed(
        "type: document\nx-a: {<<: b}\n",
        &["2:7: x-a.<<: `<<` is a merge key to some YAML readers; write \"<<\" in quotes"],
    );
}

#[test]
fn a_text_in_brackets_that_needs_quotes_is_told_so() {
    let item = |list: &str, expected: &str| {
        assert_diagnosed(&format!("type: media\naccept: {list}\nrecursive: true\n"), &[expected]);
    };
    item("[*]", "2:10: a text that begins with `*` needs quotes: \"*\"");
    item("[*/*]", "2:10: a text that begins with `*` needs quotes: \"*/*\"");
    item("[.pdf, */*, .gif]", "2:16: a text that begins with `*` needs quotes: \"*/*\"");
    item("[@x]", "2:10: a text that begins with `@` needs quotes: \"@x\"");
    item("[a: b: c]", "2:14: a text with `: ` needs quotes: \"b: c\"");
}

#[test]
fn a_list_of_texts_with_commas_is_told_with_all_of_its_items() {
    assert_diagnosed(
        "type: media\naccept: .pdf, .doc\n",
        &[
            "2:9: accept: expected a list of media types, found the string \".pdf, .doc\"; write [\".pdf\", \".doc\"]",
        ],
    );
}

#[test]
fn braces_of_a_template_are_told_to_need_quotes() {
    line("name: {{ title }}", "2:7: a text that begins with `{{` needs quotes; write \"{{ title }}\"");
}

#[test]
fn an_escape_in_two_parts_is_told_where_it_stands() {
    let message = "YAML has no escapes in two parts as `\\ud83d`; type the character itself: 😀";
    line("name: \"a \\ud83d\\ude00\"", &format!("2:10: {message}"));
    assert_diagnosed(
        "{\"type\": \"document\", \"name\": \"\\ud83d\\ude00\"}\n",
        &[&format!("1:31: {message}")],
    );
    line("name: \"\\ud83d\"", "2:8: `\\ud83d` is half of a character; type the character itself");
}

#[test]
fn what_ends_a_line_and_belongs_to_nothing_is_told_where_it_stands() {
    line("name: \"Posts\",", "2:14: this `,` belongs to nothing; remove it");
    line("x-a: {b: c},", "2:12: this `,` belongs to nothing; remove it");
    line("}", "2:1: nothing is open that `}` could close; remove it");
    line("]", "2:1: nothing is open that `]` could close; remove it");
}

#[test]
fn a_colon_without_a_name_is_told_where_it_stands() {
    line(": Posts", "2:1: there is no name before this colon; write `name: value`");
}

#[test]
fn what_is_left_of_a_conflict_is_told_as_such() {
    let message = "git could not merge this: keep what is right, and remove the lines with `<<<<<<<`, `=======` and `>>>>>>>`";
    line("=======", &format!("2:1: {message}"));
    line(">>>>>>> other", &format!("2:1: {message}"));
}

#[test]
fn quotes_are_told_where_they_stand() {
    line(
        "name: 'It's ok'",
        "2:10: this quote ends the text, and more follows; write `''` for an apostrophe inside single quotes",
    );
    line(
        "name: \"a \"b\" c\"",
        "2:10: this quote ends the text, and more follows; write `\\\"` for a quote inside double quotes",
    );
    line("name: \"Posts", "2:7: this quote is never closed; write `\"` at the end of the text");
    line("name: 'Posts", "2:7: this quote is never closed; write `'` at the end of the text");
    line(
        "directory: \"C:\\posts\"",
        "2:15: a backslash in double quotes begins an escape; write `\\\\`, or use single quotes",
    );
    line(
        "name: “Posts: more”",
        "2:7: typographic quotes stand here; type `\"` in their place: \"Posts: more\"",
    );
    line("\"name: Posts", "2:1: this quote is never closed; write `\"` at the end of the text");
    line("'name: Posts", "2:1: this quote is never closed; write `'` at the end of the text");
    line("“name”: Posts", "2:1: typographic quotes stand here; type `\"` in their place: \"name\"");
}

#[test]
fn the_wrong_quote_is_told_where_it_stands() {
    let wrong = "a typographic quote stands here; type `\"` in its place";
    line("name: \"Posts”", &format!("2:13: {wrong}"));
    for list in ["[\"image/png“]", "[\"image/png“, \"image/gif\"]", "[\"image/png“, .gif]"] {
        let text = format!("type: media\naccept: {list}\nrecursive: true\n");
        assert_diagnosed(&text, &[&format!("2:20: {wrong}")]);
    }
    assert_diagnosed("type: media\naccept:\n- \"image/png“\n", &[&format!("3:13: {wrong}")]);
    assert_diagnosed(
        "type: media\naccept: [“image/png\"]\n",
        &["2:10: accept[0]: typographic quotes stand here; type `\"` in their place: \"image/png\""],
    );
    assert_diagnosed(
        "“type”: document\n",
        &["1:1: typographic quotes stand here; type `\"` in their place: \"type\""],
    );
}

#[test]
fn what_an_editor_may_have_meant_is_served_as_it_is() {
    for text in ["name: “Posts”", "name: Posts\u{a0}", "format: «md»", "x-a: ‘b’", "x-“a”: b"] {
        assert_diagnosed(&format!("type: document\n{text}\n"), &[]);
    }
    assert_diagnosed(
        "type: “document”\n",
        &["1:7: type: typographic quotes stand here; type `\"` in their place: \"document\""],
    );
}

#[test]
fn brackets_are_told_where_they_open() {
    let open = "2:7: this `[` is never closed; write `]` behind its end, or put the text in quotes";
    line("name: [a", open);
    assert_diagnosed("type: document\nname: {a: b\n", &[&open.replace('[', "{").replace(']', "}")]);
    assert_diagnosed("type: media\naccept: [.pdf}\n", &["2:14: `}` closes what `[` has opened; write `]`"]);
    assert_diagnosed(
        "{\"type\": \"document\" \"name\": \"Posts\"}\n",
        &["1:21: a comma is missing before this, or `{` is not closed with `}`"],
    );
    assert_eq!(faults("{\"type\": \"document\", \"name\": \"Posts\",}\n"), [], "a comma too many is no harm");
}

#[test]
fn what_is_nested_too_deep_is_told_so() {
    for depth in [40, 2000] {
        let deep = format!("x-a: {}1{}", "[".repeat(depth), "]".repeat(depth));
        let found = faults(&format!("type: document\n{deep}\n"));
        let messages: Vec<&str> = found.iter().map(|fault| fault.message.as_str()).collect();
        assert_eq!(messages, ["lists and maps may be nested 32 deep"], "{depth}");
        assert_eq!((found[0].line, found[0].column), (2, 38), "{depth}");
    }
}

#[test]
fn blanks_and_indentation_are_told() {
    line("name:\tPosts", "2:6: a tab stands here; type a blank");
    assert_diagnosed("type:\tdocument\n", &["1:6: a tab stands here; type a blank"]);
    line("\tname: Posts", "2:1: a tab indents this line; YAML is indented with blanks");
    line(
        " name: Posts",
        "2:2: this line is indented further than the one above, which has its value already; begin it in column 1",
    );
    assert_diagnosed(
        "type: document\nunpublishedStatuses:\n    draft:\n      directory: d\n      name: D\n   gone:\n",
        &[
            "6:4: no line above begins in this column; indent this one like those that it belongs to, for example to column 5",
        ],
    );
    assert_diagnosed(
        "type: media\naccept:\n  -image/png\n",
        &["3:3: accept: write a blank after the dash: `- image/png`"],
    );
    assert_diagnosed(
        "type: media\naccept:\n  -image/png\n  -image/gif\n",
        &["3:3: accept: write a blank after the dash: `- image/png`"],
    );
    assert_diagnosed(
        "type: media\naccept:\n- image/png\n-image/gif\n",
        &["4:1: write a blank after the dash: `- image/gif`"],
    );
    assert_diagnosed(
        "type: document\nrecursive: true\u{a0}\n",
        &["2:16: recursive: a no-break space stands here; type a blank"],
    );
}

#[test]
fn several_attributes_on_a_line_are_told_at_the_comma() {
    assert_diagnosed(
        "type: document, name: Posts\n",
        &["1:15: each attribute stands on a line of its own, without a comma; begin a new line with `name`"],
    );
}

#[test]
fn a_line_that_belongs_to_nothing_is_told_where_it_stands_and_no_other_is() {
    for line in ["// my note", "• item", "/* x */", "<!-- x -->", "**bold**", "* item", "- item"] {
        let stray = match line {
            _ if line.starts_with(['/', '<']) => "this can't be understood here; a comment begins with `#`",
            "- item" => MIXED,
            _ => "this can't be understood here; write `name: value`, and a text with signs in quotes",
        };
        let many: String = (0..20).map(|n| format!("x-{n}: {n}\n")).collect();
        let attribute = "23:1: nmae: there is no such attribute; did you mean `name`?";
        assert_diagnosed(
            &format!("type: document\n{line}\n{many}nmae: Posts\n"),
            &[&format!("2:1: {stray}"), attribute],
        );
        assert_diagnosed(&format!("type: document\nname: Posts\n{line}\n"), &[&format!("3:1: {stray}")]);
        let above_items = format!("type: media\naccept:\n{line}\n  - .pdf\n  - .png\nrecursive: true\n");
        if line != "- item" {
            assert_diagnosed(&above_items, &[&format!("3:1: {stray}")]);
        }
    }
    let stray = "this can't be understood here; a comment begins with `#`";
    assert_diagnosed("// a\ntype: document\nname: Posts\n", &[&format!("1:1: {stray}")]);
    assert_diagnosed(
        "type: document\n// a\n// b\nname: Posts\n",
        &[&format!("2:1: {stray}"), &format!("3:1: {stray}")],
    );
}

#[test]
fn a_line_of_nothing_but_a_no_break_space_is_told_where_it_stands() {
    let blank = "a no-break space stands here; type a blank";
    assert_diagnosed("type: document\nname: Posts\n\u{a0}\ndirectory: p\n", &[&format!("3:1: {blank}")]);
    assert_diagnosed("type: document\nname: Posts\n\u{a0}\n", &[&format!("3:1: {blank}")]);
    assert_diagnosed(
        "type: document\nunpublishedStatuses:\n  draft:\n    directory: d\n    name: D\n  \u{a0}\nformat: x\n",
        &[&format!("6:3: {blank}")],
    );
}

#[test]
fn an_indented_line_is_told_where_it_stands_behind_a_comment_too() {
    assert_diagnosed(
        "type: document # a\n  name: Posts\ndirectory: p\nformat: m\n",
        &[
            "2:3: this line is indented further than the one above, which has its value already; begin it in column 1",
        ],
    );
}

#[test]
fn a_conflict_is_told_with_the_lines_to_remove() {
    let text = "type: document\n<<<<<<< HEAD\nname: A\n||||||| base\nname: B\n=======\nname: C\n>>>>>>> theirs\nnmae: x\n";
    let found = faults(text);
    assert_eq!((found[0].line, found[0].column), (2, 1));
    assert!(
        found[0].message.ends_with("remove the lines with `<<<<<<<`, `|||||||`, `=======` and `>>>>>>>`"),
        "{found:?}"
    );
    assert_eq!((found[1].line, found[1].column), (9, 1), "what is wrong elsewhere is told too");
    let two_way = text.replace("||||||| base\nname: B\n", "");
    assert!(
        faults(&two_way)[0].message.ends_with("remove the lines with `<<<<<<<`, `=======` and `>>>>>>>`")
    );
}

#[test]
fn every_fault_of_a_file_is_told_whatever_its_kind() {
    assert_diagnosed(
        "type: documnt\nname:Posts\nnmae: x\nformat: @md\nrecursive: \"no\"\ndirectory = a\n",
        &[
            "1:7: type: expected `document` or `media`, found \"documnt\"",
            "2:5: write a blank after the colon: `name: Posts`",
            "3:1: nmae: there is no such attribute; did you mean `name`?",
            "4:9: a text that begins with `@` needs quotes: \"@md\"",
            "5:12: recursive: expected `true` or `false`, found the string \"no\"; write false without quotes",
            "6:11: write a colon and a blank in place of `=`: `directory: a`",
        ],
    );
    let many: String = (0..30).map(|n| format!("a{n}: 1\n")).collect();
    assert_eq!(faults(&many).len(), 20);
}

#[test]
fn a_missing_type_hides_nothing_that_stands_in_the_first_line() {
    let missing = "1:1: `type` is missing; write `type: document` or `type: media`";
    assert_diagnosed(
        "nmae: Posts\nrecursive: true\n",
        &[missing, "1:1: nmae: there is no such attribute; did you mean `name`?"],
    );
    for name in ["Type", "typ"] {
        let meant = format!("1:1: {name}: there is no such attribute; did you mean `type`?");
        assert_diagnosed(&format!("{name}: document\n"), &[missing, &meant]);
    }
}

#[test]
fn a_line_that_can_not_be_read_in_its_place_either_hides_no_other() {
    let attribute = |line: usize| format!("{line}:1: nmae: there is no such attribute; did you mean `name`?");
    assert_diagnosed(
        "type: document\nformat: md\n\tdirectory: d\nnmae: 5\n",
        &["3:1: a tab indents this line; YAML is indented with blanks", &attribute(4)],
    );
    assert_diagnosed(
        "type: document\n\u{feff}name: Posts\nnmae: 5\n",
        &[
            "2:1: the character U+FEFF is not allowed as it is; write \"\\ufeff\" in double quotes",
            &attribute(3),
        ],
    );
    assert_diagnosed(
        "type: document\nnmae: 5\nx-tags:\n  - one\n x-limit: 5\n",
        &[
            &attribute(2),
            "5:2: no line above begins in this column; indent this one like those that it belongs to, for example to column 3",
        ],
    );
}

#[test]
fn long_values_are_cut() {
    let long = "9".repeat(60_000);
    for text in [
        format!("x-a: {long}"),
        format!("x-a: 1:1:{}", ":1".repeat(20_000)),
        format!("{long}: x"),
        format!("x{long}: x"),
        format!("name:{long}"),
        format!("name: @{long}"),
        format!("directory: ../{long}"),
        format!("a{long}: 1\na{long}: 2"),
        format!("unpublishedStatuses: {{a{long}: 1}}"),
    ] {
        let found = faults(&format!("type: document\n{text}\n"));
        assert!(!found.is_empty());
        assert!(found.iter().all(|fault| fault.message.len() < 500), "{:.80}", found[0].message);
    }
}

#[test]
fn many_lines_that_are_indented_too_far_are_told_one_by_one() {
    let why =
        "this line is indented further than the one above, which has its value already; begin it in column 1";
    let told = [format!("2:3: {why}"), format!("3:3: {why}")];
    for first in ["type: document", "type: document # of the blog"] {
        assert_diagnosed(&format!("{first}\n  name: A\n  directory: b\n"), &[&told[0], &told[1]]);
    }
}

#[test]
fn a_line_of_a_text_that_is_indented_too_little_is_told_and_not_those_above_it() {
    let less = "this line is indented less than the text in which it stands; begin it in column";
    assert_diagnosed("type: document\nname: |\n  first line\n second line\n", &[&format!("4:2: {less} 3")]);
    assert_diagnosed(
        "type: document\nx-note: | # why\n   one\n   two: 2\n  three\nname: Posts\n",
        &[&format!("5:3: {less} 4")],
    );
    let below = "a text below `|` or `>` is indented; begin this line in column";
    assert_diagnosed("type: document\nname: >\nfolded text\n", &[&format!("3:1: {below} 3")]);
    assert_diagnosed("type: document\nx-a:\n  - |-\n  a text\n", &[&format!("4:3: {below} 5")]);
}

#[test]
fn an_escape_that_is_none_is_told_where_it_stands() {
    let escape = "a backslash in double quotes begins an escape; write `\\\\`, or use single quotes";
    for (value, column) in
        [(r#""C:\Users\x""#, 10), (r#""50\x""#, 10), (r#""\u12""#, 8), (r#""a\qb""#, 9), (r#""\U0001""#, 8)]
    {
        line(&format!("name: {value}"), &format!("2:{column}: {escape}"));
    }
}

#[test]
fn a_list_and_attributes_in_one_column_are_told_as_such() {
    assert_diagnosed("type: document\nx-a:\n  - b\n  c: d\n", &[&format!("4:3: {MIXED}")]);
    assert_diagnosed("type: document\n- name: x\n", &[&format!("2:1: {MIXED}")]);
}

#[test]
fn what_follows_a_quote_behind_a_comma_is_told_at_the_quote() {
    line(
        r#"name: "x", "y""#,
        r#"2:9: this quote ends the text, and more follows; write `\"` for a quote inside double quotes"#,
    );
    line("name: {% if x %}", r#"2:7: a text that begins with `{` needs quotes: "{% if x %}""#);
}
