//! A fast reader for the form of most files: lines that can be read one by one.
//!
//! The strict reader ([`read`](fn@crate::format::read)) parses any YAML and records all positions. That
//! costs ten times as much as needed for a file with nothing but
//!
//! ```yaml
//! # a comment
//! name: Posts            # another one
//! directory: "content/posts"
//! unpublishedStatuses:
//!   draft:
//!     directory: drafts
//! accept:
//!   - image/png
//! ```
//!
//! [`attributes`] reads such lines and gives up at anything else: a fault, a text over several lines,
//! brackets, escapes, tabs, another indentation. The caller then falls back to the strict reader, so
//! this reader never rejects a file. The strict reader reads the same from every text that this one
//! accepts (`tests` check that on random files).

use crate::domain::Value;
use crate::format::scalar;

/// The indentation of each level, as [`write`](fn@crate::format::write) has it.
const STEP: usize = 2;

/// Maximum nesting depth of maps; statuses need two levels.
const DEPTH_MAX: usize = 4;

/// Maximum length of a name, in bytes; far below the limit of YAML's simple keys.
const NAME_BYTES_MAX: usize = 128;

/// Returns names and values as they are written, in their order; `None` if the text is not plain.
pub(crate) fn attributes(text: &str) -> Option<Vec<(String, Value)>> {
    // A last line without a line end is a special case in places, which is not worth the code.
    let mut lines = Lines { rest: text.strip_suffix('\n')?, next: None };
    lines.advance()?;
    let attributes = map(&mut lines, 0, 0)?;
    lines.next.is_none().then_some(attributes)
}

/// A line with content: its indentation and the rest.
#[derive(Clone, Copy)]
struct Line<'t> {
    indent: usize,
    text: &'t str,
}

/// The lines of a text with one line of lookahead, without empty lines and comments.
struct Lines<'t> {
    rest: &'t str,
    next: Option<Line<'t>>,
}

impl<'t> Lines<'t> {
    /// Advances to the next line; `None` if it is not plain.
    fn advance(&mut self) -> Option<()> {
        self.next = None;
        while !self.rest.is_empty() {
            let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
            self.rest = rest;
            if !line.bytes().all(|b| matches!(b, b' '..=b'~')) && !line.chars().all(is_plain) {
                return None;
            }
            let text = line.trim_start_matches(' ');
            if !text.is_empty() && !text.starts_with('#') {
                self.next = Some(Line { indent: line.len() - text.len(), text });
                break;
            }
        }
        Some(())
    }

    /// The text of the next line, if it has this indentation.
    fn at(&self, indent: usize) -> Option<&'t str> {
        self.next.filter(|line| line.indent == indent).map(|line| line.text)
    }
}

/// Whether a plain line may contain a character: no blank but the space, no tab, no control character.
fn is_plain(c: char) -> bool {
    matches!(c, ' '..='~') || (!c.is_ascii() && !c.is_whitespace() && !scalar::is_forbidden(c))
}

/// Reads the entries at this indentation; there must be at least one.
fn map(lines: &mut Lines<'_>, indent: usize, depth: usize) -> Option<Vec<(String, Value)>> {
    let mut members: Vec<(String, Value)> = Vec::new();
    while let Some(line) = lines.at(indent) {
        let (name, behind) = line.split_once(':')?;
        if !is_name(name) {
            return None;
        }
        let value = value(behind)?;
        lines.advance()?;
        let value = match value {
            Some(value) => value,
            None if depth == DEPTH_MAX => return None,
            None if lines.at(indent + STEP)?.starts_with("- ") => list(lines, indent + STEP)?,
            None => Value::Map(map(lines, indent + STEP, depth + 1)?.into()),
        };
        members.push((name.to_owned(), value));
    }
    // A line that is indented further belongs to the last value in a way that is not plain.
    let ends = lines.next.is_none_or(|line| line.indent < indent);
    (ends && !members.is_empty() && are_distinct(&members)).then_some(members)
}

