//! Characters from text processors and web pages that look like those of YAML's syntax.
//!
//! They are allowed: a name may be `“Posts”`. They are reported as the likely cause only where
//! something can't be read.

use crate::domain::{Value, excerpt};

/// The signs that people type for the colon between a name and its value.
pub(crate) const SIGNS: [char; 4] = [':', '：', '=', ';'];

/// Typographic quotes.
const QUOTES: [char; 9] = ['“', '”', '„', '‟', '«', '»', '‘', '’', '‚'];

/// Whether a character looks like a blank but is not one in YAML.
pub(crate) fn is_odd_blank(c: char) -> bool {
    matches!(c, '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200b}' | '\u{202f}' | '\u{205f}' | '\u{3000}')
}

/// The message for such a blank.
pub(crate) fn odd_blank(c: char) -> String {
    match c {
        '\u{a0}' | '\u{202f}' => "a no-break space stands here; type a blank".to_owned(),
        c => format!("an unusual blank (U+{:04X}) stands here; type an ordinary one", u32::from(c)),
    }
}

/// The message for a text in typographic quotes.
pub(crate) fn typographic(text: &str) -> Option<String> {
    let inner = text.strip_prefix(QUOTES)?.trim_end_matches(QUOTES).trim_end_matches(['"', '\'']);
    Some(format!("typographic quotes stand here; type `\"` in their place: {}", Value::from(excerpt(inner))))
}

/// Finds such a quote at the end of a line, or of an item in brackets: its offset and the message.
pub(crate) fn closing_quote(text: &str) -> Option<(usize, String)> {
    let ends = |rest: &str| rest.is_empty() || rest.starts_with([',', ']', '}']);
    let mut quotes = text.match_indices(QUOTES);
    let (at, _) = quotes.find(|(at, quote)| ends(text[at + quote.len()..].trim_start()))?;
    Some((at, "a typographic quote stands here; type `\"` in its place".to_owned()))
}

/// Whether a text can be the name of an attribute, quoted or not.
pub(crate) fn is_name(text: &str) -> bool {
    let text = text.trim_matches(['"', '\'']);
    let inner = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    !text.is_empty() && text.starts_with(char::is_alphabetic) && text.chars().all(inner)
}

/// Finds a name and a value that read as one text because a colon, or the blank after it, is missing: the offset
/// of the sign and the message.
pub(crate) fn missing_colon(text: &str) -> Option<(usize, String)> {
    let (at, sign) = text.char_indices().find(|(_, c)| SIGNS.contains(c))?;
    let (name, rest) = (text[..at].trim_end(), &text[at + sign.len_utf8()..]);
    if !is_name(name) {
        return None;
    }
    let value = without_comment(behind_sign(&text[at..]));
    let example = format!("`{}: {}`", excerpt(name), excerpt(value));
    Some(match (sign, rest.chars().next()) {
        (':', Some(c)) if is_odd_blank(c) => (at + 1, odd_blank(c)),
        (':', _) => (at, format!("write a blank after the colon: {example}")),
        ('：', _) => (at, format!("a full-width colon stands here; type `:` and a blank: {example}")),
        ('=', Some('>')) => (at, format!("write a colon and a blank in place of `=>`: {example}")),
        (sign, _) => (at, format!("write a colon and a blank in place of `{sign}`: {example}")),
    })
}

/// The text after the signs that were typed for a colon.
pub(crate) fn behind_sign(text: &str) -> &str {
    let text = text.strip_prefix("=>").unwrap_or(text);
    text.trim_start_matches(|c: char| SIGNS.contains(&c) || c.is_whitespace())
}

/// The value without the comment behind it; a quoted value may contain ` #`.
pub(crate) fn without_comment(value: &str) -> &str {
    if value.starts_with(['"', '\'']) {
        return value;
    }
    value.split_once(" #").map_or(value, |(value, _)| value.trim_end())
}

/// The first line of a text that was meant as several lines: attributes, or items of a list.
pub(crate) fn first_line(text: &str) -> &str {
    let begins = |word: &str| word.starts_with('-') || word.contains([':', '：']);
    let mut blanks = text.match_indices(' ');
    let next = blanks.find(|(at, _)| text[at + 1..].split(' ').next().is_some_and(begins));
    &text[..next.map_or(text.len(), |(at, _)| at)]
}

/// Finds a likely typing error in an invalid text: its byte offset and the message.
pub(crate) fn suspect(text: &str) -> Option<(usize, String)> {
    let trimmed = text.trim_end_matches(is_odd_blank).len();
    match (text.chars().next()?, text[trimmed..].chars().next()) {
        (first, _) if is_odd_blank(first) => Some((0, odd_blank(first))),
        (_, Some(last)) => Some((trimmed, odd_blank(last))),
        (_, None) => typographic(text).map(|message| (0, message)),
    }
}

/// Decodes the surrogate pair at the start of a text, as JSON may write a character: `\uD83D\uDE00`.
pub(crate) fn surrogate_pair(text: &str) -> Option<char> {
    let unit = |text: &str| u16::from_str_radix(text.strip_prefix("\\u")?, 16).ok();
    let units = [unit(text.get(..6)?)?, unit(text.get(6..12)?)?];
    char::decode_utf16(units).next()?.ok().filter(|c| c.len_utf16() == 2)
}

/// The message for a merge key, which YAML 1.1 has and 1.2 does not.
pub(crate) const MERGE_KEY: &str =
    "`<<` would be a merge key, and those are not allowed; write in this place what it stands for";

/// The message for an unquoted text that begins with `{{`; the text ends with the line.
pub(crate) fn braces(text: &str) -> String {
    let quoted = Value::from(value_of(text.lines().next().unwrap_or_default()));
    format!("a text that begins with `{{{{` needs quotes; write {quoted}")
}

/// The part of a line that is a value: up to a comment, a comma, a quote, or the brace that ends it.
fn value_of(rest: &str) -> &str {
    let end = rest.find(" #").unwrap_or(rest.len());
    let end = rest[..end].find([',', '"', '\'']).unwrap_or(end);
    let mut open = 0_usize;
    let outer = rest[..end].char_indices().find(|(_, c)| match c {
        '{' => {
            open += 1;
            false
        }
        '}' => open.checked_sub(1).map(|left| open = left).is_none(),
        _ => false,
    });
    rest[..outer.map_or(end, |(at, _)| at)].trim_end()
}
