//! Messages of git and the remote, made fit to be shown: one line, of limited length, without control characters.

use crate::store::remote::error::RemoteError;

/// The maximum number of characters shown.
const SENTENCE_CHARS_MAX: usize = 400;

/// Joins the lines with content into one.
pub(crate) fn sentence(said: &str) -> String {
    let lines = said.split(['\n', '\r']).map(str::trim_end).filter(|line| !is_noise(line));
    let lines = lines.map(|line| line.strip_prefix("remote: ").unwrap_or(line));
    let lines = lines.map(|line| without_frame(line).trim());
    let parts: Vec<String> = lines.filter(|line| !line.is_empty()).map(visible).collect();
    let text = parts.join("; ");
    match text.char_indices().nth(SENTENCE_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// Removes the part before the `@` of each URL in a text: a user, which may be a token, and a password.
pub(crate) fn without_userinfo(said: &str) -> String {
    let mut shown = String::with_capacity(said.len());
    let mut rest = said;
    while let Some((before, after)) = rest.split_once("://") {
        let ends = |it: char| it.is_whitespace() || it.is_control() || "/?#'\"`<>".contains(it);
        let (authority, behind) = after.split_at(after.find(ends).unwrap_or(after.len()));
        let (blot, host) = authority.rsplit_once('@').map_or(("", authority), |(_, host)| ("***@", host));
        shown.extend([before, "://", blot, host]);
        rest = behind;
    }
    shown + rest
}

/// Parts of messages of git and ssh, each with advice for the operator.
const ADVICE: [(&str, &str); 9] = [
    (
        "REMOTE HOST IDENTIFICATION HAS CHANGED",
        "somebody may be in between; if its operator says that the host has another key now, put that into the file of \
         --remote-known-hosts in place of the old one",
    ),
    (
        "Host key verification failed",
        "put the key of the host (`ssh-keyscan`, compared with what its operator says) into the file of --remote-known-hosts",
    ),
    ("Permission denied (publickey", "name a key that the remote knows with --remote-key"),
    (
        "Authentication failed",
        "the token is not taken; the file of --remote-token-file is read again for each use",
    ),
    ("unable to read askpass response", "the file of --remote-token-file is read again for each use"),
    ("could not read Username", "name a file with a token with --remote-token-file"),
    ("could not read Password", "name a file with a token with --remote-token-file"),
    (
        "dubious ownership",
        "the folder belongs to somebody else: `git config --global --add safe.directory FOLDER` for the user of this service",
    ),
    ("does not appear to be a git repository", "look at the URL, or make one there with `git init --bare`"),
];

/// Returns git's message as one line, with advice where there is some.
pub(crate) fn advised(said: &str) -> String {
    match ADVICE.iter().find(|(part, _)| said.contains(part)) {
        Some((_, advice)) => format!("{} ({advice})", sentence(said)),
        None => sentence(said),
    }
}

/// Returns what git's check of objects rejects, with the setting that accepts it; `None` for any other failure.
pub(crate) fn unsound(said: &str) -> Option<RemoteError> {
    let checked = |line: &str| Some(line.split_once("error: object ")?.1.split_once(": ")?.1.to_owned());
    let fault = said.lines().find_map(checked)?;
    let id: String = fault.chars().take_while(char::is_ascii_alphanumeric).collect();
    let advice = format!(
        "to take it all the same: `git config --global fetch.fsck.{id} warn` for the user of this service"
    );
    Some(RemoteError::Unsound(format!("{} ({advice})", sentence(said))))
}

/// Removes the frame of `@` that ssh puts around warnings.
fn without_frame(line: &str) -> &str {
    if line.starts_with('@') && line.ends_with('@') { line.trim_matches('@') } else { line }
}

/// Returns whether a line is a hint of the git here for people at a terminal; what the remote says has a prefix.
fn is_noise(line: &str) -> bool {
    line == "remote:"
        || ["hint:", "To ", "Please make sure", "and the repository exists"]
            .iter()
            .any(|it| line.starts_with(it))
}

/// Replaces control characters and those that change the direction of text.
pub(crate) fn visible(line: &str) -> String {
    line.chars().map(|it| if it.is_control() || is_direction(it) { '\u{fffd}' } else { it }).collect()
}

/// Returns whether a character changes the direction of text (Unicode's bidirectional controls).
const fn is_direction(it: char) -> bool {
    matches!(it, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_check_of_objects_refuses_is_told_with_its_setting() {
        let said = "error: object 6e1f: badEmail: invalid author/committer line - bad email\nfatal: fsck error in packed object\n";
        let error = unsound(said).unwrap().to_string();
        assert!(
            error.starts_with("the remote has what git refuses: error: object 6e1f: badEmail"),
            "{error}"
        );
        assert!(error.contains("`git config --global fetch.fsck.badEmail warn`"), "{error}");
        assert_eq!(unsound("error: could not lock config file"), None);
    }

    #[test]
    fn no_url_shows_who_asks() {
        for (said, shown) in [
            (
                "fatal: 'https://a:b@host/x' and http://token@h",
                "fatal: 'https://***@host/x' and http://***@h",
            ),
            ("https://host/a@b ssh://git@host:22/x", "https://host/a@b ssh://***@host:22/x"),
            ("git@host:a ://@ https://a@b@c?d", "git@host:a ://***@ https://***@c?d"),
        ] {
            assert_eq!(without_userinfo(said), shown);
        }
    }

    #[test]
    fn advice_is_given_for_what_stands_behind_much_else() {
        let frame = "@".repeat(59);
        let warning =
            format!("{frame}\n@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n{frame}\n");
        let shown = advised(&warning);
        assert!(shown.starts_with("WARNING: REMOTE HOST") && !shown.contains('@'), "{shown}");
        assert!(shown.contains("in place of the old one"), "{shown}");
        let late = advised(&format!("{}\nHost key verification failed.\n", "x".repeat(10_000)));
        assert!(late.contains("ssh-keyscan"), "{late}");
    }

    #[test]
    fn what_is_said_becomes_one_line_that_does_nothing() {
        let said = "remote: no \u{1b}[31mwrites\u{202e} today\nremote: \nTo /srv/x\nerror: failed to push\nhint: pull first\n";
        assert_eq!(sentence(said), "no \u{fffd}[31mwrites\u{fffd} today; error: failed to push");
        let asked = "remote: To push here, ask Mara.\nTo /srv/x\n ! [remote rejected] main -> main";
        assert_eq!(sentence(asked), "To push here, ask Mara.; ! [remote rejected] main -> main");
        let unknown = advised("Host key verification failed.");
        assert!(unknown.contains("--remote-known-hosts"), "{unknown}");
        assert_eq!(advised("no"), "no");
        assert!(sentence(&"x".repeat(10_000)).chars().count() < 500);
    }
}
