//! The allowed signers file, as `ssh-keygen` reads it (ALLOWED SIGNERS in ssh-keygen(1)).
//!
//! ```text
//! # principals             options                                        key
//! collectory@localhost     namespaces="git"                               ssh-ed25519 AAAA…
//! *@example.org,!x@*       valid-after="20260101Z",valid-before="2027..." ssh-rsa AAAA…
//! ```
//!
//! An invalid line, or one of a certificate authority, allows nobody: like `ssh-keygen`, we skip and report it.

use std::fmt;

use chrono::{Local, NaiveDate, NaiveDateTime, TimeZone as _};
use ssh_key::public::KeyData;

use crate::store::signature::{NAMESPACE, NotAllowed, Signer, entries, public_key};

/// The signers to trust.
#[derive(Debug, Clone, Default)]
pub struct AllowedSigners {
    lines: Vec<Line>,
}

/// A skipped line, which allows nobody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedLine {
    /// Its number, from 1.
    pub line: usize,
    /// The reason.
    pub why: String,
}

impl fmt::Display for SkippedLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} is left out: {}", self.line, self.why)
    }
}

#[derive(Debug, Clone)]
struct Line {
    principals: String,
    key: KeyData,
    options: Options,
}

#[derive(Debug, Clone, Default)]
struct Options {
    namespaces: Option<String>,
    // Seconds since 1970, inclusive.
    after: Option<i64>,
    before: Option<i64>,
}

impl AllowedSigners {
    /// Parses the file; also returns the lines that were skipped.
    #[must_use]
    pub fn parse(file: &[u8]) -> (Self, Vec<SkippedLine>) {
        let mut allowed = Self::default();
        let mut left_out = Vec::new();
        for (number, line) in entries(&String::from_utf8_lossy(file)) {
            match Line::parse(line) {
                Ok(line) => allowed.lines.push(line),
                Err(why) => left_out.push(SkippedLine { line: number, why }),
            }
        }
        (allowed, left_out)
    }

    /// Returns the owner of the key, for a signature of `committer` at a time.
    pub(super) fn find(&self, key: &KeyData, at: i64, committer: &str) -> Result<Signer, NotAllowed> {
        let mut found = None;
        let mut why = NotAllowed::Unlisted;
        for line in self.lines.iter().filter(|line| line.key == *key) {
            if let Err(objection) = line.options.permit(at) {
                why = objection;
                continue;
            }
            let is_committer = matches_list(&line.principals, committer);
            let signer = Signer { principals: line.principals.clone(), is_committer };
            if is_committer {
                return Ok(signer);
            }
            found = found.or(Some(signer));
        }
        found.ok_or(why)
    }
}

impl Line {
    fn parse(line: &str) -> Result<Self, String> {
        let (principals, rest) = principals(line).ok_or("there is nothing behind the principals")?;
        if let Some(key) = public_key(rest) {
            return Ok(Self { principals, key, options: Options::default() });
        }
        let (options, rest) = rest.split_at(options_len(rest));
        let options = Options::parse(options)?;
        let key = public_key(rest).ok_or("there is no public key that is understood")?;
        Ok(Self { principals, key, options })
    }
}

/// Splits off the principals, which may be quoted.
fn principals(line: &str) -> Option<(String, &str)> {
    let (principals, rest) = match line.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"')?,
        None => line.split_once([' ', '\t'])?,
    };
    Some((principals.to_owned(), rest.trim_start()))
}

/// Returns the length of the options, which end at the first blank outside of quotes.
fn options_len(text: &str) -> usize {
    let mut is_quoted = false;
    let mut is_escaped = false;
    let end = text.find(|c: char| {
        let ends = matches!(c, ' ' | '\t') && !is_quoted;
        is_quoted ^= c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        ends
    });
    end.unwrap_or(text.len())
}

