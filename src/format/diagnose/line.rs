//! One line of a file, as its author sees it.

use std::ops::Range;

use crate::domain::{Value, excerpt};
use crate::format::lookalike::{
    MERGE_KEY, SIGNS, behind_sign, closing_quote, is_name, is_odd_blank, missing_colon, odd_blank,
    typographic, without_comment,
};

/// A line and its position.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SourceLine<'t> {
    /// The offset of its first byte in the text.
    pub(crate) start: usize,
    /// The line without its line end.
    pub(crate) text: &'t str,
}

/// A fault in a line, and a readable replacement for the line.
pub(crate) struct LineFault {
    /// The byte offset in the whole text.
    pub(crate) at: usize,
    pub(crate) message: String,
    pub(crate) instead: String,
}

/// A text in the quotes that it needs, for a message.
fn quoted(text: &str) -> String {
    Value::from(excerpt(text)).to_string()
}

/// Splits off leading blanks: returns their number and the rest.
fn skipped(text: &str) -> (usize, &str) {
    let rest = text.trim_start_matches(' ');
    (text.len() - rest.len(), rest)
}

/// Finds the colon that ends a name: before a blank or the end, not in quotes or a comment.
fn colon(text: &str) -> Option<usize> {
    let from = match text.chars().next() {
        Some(quote @ ('"' | '\'')) => text[1..].find(quote)? + 1,
        _ => 0,
    };
    let ends = |at: &usize| matches!(text.as_bytes().get(at + 1), None | Some(b' ' | b'\t' | b'\r'));
    let comment = text.find(" #").unwrap_or(text.len());
    text[from..].match_indices(':').map(|(at, _)| from + at).find(ends).filter(|at| *at < comment)
}

/// Whether the text before a colon is itself a name and a value, joined by a sign.
fn begins_glued(text: &str) -> bool {
    !is_name(text.trim_end()) && !text.starts_with(['"', '\'']) && missing_colon(text).is_some()
}

