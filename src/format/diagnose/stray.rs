//! A line that does not fit in its place.

use crate::format::diagnose::line::{LineFault, SourceLine};
use crate::format::diagnose::{Mistake, last_line};
use crate::format::tree;
use crate::format::tree::Failure;

/// The mistake of the line that made the parser give up.
pub(super) fn mistake(text: &str, failure: &Failure) -> Mistake {
    let here = SourceLine::at(text, last_line(text, failure.at.max(failure.understood_end)));
    // Checked first: if the line above is removed, any number of such lines can be read, but it is right.
    let mut near = [Some(here), here.below(text)].into_iter().flatten().filter(SourceLine::begins_attribute);
    if let Some(mistake) = near.find_map(|line| too_far(text, line)) {
        return mistake;
    }
    let line = stray(text, here);
    surplus(line)
        .or_else(|| too_far(text, line))
        .or_else(|| misplaced(text, line))
        .unwrap_or_else(|| line.mistake(line.first(), not_understood(text, line)))
}

/// Returns the line without which parsing gets furthest: the one where the parser failed, or a neighbour. The
/// parser may notice a mistake only after the continuation lines of a text, and may report the start of what it
/// was in. In a tie, a line that is not an attribute or item is preferred.
fn stray<'t>(text: &'t str, here: SourceLine<'t>) -> SourceLine<'t> {
    let reach = |line: &SourceLine<'_>| {
        let mut rest = text.to_owned();
        rest.replace_range(line.span(), &" ".repeat(line.text.len()));
        tree::parse(&rest).failure.map_or(usize::MAX, |failure| failure.at)
    };
    let begins_text = here.above(text).find(|line| line.indent() <= here.indent());
    let above = begins_text.into_iter().chain(here.above(text).next());
    let lines = above.chain([here]).chain(here.below(text));
    lines.max_by_key(|line| (reach(line), !line.begins_part())).unwrap_or(here)
}

/// A line that is indented too little for the text in which it stands, below a `|` or a `>`.
pub(super) fn below_text(text: &str, line: SourceLine<'_>) -> Option<Mistake> {
    if line.says_nothing() {
        return None;
    }
    let above = line.above(text).next()?;
    if above.announces_text() {
        let is_outside = line.indent() <= above.indent() && !line.begins_part();
        let indent = above.indent() + 2;
        let message =
            format!("a text below `|` or `>` is indented; begin this line in column {}", indent + 1);
        return is_outside.then(|| indented(line, message, indent));
    }
    let mut first = above;
    let header = line.above(text).find(|above| {
        let is_of_text = above.indent() > line.indent();
        if is_of_text {
            first = *above;
        }
        !is_of_text
    })?;
    let is_inside = header.announces_text() && header.indent() < line.indent();
    let indent = first.indent();
    let message = format!(
        "this line is indented less than the text in which it stands; begin it in column {}",
        indent + 1
    );
    is_inside.then(|| indented(line, message, indent))
}

/// A superfluous comma or bracket at the end of a line.
fn surplus(line: SourceLine<'_>) -> Option<Mistake> {
    let text = line.text.split(" #").next().unwrap_or_default().trim_end();
    let before = &text[..text.len().checked_sub(1).filter(|at| text.is_char_boundary(*at))?];
    let count = |sign| text.matches(sign).count();
    let message = match &text[before.len()..] {
        "," if before.ends_with(['"', '\'', ']', '}']) => "this `,` belongs to nothing; remove it",
        "]" if count('[') < count(']') => "nothing is open that `]` could close; remove it",
        "}" if count('{') < count('}') => "nothing is open that `}` could close; remove it",
        _ => return None,
    };
    let (at, message) = (line.start + before.len(), message.to_owned());
    Some(line.fault(LineFault { at, message, instead: before.to_owned() }))
}

/// A line that is indented further than the one above, which has its value already.
fn too_far(text: &str, line: SourceLine<'_>) -> Option<Mistake> {
    let last = line.above(text).next().filter(|last| line.indent() > last.indent() && last.has_value())?;
    let column = last.indent() + 1;
    let message = format!(
        "this line is indented further than the one above, which has its value already; begin it in column {column}"
    );
    Some(indented(line, message, last.indent()))
}

/// A line that is indented like no line above it.
fn misplaced(text: &str, line: SourceLine<'_>) -> Option<Mistake> {
    let fits = line.above(text).any(|other| other.indent() == line.indent());
    let deeper = line.above(text).map(|other| other.indent()).filter(|indent| *indent > line.indent());
    let nearest = deeper.min().filter(|_| !fits)?;
    let message = format!(
        "no line above begins in this column; indent this one like those that it belongs to, for example to column {}",
        nearest + 1
    );
    Some(indented(line, message, nearest))
}

/// A mistake in the indentation of a line, which is replaced by this one.
fn indented(line: SourceLine<'_>, message: String, indent: usize) -> Mistake {
    let instead = format!("{:indent$}{}", "", line.text.trim_start());
    line.fault(LineFault { at: line.first(), message, instead })
}

/// The message for a line that does not fit in its place.
fn not_understood(text: &str, line: SourceLine<'_>) -> &'static str {
    let beside = line.above(text).find(|above| above.indent() <= line.indent());
    let is_mixed = beside.is_some_and(|beside| {
        beside.indent() == line.indent()
            && beside.begins_part()
            && line.begins_part()
            && beside.begins_item() != line.begins_item()
    });
    let text = line.text.trim();
    if is_mixed {
        "attributes and the items of a list can't begin in the same column; indent what belongs below the other"
    } else if text == "=======" || [">>>>>>> ", "||||||| "].iter().any(|marker| text.starts_with(marker)) {
        "git could not merge this: keep what is right, and remove the lines with `<<<<<<<`, `=======` and `>>>>>>>`"
    } else if ["//", "/*", "<!--"].iter().any(|sign| text.starts_with(sign)) {
        "this can't be understood here; a comment begins with `#`"
    } else {
        "this can't be understood here; write `name: value`, and a text with signs in quotes"
    }
}