impl Options {
    fn parse(mut text: &str) -> Result<Self, String> {
        let mut options = Self::default();
        while !text.is_empty() {
            let end = text.find(['=', ',']).unwrap_or(text.len());
            let name = text[..end].to_ascii_lowercase();
            text = &text[end..];
            let mut value = || {
                let (value, rest) = quoted(text).ok_or_else(|| format!("`{name}` has no value in quotes"))?;
                text = rest;
                Ok::<_, String>(value)
            };
            match name.as_str() {
                "namespaces" => once(&mut options.namespaces, &name, value()?)?,
                "valid-after" => once(&mut options.after, &name, time(&value()?)?)?,
                "valid-before" => once(&mut options.before, &name, time(&value()?)?)?,
                "cert-authority" => return Err("certificate authorities are not supported".to_owned()),
                _ => return Err(format!("`{name}` is neither an option nor a key")),
            }
            text = match text.strip_prefix(',') {
                Some("") => return Err("the options end with a comma".to_owned()),
                Some(rest) => rest,
                None if text.is_empty() => text,
                None => return Err(format!("there is something after the value of `{name}`")),
            };
        }
        match (options.after, options.before) {
            (Some(after), Some(before)) if before <= after => {
                Err("`valid-before` is not later than `valid-after`".to_owned())
            }
            _ => Ok(options),
        }
    }

    /// Returns whether the key may sign a commit at this time.
    fn permit(&self, at: i64) -> Result<(), NotAllowed> {
        if self.namespaces.as_ref().is_some_and(|namespaces| !matches_list(namespaces, NAMESPACE)) {
            return Err(NotAllowed::OtherPurpose);
        }
        let is_in_time =
            self.after.is_none_or(|after| at >= after) && self.before.is_none_or(|before| at <= before);
        if is_in_time { Ok(()) } else { Err(NotAllowed::OutOfTime) }
    }
}

fn once<T>(slot: &mut Option<T>, name: &str, value: T) -> Result<(), String> {
    match slot.replace(value) {
        Some(_) => Err(format!("`{name}` appears twice")),
        None => Ok(()),
    }
}

/// Splits off `="VALUE"`; `\"` is a quote inside the value.
fn quoted(text: &str) -> Option<(String, &str)> {
    let text = text.strip_prefix("=\"")?;
    let mut end = 0;
    loop {
        end += text[end..].find('"')?;
        if !text[..end].ends_with('\\') {
            return Some((text[..end].replace("\\\"", "\""), &text[end + 1..]));
        }
        end += 1;
    }
}

/// Parses `YYYYMMDD`, `YYYYMMDDHHMM` or `YYYYMMDDHHMMSS`, in local time unless a `Z` follows (`parse_absolute_time` in
/// OpenSSH's `misc.c`).
fn time(text: &str) -> Result<i64, String> {
    let digits = text.strip_suffix(['Z', 'z']).or_else(|| text.strip_suffix("UTC"));
    let is_utc = digits.is_some();
    let digits = digits.unwrap_or(text);
    let full = match digits.len() {
        _ if !digits.bytes().all(|byte| byte.is_ascii_digit()) => None,
        8 => NaiveDate::parse_from_str(digits, "%Y%m%d").ok().and_then(|day| day.and_hms_opt(0, 0, 0)),
        12 => NaiveDateTime::parse_from_str(&format!("{digits}00"), "%Y%m%d%H%M%S").ok(),
        14 => NaiveDateTime::parse_from_str(digits, "%Y%m%d%H%M%S").ok(),
        _ => None,
    };
    let seconds = full.and_then(|full| match is_utc {
        true => Some(full.and_utc().timestamp()),
        false => Local.from_local_datetime(&full).earliest().map(|time| time.timestamp()),
    });
    seconds.ok_or_else(|| format!("`{text}` is no time; write it as 20260131Z or 20260131093000Z"))
}

/// Returns whether a comma-separated list of patterns, in which `!` negates, matches this text (`match_pattern_list`
/// in OpenSSH's `match.c`).
fn matches_list(patterns: &str, text: &str) -> bool {
    let mut matches = false;
    for pattern in patterns.split(',') {
        match pattern.strip_prefix('!') {
            Some(pattern) if is_like(pattern.as_bytes(), text.as_bytes()) => return false,
            Some(_) => {}
            None => matches |= is_like(pattern.as_bytes(), text.as_bytes()),
        }
    }
    matches
}

