//! Hints for files that can't be read: what they look like, and what to do.

use saphyr_parser::Marker;

use crate::domain::{Value, excerpt};
use crate::format::foreign::{ForeignContent, ForeignNode};
use crate::format::lookalike::{self, first_line};
use crate::format::{Fault, diagnose};

/// The fault of a text that is not YAML; `at` is where the parser gave up.
pub(super) fn unreadable(text: &str, at: Marker) -> Fault {
    let line = at.line();
    template(text, line)
        .or_else(|| unquoted(text, line))
        .or_else(|| stray_alias(text, at))
        .or_else(|| diagnose::first(text))
        .unwrap_or_else(|| Fault { line, column: 1, message: "this can't be understood here".to_owned() })
}

/// Replaces a fault if the text is a template, or if a text with `{{` has no quotes.
pub(super) fn closer(text: &str, fault: Fault) -> Fault {
    template(text, fault.line).or_else(|| unquoted(text, fault.line)).unwrap_or(fault)
}

/// The fault of a missing blank after a colon, in a text that was meant as a map, or in a name without a value in
/// a map in brackets.
pub(crate) fn missing_colon(node: &ForeignNode) -> Option<Fault> {
    let bare = node.entries().filter(|(_, value)| value.is_null());
    bare.map(|(name, _)| name).chain([node]).find_map(|node| {
        let ForeignContent::Plain(text) = &node.content else { return None };
        let (at, message) = lookalike::missing_colon(first_line(text))?;
        let column = node.at.column + text[..at].chars().count();
        Some(Fault { line: node.at.line, column, message })
    })
}

/// An alias without an anchor.
fn stray_alias(text: &str, at: Marker) -> Option<Fault> {
    let start = text.char_indices().nth(at.index()).map(|(start, _)| start)?;
    let alias = text[start..].split([' ', '\t', '\r', '\n', ',', '[', ']', '{', '}']).next()?;
    let name = alias.strip_prefix('*').filter(|name| !name.is_empty())?;
    let name = excerpt(name);
    let message = format!(
        "`*{name}` is an alias, and no `&{name}` stands above it; mend the name, or put a text in quotes: {}",
        Value::from(excerpt(alias))
    );
    Some(Fault { line: at.line(), column: at.col() + 1, message })
}

/// A template from which a static site generator makes the configuration.
fn template(text: &str, line: usize) -> Option<Fault> {
    const REMEDY: &str = "import what the site makes of it, such as _site/admin/config.yml";
    for (number, content) in text.lines().enumerate().take(line) {
        let tag = ["{%", "{{ site.", "{{site.", "{{ page.", "{{page.", "{{ include."]
            .iter()
            .filter_map(|tag| content.find(tag))
            .min();
        if let Some(at) = tag {
            let column = content[..at].chars().count() + 1;
            let message = format!(
                "this looks like a Liquid template, as Jekyll has them: {}; {REMEDY}",
                Value::from(excerpt(content[at..].trim()))
            );
            return Some(Fault { line: number + 1, column, message });
        }
    }
    let is_fence = |line: &str| line.trim_end() == "---";
    let mut fences = text.lines().enumerate().filter(|(_, line)| is_fence(line));
    let (first, second) = (fences.next()?, fences.next()?);
    let is_front_matter = first.0 == 0 && second.0 < line;
    is_front_matter.then(|| Fault {
        line: second.0 + 1,
        column: 1,
        message: format!("this looks like a Jekyll page, with front matter between two lines `---`; take those away, or {REMEDY}"),
    })
}

/// An unquoted text that begins with `{{`, in the line where reading ended or the one before.
fn unquoted(text: &str, line: usize) -> Option<Fault> {
    let near = text.lines().enumerate().take(line).skip(line.saturating_sub(2));
    near.collect::<Vec<_>>().into_iter().rev().find_map(|(number, content)| {
        let at = content.find("{{")?;
        let before = content[..at].trim_end_matches(' ');
        if before.len() == at || !before.ends_with([':', '-', ',', '[']) {
            return None;
        }
        let message = lookalike::braces(&content[at..]);
        Some(Fault { line: number + 1, column: content[..at].chars().count() + 1, message })
    })
}