impl<'t> SourceLine<'t> {
    /// Returns the line of a byte.
    pub(crate) fn at(text: &'t str, at: usize) -> Self {
        let at = (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
        let line = text[start..].split('\n').next().unwrap_or_default();
        Self { start, text: line.strip_suffix('\r').unwrap_or(line) }
    }

    /// Its byte range in the text, without the line end.
    pub(crate) fn span(&self) -> Range<usize> {
        self.start..self.start + self.text.len()
    }

    /// The number of blanks at its start.
    pub(crate) fn indent(&self) -> usize {
        skipped(self.text).0
    }

    /// The byte offset of the first character that is not a blank.
    pub(crate) fn first(&self) -> usize {
        self.start + self.indent()
    }

    /// Whether it is empty or a comment.
    pub(crate) fn says_nothing(&self) -> bool {
        let text = self.text.trim_start_matches([' ', '\t']);
        text.is_empty() || text.starts_with('#')
    }

    /// Whether it begins with a name and a colon.
    pub(crate) fn begins_attribute(&self) -> bool {
        let text = self.text.trim_start();
        colon(text).is_some_and(|at| is_name(text[..at].trim_end()))
    }

    /// Whether it begins like an attribute or an item.
    pub(crate) fn begins_part(&self) -> bool {
        self.begins_attribute() || self.begins_item()
    }

    /// Whether it begins like an item of a list.
    pub(crate) fn begins_item(&self) -> bool {
        self.split().0 > self.indent()
    }

    /// Whether a text stands in the lines below it: `name: |`, `- >-`.
    pub(crate) fn announces_text(&self) -> bool {
        let (_, rest) = self.split();
        let value = colon(rest).map_or(rest, |at| &rest[at + 1..]);
        is_block_header(value.trim_start())
    }

    /// Whether it has a name and a value.
    pub(crate) fn has_value(&self) -> bool {
        let text = self.text.trim_start();
        colon(text).is_some_and(|at| {
            let value = text[at + 1..].trim();
            !value.is_empty() && !value.starts_with('#')
        })
    }

    /// The lines above that are neither empty nor comments, the nearest first.
    pub(crate) fn above(self, text: &'t str) -> impl Iterator<Item = SourceLine<'t>> {
        let mut start = self.start;
        std::iter::from_fn(move || {
            start = SourceLine::at(text, start.checked_sub(1)?).start;
            Some(SourceLine::at(text, start))
        })
        .filter(|line| !line.says_nothing())
    }

    /// The next line that is neither empty nor a comment.
    pub(crate) fn below(self, text: &'t str) -> Option<SourceLine<'t>> {
        let mut end = self.span().end;
        let lines = std::iter::from_fn(move || {
            let line = SourceLine::at(text, end + text[end..].find('\n')? + 1);
            end = line.span().end;
            Some(line)
        });
        lines.into_iter().find(|line| !line.says_nothing())
    }

    /// The length of indentation and dashes, and the rest of the line.
    fn split(&self) -> (usize, &'t str) {
        let mut at = self.indent();
        while let Some(rest) = self.text[at..].strip_prefix("- ") {
            at += 2 + skipped(rest).0;
        }
        (at, &self.text[at..])
    }

    /// The line with a placeholder for what follows the name or the dash.
    pub(crate) fn blank_value(&self) -> String {
        let (at, rest) = self.split();
        let name = colon(rest).map_or("", |colon| &rest[..=colon]);
        format!("{}{name} x", &self.text[..at])
    }

    /// The fault of this line on its own.
    pub(crate) fn own_fault(&self, text: &str) -> Option<LineFault> {
        if self.says_nothing() {
            return None;
        }
        let (from, rest) = self.split();
        let begins =
            self.indented_oddly().or_else(|| self.dash(from, rest)).or_else(|| self.open_quote(from, rest));
        let begins = begins.or_else(|| self.merge_key(from, rest));
        begins.or_else(|| match colon(rest) {
            // Brackets after a name may contain names of their own.
            Some(at) if begins_glued(&rest[..at]) => self.colon(from, rest, text),
            Some(at) => {
                let instead = self.blank_value();
                let is_name = at > 0 && is_name(rest[..at].trim_end());
                let value = from + if is_name { at + 1 } else { 0 };
                self.value(value).map(|(at, message)| LineFault { at: self.start + at, message, instead })
            }
            // An item is a text, unless the next line continues a map that begins in it.
            None if from > self.indent() && self.below(text).is_none_or(|below| below.indent() != from) => {
                let instead = self.blank_value();
                self.value(from).map(|(at, message)| LineFault { at: self.start + at, message, instead })
            }
            None => self.colon(from, rest, text),
        })
    }

    /// A tab or an odd blank in the indentation.
    pub(crate) fn indented_oddly(&self) -> Option<LineFault> {
        let rest = self.text.trim_start_matches(' ');
        let first = rest.chars().next()?;
        let message = match first {
            '\t' => "a tab indents this line; YAML is indented with blanks".to_owned(),
            c if is_odd_blank(c) => odd_blank(c),
            _ => return None,
        };
        let instead = self.text.replace('\t', "  ").replace(is_odd_blank, " ");
        Some(LineFault { at: self.first(), message, instead })
    }

    /// A dash without a blank after it.
    fn dash(&self, from: usize, rest: &str) -> Option<LineFault> {
        let item = rest.strip_prefix('-')?;
        let follows = item.chars().next().is_some_and(|c| !matches!(c, ' ' | '-'));
        let message = || format!("write a blank after the dash: `- {}`", excerpt(item.trim()));
        let instead = format!("{}- {}", &self.text[..from], item.trim_start());
        follows.then(|| LineFault { at: self.start + from, message: message(), instead })
    }

    /// A quote at the start of the line that is never closed.
    fn open_quote(&self, from: usize, rest: &str) -> Option<LineFault> {
        let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        if rest[1..].contains(quote) {
            return None;
        }
        let (at, message) = self.value(from)?;
        let instead = format!("{}{}", &self.text[..from], &rest[1..]);
        Some(LineFault { at: self.start + at, message, instead })
    }

    /// A name that would be a merge key.
    fn merge_key(&self, from: usize, rest: &str) -> Option<LineFault> {
        let is_key = colon(rest).is_some_and(|at| rest[..at].trim_end() == "<<");
        let fault =
            LineFault { at: self.start + from, message: MERGE_KEY.to_owned(), instead: self.blank_value() };
        is_key.then_some(fault)
    }

    /// A name without a proper colon after it.
    fn colon(&self, from: usize, rest: &str, text: &str) -> Option<LineFault> {
        let at = rest.find(SIGNS);
        let end = at.unwrap_or_else(|| rest.find(char::is_whitespace).unwrap_or(rest.len()));
        let name = rest[..end].trim_end();
        let value = without_comment(behind_sign(&rest[end..]));
        if let Some((at, message)) = missing_colon(rest) {
            let instead = self.named(name, value, text);
            return Some(LineFault { at: self.start + from + at, message, instead });
        }
        if is_name(name) {
            return Some(self.no_colon(from + name.len(), name, value, text));
        }
        at.and_then(|_| rest.find(char::is_whitespace)).and_then(|end| {
            let (name, value) = rest.split_at(end);
            is_name(name).then(|| self.no_colon(from + end, name, without_comment(value.trim()), text))
        })
    }

    fn no_colon(&self, at: usize, name: &str, value: &str, text: &str) -> LineFault {
        let value_shown = if value.is_empty() { "…" } else { value };
        let message = format!(
            "no colon after `{}`; write `{}: {}`",
            excerpt(name),
            excerpt(name),
            excerpt(value_shown)
        );
        LineFault { at: self.start + at, message, instead: self.named(name, value, text) }
    }

    /// The line as it was probably meant.
    fn named(&self, name: &str, value: &str, text: &str) -> String {
        let (from, _) = self.split();
        let has_below = self.below(text).is_some_and(|below| below.indent() > self.indent());
        let value = match value {
            "document" | "media" => value,
            _ if has_below => "",
            _ => "x",
        };
        format!("{}{name}: {value}", &self.text[..from])
    }

    /// The fault of an item in brackets at which reading ended; its text begins at `from`.
    pub(crate) fn item(&self, from: usize, at: usize) -> Option<(usize, String)> {
        let rest = self.text.get(at..)?;
        let text = self.text.get(from..)?;
        let end = rest.find([',', ']', '}']).map_or(self.text.len(), |end| at + end);
        let item = SourceLine { text: &self.text[..end], ..*self };
        match rest.chars().next()? {
            quote @ ('"' | '\'') if !rest[1..].contains(quote) => self.value(at),
            '*' if merge_key_before(&self.text[..at]).is_some() => {
                Some((merge_key_before(&self.text[..at])?, MERGE_KEY.to_owned()))
            }
            '@' | '`' | '%' | '*' => item.value(at),
            ':' if rest[1..].starts_with([' ', '\t']) => item.unquoted(from),
            ':' => missing_colon(text).map(|(at, message)| (from + at, message)),
            _ => None,
        }
    }

    /// The fault of the value that begins at a byte of the line: its offset in the line and the message.
    fn value(&self, from: usize) -> Option<(usize, String)> {
        let (blanks, value) = skipped(&self.text[from..]);
        let at = from + blanks;
        let first = value.chars().next()?;
        let second = value[first.len_utf8()..].chars().next();
        let is_apart = second.is_none_or(|c| c == ' ');
        let needs_quotes = |sign: &str| {
            let text = value.split(" #").next().unwrap_or_default().trim_end();
            Some((at, format!("a text that begins with `{sign}` needs quotes: {}", quoted(text))))
        };
        match first {
            '\t' => Some((at, "a tab stands here; type a blank".to_owned())),
            c if is_odd_blank(c) => Some((at, odd_blank(c))),
            '@' | '`' | '%' | '*' | '!' | '&' | ',' | ']' | '}' => needs_quotes(&first.to_string()),
            '-' | '?' | ':' if is_apart => needs_quotes(&format!("{first} ")),
            '|' | '>' if is_block_header(value) => None,
            '|' | '>' => needs_quotes(&first.to_string()),
            '"' => self.double_quoted(at),
            '\'' => self.single_quoted(at),
            '[' | '{' if behind_brackets(value) || value.starts_with("{%") => {
                needs_quotes(&first.to_string())
            }
            '[' | '{' => None,
            _ => self.unquoted(at),
        }
    }

    /// A double-quoted text that is not closed, has an invalid escape, or is followed by more text.
    fn double_quoted(&self, at: usize) -> Option<(usize, String)> {
        let mut chars = self.text[at + 1..].char_indices();
        while let Some((offset, c)) = chars.next() {
            let here = at + 1 + offset;
            match c {
                '\\' if !chars.next().is_none_or(|(_, c)| is_escape(c, chars.as_str())) => {
                    let message =
                        "a backslash in double quotes begins an escape; write `\\\\`, or use single quotes";
                    return Some((here, message.to_owned()));
                }
                '"' => return self.behind_quote(here, "write `\\\"` for a quote inside double quotes"),
                _ => {}
            }
        }
        let (from, wrong) = (at + 1, closing_quote(&self.text[at + 1..]));
        Some(wrong.map_or_else(
            || (at, "this quote is never closed; write `\"` at the end of the text".to_owned()),
            |(at, message)| (from + at, message),
        ))
    }

    fn single_quoted(&self, at: usize) -> Option<(usize, String)> {
        let mut chars = self.text[at + 1..].char_indices().peekable();
        while let Some((offset, c)) = chars.next() {
            if c == '\'' && chars.next_if(|(_, next)| *next == '\'').is_none() {
                let here = at + 1 + offset;
                return self.behind_quote(here, "write `''` for an apostrophe inside single quotes");
            }
        }
        Some((at, "this quote is never closed; write `'` at the end of the text".to_owned()))
    }

    /// Text after the closing quote.
    fn behind_quote(&self, quote: usize, advice: &str) -> Option<(usize, String)> {
        let rest = &self.text[quote + 1..];
        let trimmed = rest.trim_start();
        let is_over = trimmed.is_empty() || (trimmed.starts_with('#') && rest.len() > trimmed.len());
        // A comma alone is one too many.
        let ends = is_over || trimmed == "," || trimmed.starts_with([']', '}', ':']);
        (!ends).then(|| (quote, format!("this quote ends the text, and more follows; {advice}")))
    }

    /// An unquoted text that contains `: `.
    fn unquoted(&self, at: usize) -> Option<(usize, String)> {
        let value = &self.text[at..];
        let text = value.split(" #").next().unwrap_or_default().trim_end();
        let colon = colon(text)?;
        if let Some((before, name)) = text[..colon].rsplit_once(',')
            && is_name(name.trim())
        {
            let message = format!(
                "each attribute stands on a line of its own, without a comma; begin a new line with `{}`",
                excerpt(name.trim())
            );
            return Some((at + before.len(), message));
        }
        if let Some(message) = typographic(text) {
            return Some((at, message));
        }
        let sign = if colon + 1 == text.len() { "that ends with `:`" } else { "with `: `" };
        Some((at + colon, format!("a text {sign} needs quotes: {}", quoted(text))))
    }
}

/// Whether a backslash begins an escape before this character and what follows it (YAML 1.2.2 section 5.7).
fn is_escape(c: char, follows: &str) -> bool {
    let digits = match c {
        'x' => 2,
        'u' => 4,
        'U' => 8,
        c => return "0abtnvfre \"/\\N_LP\t".contains(c),
    };
    follows.get(..digits).is_some_and(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

/// Whether a value announces a text that stands in the lines below it.
fn is_block_header(value: &str) -> bool {
    let Some(header) = value.strip_prefix(['|', '>']) else { return false };
    let (signs, rest) = header.split_at(header.find([' ', '\t']).unwrap_or(header.len()));
    let is_sign = |c| matches!(c, '+' | '-' | '1'..='9');
    let rest = rest.trim_start();
    signs.len() <= 2 && signs.chars().all(is_sign) && (rest.is_empty() || rest.starts_with('#'))
}

/// Finds a merge key at the end of a text, where its value follows.
fn merge_key_before(text: &str) -> Option<usize> {
    let before = text.trim_end_matches([' ', '[']).strip_suffix(':')?.trim_end().strip_suffix("<<")?;
    before.ends_with(['{', ',', ' ']).then_some(before.len())
}

/// Whether text follows brackets that are closed on the same line.
fn behind_brackets(value: &str) -> bool {
    let mut depth = 0_usize;
    let mut quote = None;
    for (at, c) in value.char_indices() {
        match (quote, c) {
            (Some(open), c) if open == c => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            let rest = value[at + 1..].trim_start();
            return !(rest.is_empty() || rest.starts_with('#') || rest.starts_with([',', ':']));
        }
    }
    false
}
