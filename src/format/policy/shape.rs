//! Candidates for the text of an edited policy file, for each form in which a list can be written.
//!
//! No candidate is certain to be right: the caller reads them, and uses the first one with the
//! expected tokens.

use std::ops::Range;

use crate::domain::SecretHash;
use crate::format::policy::entry::NewToken;

/// Maximum number of closing brackets that are tried, from the end: a comment after the list may have some.
const BRACKETS_MAX: usize = 16;

/// Candidates for `old` with one more token, the likely ones first. Each has every byte of `old`,
/// except the brackets of an empty list.
pub(crate) fn with<'a>(old: &'a str, token: &'a NewToken) -> impl Iterator<Item = String> + 'a {
    let block = move |above: &str, below: &str| {
        let line_end = missing_line_end(above);
        format!("{}{line_end}{}{below}", opened(above), token.item(item_indent(above)))
    };
    let before_end = old.rfind("\n...").map(|at| old.split_at(at + 1));
    let brackets = old.rmatch_indices(']').take(BRACKETS_MAX).map(|(at, _)| old.split_at(at));
    let flow = brackets.flat_map(move |(above, below)| {
        let item = token.flow_item();
        let close = above.trim_end();
        let gap = &above[close.len()..];
        // Right after the last item, or below a comment after it.
        [(close, ", ", gap), (close, " ", gap), (above, "", ""), (above, ", ", "")]
            .map(|(above, comma, gap)| format!("{above}{comma}{item}{gap}{below}"))
    });
    std::iter::once(block(old, ""))
        .chain(before_end.map(move |(above, below)| block(above, below)))
        .chain(flow)
}

/// The line end that a text needs before a further line.
pub(crate) fn missing_line_end(text: &str) -> &'static str {
    if text.is_empty() || text.ends_with('\n') { "" } else { "\n" }
}

/// Candidates for `old` without the token that has this hash.
pub(crate) fn without<'a>(old: &'a str, hash: &SecretHash) -> impl Iterator<Item = String> + 'a {
    // It may stand in a comment too.
    let lower = old.to_ascii_lowercase();
    let found: Vec<usize> = lower.match_indices(&hash.to_string()).map(|(at, _)| at).collect();
    let spans = found.into_iter().flat_map(move |at| {
        let item = item_around(old, at);
        let flow = braces_around(old, at).into_iter().flat_map(|braces| with_comma(old, braces));
        item.into_iter().chain(flow)
    });
    spans.map(|span| format!("{}{}", &old[..span.start], &old[span.end..]))
}

/// The lines of the block list's item around this byte: from its dash to the last line that is
/// indented deeper.
fn item_around(text: &str, at: usize) -> Option<Range<usize>> {
    let lines = || {
        text.split_inclusive('\n').scan(0, |end, line| {
            let start = *end;
            *end += line.len();
            Some((start, line))
        })
    };
    let indent = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let is_dash = |line: &str| line.trim_start_matches(' ').starts_with("- ");
    let (start, dash) = lines().filter(|(start, line)| *start <= at && is_dash(line)).last()?;
    let is_blank = |line: &str| line.trim().is_empty();
    let below = lines().filter(|(line_start, line)| *line_start > start && !is_blank(line));
    let own = below.take_while(|(_, line)| indent(line) > indent(dash));
    let (last_start, last) = own.last().unwrap_or((start, dash));
    Some(start..last_start + last.len())
}

/// The map in braces around this byte.
fn braces_around(text: &str, at: usize) -> Option<Range<usize>> {
    let start = text[..at].rfind('{')?;
    let mut depth = 0;
    for (offset, c) in text[start..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(start..start + offset + 1);
        }
    }
    None
}

/// An item of a list in brackets with the comma after it, or else before it; and the item alone.
fn with_comma(text: &str, item: Range<usize>) -> [Range<usize>; 2] {
    let before = text[..item.start].trim_end().strip_suffix(',').map_or(item.start, str::len);
    let with = match text[item.end..].trim_start().strip_prefix(',') {
        Some(rest) => item.start..text.len() - rest.trim_start_matches(' ').len(),
        None => before..item.end,
    };
    [with, item]
}

/// The indentation of the list's items.
fn item_indent(text: &str) -> &str {
    text.lines()
        .find_map(|line| {
            line.split_once("- ").map(|(indent, _)| indent).filter(|indent| indent.trim().is_empty())
        })
        .unwrap_or("  ")
}

/// Removes the brackets of an empty list, `tokens: []`, so that items can be added below.
fn opened(text: &str) -> String {
    let open = |line: &str| {
        let is_empty = line.strip_prefix("tokens:").is_some_and(|rest| rest.trim_start().starts_with("[]"));
        if is_empty { line.replacen("[]", "", 1) } else { line.to_owned() }
    };
    text.split_inclusive('\n').map(open).collect()
}