/// Matches with `*` for any run of characters and `?` for one.
fn is_like(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    // The position of the last star, and where in the text its match ends so far.
    let mut star: Option<(usize, usize)> = None;
    while from < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(byte) if *byte == b'?' || *byte == text[from] => {
                at += 1;
                from += 1;
            }
            Some(_) | None => {
                let Some((star_at, taken)) = &mut star else { return false };
                *taken += 1;
                (at, from) = (*star_at + 1, *taken);
            }
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop";

    fn parsed(line: &str) -> Result<Line, String> {
        let (mut allowed, mut left_out) = AllowedSigners::parse(line.as_bytes());
        match left_out.pop() {
            Some(left_out) => Err(left_out.why),
            None => Ok(allowed.lines.pop().expect("a line is one or the other")),
        }
    }

    #[test]
    fn a_line_has_principals_options_and_a_key() {
        assert_eq!(parsed(&format!("a@b,c@d {KEY} a comment")).unwrap().principals, "a@b,c@d");
        assert_eq!(parsed(&format!("\"the service\"\t {KEY}")).unwrap().principals, "the service");
        let line = parsed(&format!("  a Namespaces=\"git,x \\\"y\\\" z\",valid-after=\"19700102Z\" {KEY}"));
        let options = line.unwrap().options;
        assert_eq!(options.namespaces.as_deref(), Some("git,x \"y\" z"));
        assert_eq!((options.after, options.before), (Some(86_400), None));
        let (allowed, left_out) = AllowedSigners::parse(format!("# a\r\n\r\na {KEY}\r\n").as_bytes());
        assert_eq!((allowed.lines.len(), left_out), (1, Vec::new()));
    }

    #[test]
    fn a_line_that_is_none_allows_nobody_and_is_told() {
        for (line, why) in [
            ("a@b".to_owned(), "nothing behind the principals"),
            (format!("a {}", &KEY[..40]), "neither an option nor a key"),
            (format!("a cert-authority {KEY}"), "certificate authorities are not supported"),
            (format!("a no-touch-required {KEY}"), "neither an option nor a key"),
            (format!("a namespaces=git {KEY}"), "no value in quotes"),
            (format!("a namespaces=\"git {KEY}"), "no value in quotes"),
            (format!("a namespaces=\"git\"x {KEY}"), "something after the value"),
            (format!("a namespaces=\"git\", {KEY}"), "end with a comma"),
            (format!("a namespaces=\"a\",namespaces=\"b\" {KEY}"), "appears twice"),
            (format!("a valid-after=\"2026\" {KEY}"), "is no time"),
            (format!("a valid-after=\"20261301Z\" {KEY}"), "is no time"),
            (format!("a valid-after=\"20260102Z\",valid-before=\"20260101Z\" {KEY}"), "not later"),
            ("a namespaces=\"git\" ssh-ed25519 AAAA".to_owned(), "no public key"),
        ] {
            let found = parsed(&line).expect_err(&line);
            assert!(found.contains(why), "{line}: {found}");
        }
        let (_, left_out) = AllowedSigners::parse(format!("# a\n\nnonsense\na {KEY}\n").as_bytes());
        assert_eq!(left_out[0].to_string(), "line 3 is left out: there is nothing behind the principals");
    }

    #[test]
    fn times_are_days_minutes_or_seconds() {
        for (text, seconds) in [
            ("19700102Z", 86_400),
            ("197001010001z", 60),
            ("19700101000001UTC", 1),
            ("20260228235959Z", 1_772_323_199),
        ] {
            assert_eq!(time(text), Ok(seconds), "{text}");
        }
        for text in ["", "Z", "1970010Z", "19700102 Z", "197001012400Z", "+1970102Z", "19700102ZZ"] {
            assert!(time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn patterns_are_those_of_ssh() {
        for (patterns, text, expected) in [
            ("git", "git", true),
            ("git", "gitx", false),
            ("*", "", true),
            ("", "", true),
            ("?", "", false),
            ("g?t", "git", true),
            ("*@example.org", "mara@example.org", true),
            ("*@example.org", "mara@example.org.evil", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("*@example.org,!mara@*", "mara@example.org", false),
            ("!mara@*,*@example.org", "ben@example.org", true),
            ("!mara@*", "ben@example.org", false),
            ("Git", "git", false),
        ] {
            assert_eq!(matches_list(patterns, text), expected, "{patterns:?} {text:?}");
        }
    }
}
