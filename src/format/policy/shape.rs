//! Where in a policy file one more token may stand, for each way in which a list can be written.
//!
//! Nothing here is sure to be right: whoever adds reads the result, and takes the first one that
//! says what it should.

use super::{NewToken, entry, flow_entry};

/// How many closing brackets are tried, from the end: a list may be followed by a comment with some.
const BRACKETS_MAX: usize = 16;

/// The texts that may be `old` with one more token, the likely ones first; every byte of `old` is
/// in each but for the brackets of an empty list.
pub(super) fn candidates<'a>(old: &'a str, token: &'a NewToken) -> impl Iterator<Item = String> + 'a {
    let block = move |above: &str, below: &str| {
        let line_end = if above.is_empty() || above.ends_with('\n') { "" } else { "\n" };
        format!("{}{line_end}{}{below}", opened(above), entry(token, item_indent(above)))
    };
    let before_end = old.rfind("\n...").map(|at| old.split_at(at + 1));
    let brackets = old.rmatch_indices(']').take(BRACKETS_MAX).map(|(at, _)| old.split_at(at));
    let flow = brackets.flat_map(move |(above, below)| {
        let item = flow_entry(token);
        let close = above.trim_end();
        let gap = &above[close.len()..];
        // Right behind the last item, or below a comment that stands there.
        [(close, ", ", gap), (close, " ", gap), (above, "", ""), (above, ", ", "")]
            .map(|(above, comma, gap)| format!("{above}{comma}{item}{gap}{below}"))
    });
    std::iter::once(block(old, ""))
        .chain(before_end.map(move |(above, below)| block(above, below)))
        .chain(flow)
}

/// The indentation of the list's items.
fn item_indent(text: &str) -> &str {
    text.lines()
        .find_map(|line| {
            line.split_once("- ").map(|(indent, _)| indent).filter(|indent| indent.trim().is_empty())
        })
        .unwrap_or("  ")
}

/// An empty list on a line of its own, `tokens: []`, is opened to be added to.
fn opened(text: &str) -> String {
    let open = |line: &str| {
        let is_empty = line.strip_prefix("tokens:").is_some_and(|rest| rest.trim_start().starts_with("[]"));
        if is_empty { line.replacen("[]", "", 1) } else { line.to_owned() }
    };
    text.split_inclusive('\n').map(open).collect()
}
