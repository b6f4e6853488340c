//! Adding a token to a policy file, and removing tokens.

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
    /// The name or the e-mail address can't be that of a git author.
    #[error("{0}")]
    Author(String),
    /// The list of tokens is written in a form to which no token can be added.
    #[error(
        "the list of tokens can't be added to as it is written; write it as `tokens:` and below it one `  - name: ...` a token, and try again"
    )]
    Shape,
    /// A token is written in a form in which its beginning and end can't be found.
    #[error("the entry of {0:?} can't be taken out as it is written; delete it by hand")]
    Entry(String),
}

/// Returns the text of a policy file with one more token. Every byte of `old` is kept, except the
/// brackets of an empty list; `None` makes a new file.
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
        return Ok(format!("{old}{}tokens:\n{}", shape::missing_line_end(old), token.item("  ")));
    }
    let before = read(old.as_bytes()).map_err(EditError::Broken)?;
    let token = &one_of(&before, token);
    // Each candidate is verified by reading it.
    let expected: Vec<Token> = before.into_iter().chain([token.granted()]).collect();
    let is_right = |text: &String| read(text.as_bytes()).as_ref() == Ok(&expected);
    // A running service accepts the file only if its last line has a line end.
    let whole = |text: String| format!("{text}{}", shape::missing_line_end(&text));
    shape::with(old, token).map(whole).find(is_right).ok_or(EditError::Shape)
}

/// Another token with the same name is for the same person, so it gets the same address by default.
fn one_of(tokens: &[Token], new: &NewToken) -> NewToken {
    let same = tokens.iter().rev().find(|token| token.actor.name() == new.name);
    let email =
        same.map(|token| token.actor.email()).filter(|email| *email != actor(&new.name, None).email());
    NewToken { email: new.email.clone().or(email.map(str::to_owned)), ..new.clone() }
}

/// Returns the text of a policy file without some of its tokens, and the removed tokens. Every byte
/// of the others is kept.
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
