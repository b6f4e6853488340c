//! Characters of text processors and web pages that look like those that YAML has a use for.
//!
//! They are allowed: a name may be `“Posts”`. Only where something can't be read are they told as
//! the likely cause.

use crate::domain::{Value, shown};

/// Whether a character looks like a blank and is none to YAML.
pub(crate) fn is_odd_blank(c: char) -> bool {
    matches!(c, '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200b}' | '\u{202f}' | '\u{205f}' | '\u{3000}')
}

/// What to say of such a blank.
pub(crate) fn odd_blank(c: char) -> String {
    match c {
        '\u{a0}' | '\u{202f}' => "a no-break space stands here; type a blank".to_owned(),
        c => format!("an unusual blank (U+{:04X}) stands here; type an ordinary one", u32::from(c)),
    }
}

/// What to say of a text in the quotes of a text processor.
pub(crate) fn typographic(text: &str) -> Option<String> {
    let quotes = ['“', '”', '„', '‟', '«', '»', '‘', '’', '‚'];
    let inner = text.strip_prefix(quotes)?.trim_end_matches(quotes);
    Some(format!("typographic quotes stand here; type `\"` in their place: {}", Value::from(shown(inner))))
}

/// What in a text that is wrong was hardly meant: at which byte, and what to type instead.
pub(crate) fn suspect(text: &str) -> Option<(usize, String)> {
    let trimmed = text.trim_end_matches(is_odd_blank).len();
    match (text.chars().next()?, text[trimmed..].chars().next()) {
        (first, _) if is_odd_blank(first) => Some((0, odd_blank(first))),
        (_, Some(last)) => Some((trimmed, odd_blank(last))),
        (_, None) => typographic(text).map(|message| (0, message)),
    }
}