fn are_distinct(members: &[(String, Value)]) -> bool {
    let mut names: Vec<_> = members.iter().map(|(name, _)| name).collect();
    names.sort_unstable();
    names.windows(2).all(|pair| pair[0] != pair[1])
}

/// Reads the items at this indentation.
fn list(lines: &mut Lines<'_>, indent: usize) -> Option<Value> {
    let mut items = Vec::new();
    while let Some(line) = lines.at(indent) {
        items.push(value(line.strip_prefix('-')?)??);
        lines.advance()?;
    }
    lines.next.is_none_or(|line| line.indent < indent).then(|| Value::List(items.into()))
}

/// Whether a name needs no quotes and is a string to every reader.
fn is_name(name: &str) -> bool {
    name.len() <= NAME_BYTES_MAX
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
        && matches!(scalar::resolve(name), Ok(Value::Text(_)))
}

/// Reads what follows a `:` or `-` on its line; the inner `None` means that nothing does.
#[expect(clippy::option_option, reason = "the outer one is for what is not plain")]
fn value(behind: &str) -> Option<Option<Value>> {
    if behind.is_empty() {
        return Some(None);
    }
    let text = behind.strip_prefix(' ')?.trim_start_matches(' ');
    match text.as_bytes().first()? {
        b'#' => None,
        b'"' => quoted(&text[1..], '"').map(Some),
        b'\'' => quoted(&text[1..], '\'').map(Some),
        _ => unquoted(text).map(Some),
    }
}

/// Reads a text that ends at the next quote; escapes, and doubled quotes, are not plain.
fn quoted(text: &str, quote: char) -> Option<Value> {
    let (content, behind) = text.split_once(quote)?;
    let comment = behind.trim_start_matches(' ');
    let ends = comment.is_empty() || (behind.starts_with(' ') && comment.starts_with('#'));
    (ends && !(quote == '"' && content.contains('\\'))).then(|| Value::from(content))
}

