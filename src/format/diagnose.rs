//! The most likely mistake where the YAML parser gave up.
//!
//! The parser reports where it failed, which is often a line too late, and in terms of its grammar.
//! This module looks at the lines between the end of what was understood and that place, as their
//! author sees them: a blank is missing after a colon, a text needs quotes, a bracket was never
//! closed. Each [`Mistake`] has a readable replacement for its lines, so that reading continues and
//! finds the next mistake.

mod line;
mod stray;

use std::ops::Range;

use crate::domain::VALUE_DEPTH_MAX;
use crate::format::diagnose::line::{LineFault, SourceLine};
use crate::format::line_column::to_fault;
use crate::format::lookalike::{SIGNS, closing_quote, surrogate_pair};
use crate::format::scalar::Style;
use crate::format::tree::{Failure, FaultAt, Node, Parsed};
use crate::format::{Fault, PROBLEMS_PER_FILE_MAX, scalar, tree};

/// The mistakes in a text that is not YAML, and what can be read of the rest.
pub(crate) struct Diagnosis {
    /// The text with its faulty lines replaced; the number of lines is unchanged.
    pub(crate) text: String,
    /// The text with replacements, parsed as far as possible.
    pub(crate) parsed: Parsed,
    /// The mistakes, with positions in the text at the time they were found. Lines stay valid, and so
    /// do columns in lines that are not replaced.
    pub(crate) places: Vec<Fault>,
    /// The lines, from 1, that were replaced.
    mended: Vec<Range<usize>>,
}

/// A mistake, and a readable replacement for its lines.
struct Mistake {
    found: FaultAt,
    /// The range of whole lines, without the last line end.
    lines: Range<usize>,
    /// The replacement, which is padded with blank lines.
    instead: String,
}

/// Reads a text and continues after mistakes that are understood.
pub(crate) fn read(text: &str) -> Diagnosis {
    let mut it = Diagnosis {
        text: text.to_owned(),
        parsed: Parsed { root: None, faults: Vec::new(), failure: None },
        places: Vec::new(),
        mended: Vec::new(),
    };
    while it.places.len() < PROBLEMS_PER_FILE_MAX {
        let foreign = forbidden_content(&it.text);
        if foreign.is_none() {
            it.parsed = tree::parse(&it.text);
        }
        let failure = it.parsed.failure.take();
        let mistake = foreign
            .or_else(|| failure.map(|failure| mistake(&it.text, &failure)))
            .or_else(|| single(&it.text, it.parsed.root.as_ref()?));
        let Some(mistake) = mistake else { break };
        if !it.record_and_replace(mistake) {
            break;
        }
    }
    it
}

/// Returns the first mistake of a text that is not YAML, else `None`.
pub(crate) fn first(text: &str) -> Option<Fault> {
    let mistake = forbidden_content(text).or_else(|| Some(mistake(text, &tree::parse(text).failure?)))?;
    Some(to_fault(text, mistake.found))
}

impl Diagnosis {
    /// Whether this line, from 1, was replaced.
    pub(crate) fn is_replaced(&self, line: usize) -> bool {
        self.mended.iter().any(|mended| mended.contains(&line))
    }

    /// Records a mistake and replaces its lines. If one of them was replaced before, the replacement was no help: the
    /// mistake is not recorded, and all its lines become blank. Returns false if they are blank already.
    fn record_and_replace(&mut self, Mistake { found, lines, instead }: Mistake) -> bool {
        let first = self.text[..lines.start].matches('\n').count() + 1;
        let count = self.text[lines.clone()].matches('\n').count();
        let behind = first + count + 1;
        let is_new = self.mended.iter().all(|mended| behind <= mended.start || mended.end <= first);
        if is_new {
            self.places.push(to_fault(&self.text, found));
        } else if self.text[lines.clone()].trim().is_empty() {
            return false;
        }
        self.mended.push(first..behind);
        let instead = if is_new { instead } else { String::new() };
        self.text.replace_range(lines, &format!("{instead}{}", "\n".repeat(count)));
        self.parsed.root = None;
        true
    }
}

/// The mistake that made the parser give up.
fn mistake(text: &str, failure: &Failure) -> Mistake {
    let brackets = unclosed(text, failure);
    conflict(text)
        .or_else(|| surrogate(text, failure))
        .or_else(|| window(text, failure).find_map(|line| stray::below_text(text, line)))
        .or_else(|| faulty_line(text, failure))
        .or_else(|| too_deep(text, *brackets.get(VALUE_DEPTH_MAX)?))
        .or_else(|| Some(in_brackets(text, failure.open.or(brackets.last().copied())?, failure)))
        .unwrap_or_else(|| stray::mistake(text, failure))
}

