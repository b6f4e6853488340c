//! Shows texts of others safely, and makes invisible characters visible.

use std::fmt::{self, Write};

use askama::filters::Escaper;

/// Escapes for HTML text and attributes, and spells out control characters and those that reorder or hide the text
/// around them: `⟨U+202E⟩`. The values of form fields are only escaped (`|escape("xml")`), because they would
/// otherwise be sent back changed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Visible;

impl Escaper for Visible {
    fn write_escaped_str<W: Write>(&self, mut dest: W, text: &str) -> fmt::Result {
        let mut plain = 0;
        for (at, c) in text.char_indices() {
            let entity = match c {
                '<' => Some("&lt;"),
                '>' => Some("&gt;"),
                '&' => Some("&amp;"),
                '"' => Some("&quot;"),
                '\'' => Some("&#39;"),
                _ => None,
            };
            if entity.is_none() && !is_invisible(c) {
                continue;
            }
            dest.write_str(&text[plain..at])?;
            match entity {
                Some(entity) => dest.write_str(entity)?,
                None => write!(dest, "⟨U+{:04X}⟩", u32::from(c))?,
            }
            plain = at + c.len_utf8();
        }
        dest.write_str(&text[plain..])
    }
}

/// Reports control characters except tab and line feed, characters that reorder text (UAX #9), and those without
/// width.
pub(crate) fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{0}'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{ad}' | '\u{61c}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_shown_is_markup_or_hidden() {
        let shown = |text: &str| {
            let mut out = String::new();
            Visible.write_escaped_str(&mut out, text).unwrap();
            out
        };
        assert_eq!(shown("<b>&\"'"), "&lt;b&gt;&amp;&quot;&#39;");
        assert_eq!(shown("a\u{202e}b\u{7}c\u{feff}"), "a⟨U+202E⟩b⟨U+0007⟩c⟨U+FEFF⟩");
        assert_eq!(shown("plain\n\täß"), "plain\n\täß");
    }
}