/// Reads a plain scalar and drops the comment after it.
fn unquoted(text: &str) -> Option<Value> {
    let text = text.split_once(" #").map_or(text, |(text, _)| text).trim_end_matches(' ');
    let indicates = text.starts_with(scalar::INDICATORS) || text.ends_with(':') || text.contains(": ");
    if indicates { None } else { scalar::resolve(text).ok() }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;
    use crate::format::read::strictly_written;
    use crate::random::cases;

    /// Checks that the strict reader reads the same, in the same order, if the fast one reads anything.
    fn agrees(text: &str) -> Result<(), TestCaseError> {
        if let Some(quick) = attributes(text) {
            let strict = strictly_written(text).map(|strict| format!("{strict:?}"));
            prop_assert_eq!(Some(format!("{quick:?}")), strict, "{:?}", text);
        }
        Ok(())
    }

    const USUAL: &str = "# Shown first.\ntype: document\nname: All posts: Part 1 \ndirectory:   content/posts # since March\n\
        recursive: true\n\nunpublishedStatuses:\n  draft:\n    directory: \"drafts # new\"\n    name: 'Entwürfe'  # so\n\
        x-list:\n  - image/png\n  - -\n  - 12\nx-last: it's [1]\n";

    #[test]
    fn files_of_the_usual_kind_are_read_quickly() {
        let text = USUAL.replace(": Part 1 ", "").replace("  - -\n", "");
        let read = attributes(&text).expect("it is plain");
        assert_eq!(
            format!("{:?}", strictly_written(&text).expect("it is right")),
            format!("{read:?}"),
            "and the same is read"
        );
        assert_eq!(read.len(), 7);
    }

    #[test]
    fn what_is_not_plain_is_left_to_the_strict_reader() {
        for text in [
            "",
            "\n",
            "a: b",
            "a: b\n  c\n",
            "a: b\na: c\n",
            "a: b: c\n",
            "a: b:\n",
            "a:\n- b\n",
            "a:\n    b: c\n",
            "a:\n  b: c\n d: e\n",
            "a:\n  - b\n    c\n",
            "a:\n  - b: c\n",
            "a:\n  -\n",
            "a:\n",
            "a: \n",
            "a:b\n",
            "a : b\n",
            "a:\tb\n",
            "a: b\r\n",
            "a: \"b\\n\"\n",
            "a: 'it''s'\n",
            "a: \"b\" c\n",
            "a: \"b\"#c\n",
            "a: |\n  b\n",
            "a: [b]\n",
            "a: &b c\n",
            "a: !b c\n",
            "a: yes\n",
            "no: b\n",
            "1: b\n",
            "\"a\": b\n",
            "? a\n: b\n",
            "---\na: b\n",
            "a: b\n...\n",
            "%YAML 1.2\n",
            " a: b\n",
            "a: \u{85}\n",
            "a: b\u{a0}\n",
            "- a\n",
            "just text\n",
        ] {
            assert_eq!(attributes(text), None, "{text:?}");
        }
    }

    #[test]
    fn the_fixtures_are_read_the_same_by_both() {
        let mut open = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/repos")];
        let mut quick = 0;
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
                let path = entry.path();
                if path.is_dir() {
                    open.push(path);
                } else if let Ok(text) = fs::read_to_string(path) {
                    agrees(&text).unwrap();
                    quick += usize::from(attributes(&text).is_some());
                }
            }
        }
        assert!(quick > 0, "some fixtures are plain");
    }

    /// Pieces of lines, as people and attackers write them.
    fn piece() -> impl Strategy<Value = String> {
        let fixed = prop::sample::select(vec![
            "a",
            "b-c",
            "type",
            "x-y",
            "no",
            "12",
            "1.5",
            "~",
            "null",
            "true",
            ":",
            ": ",
            ":  ",
            " ",
            "  ",
            "    ",
            "#",
            " #",
            " # c",
            "- ",
            "-",
            "\"",
            "'",
            "\"b\"",
            "'c'",
            "\\",
            "[",
            "]",
            "{}",
            "[]",
            ",",
            "&a",
            "*a",
            "!t",
            "|",
            ">",
            "?",
            "? ",
            "%",
            "@",
            "---",
            "...",
            "<<",
            "=",
            "é",
            "\u{85}",
            "\u{a0}",
            "\u{2028}",
            "\u{1f600}",
            "\t",
            "\r",
            "2024-01-01",
            "0x1f",
            "a: b",
            "document",
        ]);
        fixed.prop_map(str::to_owned)
    }

    fn line() -> impl Strategy<Value = String> {
        let plain = (0_usize..3, "[a-e]{1,2}", prop::option::of(piece()), prop::option::of(piece()))
            .prop_map(|(depth, name, first, second)| {
                let indent = "  ".repeat(depth);
                let behind =
                    first.map_or(String::new(), |first| format!(" {first}{}", second.unwrap_or_default()));
                format!("{indent}{name}:{behind}")
            });
        let item =
            (0_usize..3, piece()).prop_map(|(depth, piece)| format!("{}- {piece}", "  ".repeat(depth)));
        let anything = prop::collection::vec(piece(), 0..5).prop_map(|pieces| pieces.concat());
        prop_oneof![6 => plain, 2 => item, 1 => anything]
    }

    proptest! {
        #![proptest_config(cases(4096))]

        #[test]
        fn random_files_are_read_the_same_by_both(lines in prop::collection::vec(line(), 0..8), end in "\n?") {
            agrees(&format!("{}{end}", lines.join("\n")))?;
        }

        #[test]
        fn a_usual_file_with_something_slipped_in_is_read_the_same_by_both(
            at in 0..USUAL.len(), len in 0_usize..6, piece in piece(),
        ) {
            let mut text = USUAL.to_owned();
            let floor = |at: usize| (0..=at.min(USUAL.len())).rev().find(|at| USUAL.is_char_boundary(*at)).unwrap();
            text.replace_range(floor(at)..floor(at + len).max(floor(at)), &piece);
            agrees(&text)?;
        }
    }
}