/// One character in two escapes, which JSON allows and YAML does not (RFC 8259 section 7).
fn surrogate(text: &str, failure: &Failure) -> Option<Mistake> {
    let end = SourceLine::at(text, failure.at).span().end;
    let doubtful = text.get(failure.understood_end..end)?;
    let is_half = |escape: &str| {
        u16::from_str_radix(escape.get(2..6).unwrap_or_default(), 16)
            .is_ok_and(|unit| unit & 0xf800 == 0xd800)
    };
    let (at, _) = doubtful.match_indices("\\u").find(|(at, _)| is_half(&doubtful[*at..]))?;
    let at = failure.understood_end + at;
    let escape = text.get(at..at + 6)?;
    let message = match surrogate_pair(&text[at..]) {
        Some(c) => format!("YAML has no escapes in two parts as `{escape}`; type the character itself: {c}"),
        None => format!("`{escape}` is half of a character; type the character itself"),
    };
    let line = SourceLine::at(text, at);
    let mut instead = line.text.to_owned();
    while let Some(at) = instead.match_indices("\\u").map(|(at, _)| at).find(|at| is_half(&instead[*at..])) {
        instead.replace_range(at..at + 6, "x");
    }
    Some(line.fault(LineFault { at, message, instead }))
}

impl SourceLine<'_> {
    /// A mistake that replaces the line by a blank one.
    fn mistake(&self, at: usize, message: impl Into<String>) -> Mistake {
        self.fault(LineFault { at, message: message.into(), instead: String::new() })
    }

    fn fault(&self, LineFault { at, message, instead }: LineFault) -> Mistake {
        Mistake { found: FaultAt { at, message }, lines: self.span(), instead }
    }
}

/// The first directive, or the first character that is not allowed in a file, whichever comes first.
fn forbidden_content(text: &str) -> Option<Mistake> {
    let directive = text.strip_prefix('%').map(|_| 0).or_else(|| text.find("\n%").map(|at| at + 1));
    let stray = text.char_indices().find(|&(at, c)| {
        (c == '\r' && !text[at + 1..].starts_with('\n')) || (c != '\r' && scalar::is_forbidden(c))
    });
    if let Some(at) = directive.filter(|at| stray.is_none_or(|(stray, _)| *at < stray)) {
        return Some(
            SourceLine::at(text, at).mistake(at, "directives (lines that begin with %) are not allowed"),
        );
    }
    let (at, c) = stray?;
    let message = match c {
        '\r' => "a line ends in LF or CR LF, not in CR alone".to_owned(),
        c => {
            let code = u32::from(c);
            format!(
                "the character U+{code:04X} is not allowed as it is; write \"\\u{code:04x}\" in double quotes"
            )
        }
    };
    let line = SourceLine::at(text, at);
    let instead = line.text.replace('\r', " ").replace(scalar::is_forbidden, "");
    Some(line.fault(LineFault { at, message, instead }))
}

/// A conflict that git left for people to resolve (git-merge(1), "How conflicts are presented").
fn conflict(text: &str) -> Option<Mistake> {
    const BEGIN: &str = "<<<<<<< ";
    let at = if text.starts_with(BEGIN) { 0 } else { text.find(&format!("\n{BEGIN}"))? + 1 };
    let end =
        text[at..].find("\n>>>>>>>").map_or(text.len(), |end| SourceLine::at(text, at + end + 1).span().end);
    let base = if text[at..end].contains("\n|||||||") { "`|||||||`, " } else { "" };
    let message = format!(
        "git could not merge this: keep what is right, and remove the lines with `<<<<<<<`, {base}`=======` and `>>>>>>>`"
    );
    Some(Mistake { found: FaultAt { at, message }, lines: at..end, instead: String::new() })
}

/// The lines in doubt: from the end of what was understood to where the parser failed.
fn window<'t>(text: &'t str, failure: &Failure) -> impl Iterator<Item = SourceLine<'t>> {
    let first = SourceLine::at(text, failure.understood_end).start;
    let last = SourceLine::at(text, last_line(text, failure.at)).start;
    let starts = text[first..].match_indices('\n').map(move |(at, _)| first + at + 1);
    let starts = std::iter::once(first).chain(starts);
    starts.take_while(move |start| *start <= last.max(first)).map(|start| SourceLine::at(text, start))
}

