//! What git and the remote say, made fit to be shown: one line, nothing that a terminal would obey, not endless.

/// So many characters of what was said are shown.
const SENTENCE_CHARS_MAX: usize = 400;

/// The lines that tell something, in one.
pub(crate) fn sentence(said: &str) -> String {
    let lines = said.split(['\n', '\r']).map(str::trim_end);
    let lines = lines.map(|line| line.strip_prefix("remote: ").unwrap_or(line).trim());
    let told: Vec<String> = lines.filter(|line| !line.is_empty() && !is_noise(line)).map(visible).collect();
    let text = told.join("; ");
    match text.char_indices().nth(SENTENCE_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// What git adds for people at a terminal.
fn is_noise(line: &str) -> bool {
    line == "remote:"
        || ["hint:", "To ", "Please make sure", "and the repository exists"]
            .iter()
            .any(|it| line.starts_with(it))
}

/// Without what is no character to look at.
fn visible(line: &str) -> String {
    line.chars().map(|it| if it.is_control() || is_direction(it) { '\u{fffd}' } else { it }).collect()
}

/// Characters that turn text around (Unicode's bidirectional controls).
const fn is_direction(it: char) -> bool {
    matches!(it, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_becomes_one_line_that_does_nothing() {
        let said = "remote: no \u{1b}[31mwrites\u{202e} today\nremote: \nTo /srv/x\nerror: failed to push\nhint: pull first\n";
        assert_eq!(sentence(said), "no \u{fffd}[31mwrites\u{fffd} today; error: failed to push");
        assert!(sentence(&"x".repeat(10_000)).chars().count() < 500);
    }
}
