//! Adding a token to a policy file, and taking some out.

use crate::domain::{Actor, Token};
use crate::format::policy::entry::{NewToken, actor};
use crate::format::policy::{Fault, read, shape};

const HEADING: &str = "\
# Who may do what in Collectory. What is not granted here is denied.
# The secret of a token is nowhere; `hash` is its SHA-256. Add one: collectory token NAME --policy FILE
";

/// Why a policy file was not edited.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// The file is broken as it is.
    #[error("{0}")]
    Broken(Fault),
    /// The name or the e-mail address can't be an author's.
    #[error("{0}")]
    Author(String),
    /// The list of tokens is written in a way that can't be added to at its end.
    #[error(
        "the list of tokens can't be added to as it is written; write it as `tokens:` and below it one `  - name: ...` a token, and try again"
    )]
    Shape,
    /// A token is written in a way in which its beginning and end can't be told.
    #[error("the entry of {0:?} can't be taken out as it is written; delete it by hand")]
    Entry(String),
}

/// The text of a policy file with one more token; every byte of `old` is kept, `None` makes a
/// new file.
///
/// # Errors
///
/// Refuses a broken file, a name or address that git would alter, and a file that would not read as
/// the old tokens and the new one.
pub fn add(old: Option<&str>, token: &NewToken) -> Result<String, EditError> {
    Actor::check_name(&token.name).map_err(EditError::Author)?;
    token.email.as_deref().map_or(Ok(()), Actor::check_email).map_err(EditError::Author)?;
    let Some(old) = old else {
        return Ok(format!("{HEADING}tokens:\n{}", token.item("  ")));
    };
    if old.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        let line_end = if old.is_empty() || old.ends_with('\n') { "" } else { "\n" };
        return Ok(format!("{old}{line_end}tokens:\n{}", token.item("  ")));
    }
    let before = read(old.as_bytes()).map_err(EditError::Broken)?;
    let token = &one_of(&before, token);
    // Whatever the file looks like, the proof is in the reading.
    let expected: Vec<Token> = before.into_iter().chain([token.granted()]).collect();
    let is_right = |text: &String| read(text.as_bytes()).as_ref() == Ok(&expected);
    // What follows a running service's eye is whole only with an end to its last line.
    let whole = |text: String| if text.ends_with('\n') { text } else { text + "\n" };
    shape::with(old, token).map(whole).find(is_right).ok_or(EditError::Shape)
}

/// Another token of a name is for the same person, whose address need not be said again.
fn one_of(tokens: &[Token], new: &NewToken) -> NewToken {
    let same = tokens.iter().rev().find(|token| token.actor.name() == new.name);
    let email =
        same.map(|token| token.actor.email()).filter(|email| *email != actor(&new.name, None).email());
    NewToken { email: new.email.clone().or(email.map(str::to_owned)), ..new.clone() }
}

/// The text of a policy file without some of its tokens, and those; every byte of the others is
/// kept.
///
/// # Errors
///
/// Refuses a broken file, and one that would not read as the other tokens.
pub fn revoke(old: &str, is_meant: impl Fn(&Token) -> bool) -> Result<(String, Vec<Token>), EditError> {
    let mut left = read(old.as_bytes()).map_err(EditError::Broken)?;
    let mut text = old.to_owned();
    let mut gone = Vec::new();
    while let Some(at) = left.iter().position(&is_meant) {
        let token = left.remove(at);
        let is_right = |text: &String| read(text.as_bytes()).as_ref() == Ok(&left);
        let found = shape::without(&text, &token.secret_hash).find(is_right);
        text = found.ok_or_else(|| EditError::Entry(token.actor.name().to_owned()))?;
        gone.push(token);
    }
    Ok((text, gone))
}
