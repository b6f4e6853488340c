//! A line that belongs to nothing where it stands.

use crate::format::diagnose::line::{LineFault, SourceLine};
use crate::format::diagnose::{Mistake, last_line};
use crate::format::tree;
use crate::format::tree::Failure;

/// The mistake of the line for whose sake the parser gave up, whatever stands in the others.
pub(super) fn mistake(text: &str, failure: &Failure) -> Mistake {
    let here = SourceLine::at(text, last_line(text, failure.at.max(failure.behind)));
    // However many there are: without the line above all of them could be read, and yet it is right.
    let mut near = [Some(here), here.below(text)].into_iter().flatten().filter(SourceLine::begins_attribute);
    if let Some(mistake) = near.find_map(|line| too_far(text, line)) {
        return mistake;
    }
    let line = stray(text, here);
    surplus(line)
        .or_else(|| too_far(text, line))
        .or_else(|| misplaced(text, line))
        .unwrap_or_else(|| line.mistake(line.first(), not_understood(line)))
}

/// The line without which reading gets furthest: the one where the parser stumbled, or a neighbour, since
/// it may notice late, behind the lines that a text goes on over, and may name the beginning of what it was in.
/// Of two, one that is no attribute or item.
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

/// A comma or bracket at the end of a line that belongs to nothing.
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

/// A line that is indented as nothing around it.
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

/// What is wrong with the indentation of a line, which is read with another one.
fn indented(line: SourceLine<'_>, message: String, indent: usize) -> Mistake {
    let instead = format!("{:indent$}{}", "", line.text.trim_start());
    line.fault(LineFault { at: line.first(), message, instead })
}

/// What to say of a line that can't stand where it does.
fn not_understood(line: SourceLine<'_>) -> &'static str {
    let text = line.text.trim();
    if text == "=======" || [">>>>>>> ", "||||||| "].iter().any(|marker| text.starts_with(marker)) {
        "git could not merge this: keep what is right, and remove the lines with `<<<<<<<`, `=======` and `>>>>>>>`"
    } else if ["//", "/*", "<!--"].iter().any(|sign| text.starts_with(sign)) {
        "this can't be understood here; a comment begins with `#`"
    } else {
        "this can't be understood here; write `name: value`, and a text with signs in quotes"
    }
}