/// The first line in doubt that is wrong on its own.
fn faulty_line(text: &str, failure: &Failure) -> Option<Mistake> {
    let bracket = failure.open.map(|open| SourceLine::at(text, open).start);
    window(text, failure)
        .find_map(|line| {
            // A line below an open bracket is part of what the bracket holds, unless it begins an attribute.
            let is_inside = bracket.is_some_and(|bracket| line.start > bracket) && !line.begins_attribute();
            let fault = if is_inside { None } else { line.own_fault(text) };
            fault.map(|fault| line.fault(fault))
        })
        // If a tab indents a line, the parser reports that the line above has no value.
        .or_else(|| {
            let next = SourceLine::at(text, SourceLine::at(text, failure.at).span().end + 2);
            next.indented_oddly().map(|fault| next.fault(fault))
        })
}

/// The first mistake of lines that read as one text because no blank follows a colon.
fn single(text: &str, root: &Node) -> Option<Mistake> {
    let (_, style) = root.as_scalar().filter(|(text, _)| text.contains(SIGNS))?;
    let Range { start: behind, end: at } = root.span;
    (style == Style::Plain)
        .then(|| faulty_line(text, &Failure { at, understood_end: behind, open: None }))
        .flatten()
}

/// The brackets that open after what was understood and are not closed where the parser failed.
fn unclosed(text: &str, failure: &Failure) -> Vec<usize> {
    let (mut open, mut quote, mut last) = (Vec::new(), None, '\n');
    for (at, c) in text.get(failure.understood_end..failure.at).unwrap_or_default().char_indices() {
        match (quote, c) {
            (Some(begun), c) if begun == c => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'' | '[' | '{') if !matches!(last, '\n' | ':' | '-' | ',' | '[' | '{') => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '{') => open.push(failure.understood_end + at),
            (None, ']' | '}') => drop(open.pop()),
            _ => {}
        }
        if c != ' ' {
            last = c;
        }
    }
    open
}

/// The first bracket beyond the maximum depth.
fn too_deep(text: &str, at: usize) -> Option<Mistake> {
    let line = SourceLine::at(text, at);
    Some(line.fault(LineFault { at, message: tree::too_deep(), instead: line.blank_value() }))
}

/// The mistake after an open bracket.
fn in_brackets(text: &str, open: usize, failure: &Failure) -> Mistake {
    let first = SourceLine::at(text, open);
    let bracket = &text[open..=open];
    let closing = if bracket == "[" { "]" } else { "}" };
    let line = SourceLine::at(text, last_line(text, failure.at));
    let at_end = text[failure.at.min(text.len())..].trim().is_empty();
    let next = line.start > first.start && line.begins_attribute() && line.indent() <= first.indent();
    let lines = |end: usize| first.start..end.max(first.span().end);
    let found = |at: usize, message: String| FaultAt { at, message };
    if at_end || next {
        let end = if at_end { text.trim_end().len() } else { line.start - 1 };
        let message = format!(
            "this `{bracket}` is never closed; write `{closing}` behind its end, or put the text in quotes"
        );
        return Mistake { found: found(open, message), lines: lines(end), instead: first.blank_value() };
    }
    let (at, message) = match &text[failure.at..] {
        rest if rest.starts_with([']', '}']) => {
            let message = format!("`{}` closes what `{bracket}` has opened; write `{closing}`", &rest[..1]);
            (failure.at, message)
        }
        _ => item(text, open, failure).unwrap_or_else(|| {
            let message =
                format!("a comma is missing before this, or `{bracket}` is not closed with `{closing}`");
            (failure.at, message)
        }),
    };
    Mistake { found: found(at, message), lines: lines(line.span().end), instead: first.blank_value() }
}

/// The mistake in the item in brackets at which the parser failed.
fn item(text: &str, open: usize, failure: &Failure) -> Option<(usize, String)> {
    let line = SourceLine::at(text, failure.at);
    let from = failure.understood_end.max(open + 1).max(line.start).min(failure.at);
    let of_item = line.item(from - line.start, failure.at - line.start);
    of_item.map(|(at, message)| (line.start + at, message)).or_else(|| {
        let (at, message) = closing_quote(text.get(open + 1..line.span().end)?)?;
        Some((open + 1 + at, message))
    })
}

/// Limits a byte offset to the last line that is not blank.
fn last_line(text: &str, at: usize) -> usize {
    at.min(text.trim_end_matches([' ', '\t', '\r', '\n']).len())
}

#[cfg(test)]
mod tests;
