//! Actors: the persons and programs behind changes.

use std::borrow::Cow;

/// The person or program behind a change, in the form of a git author.
///
/// Git ends a name at `<` and a line at a line break, and can't escape either. So a name or an
/// e-mail address is cleaned when the actor is created: control characters and line separators
/// become blanks, `<` and `>` are removed, and blanks and punctuation at both ends are removed as
/// git does (`strbuf_addstr_without_crud` in `ident.c`). An empty result becomes `anonymous`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Actor {
    name: Cow<'static, str>,
    email: Cow<'static, str>,
}

impl Actor {
    /// Maximum length of a name or an e-mail address, in characters; longer ones are cut.
    pub const TEXT_CHARS_MAX: usize = 256;

    /// Creates an actor, cleaned as described above.
    #[must_use]
    pub fn new(name: &str, email: &str) -> Self {
        let or = |text: String, default| if text.is_empty() { default } else { Cow::Owned(text) };
        let Self { name: no_name, email: no_email } = Self::anonymous();
        Self { name: or(cleaned(name), no_name), email: or(cleaned(email).replace(' ', ""), no_email) }
    }

    /// Checks that git can store a name unchanged, and that it is not the name of
    /// [`anonymous`](Self::anonymous).
    ///
    /// # Errors
    ///
    /// Returns a message that describes a valid name.
    pub fn check_name(name: &str) -> Result<(), String> {
        if Self::new(name, "").name == name && name != Self::anonymous().name {
            return Ok(());
        }
        Err(format!(
            "{name:?} can't be the name of an author in git: a name is not empty, not `anonymous`, has no `<`, `>` or control characters and no blanks or punctuation at its edges"
        ))
    }

    /// Checks that git can store an e-mail address unchanged.
    ///
    /// # Errors
    ///
    /// Returns a message that describes a valid address.
    pub fn check_email(email: &str) -> Result<(), String> {
        if !email.is_empty() && Self::new("", email).email == email {
            return Ok(());
        }
        Err(format!(
            "{email:?} can't be an e-mail address in git: it is not empty, has no blanks, `<`, `>` or control characters and no punctuation at its edges"
        ))
    }

    /// The actor of a change for which no authorizer named one.
    #[must_use]
    pub const fn anonymous() -> Self {
        Self { name: Cow::Borrowed("anonymous"), email: Cow::Borrowed("anonymous@localhost") }
    }

    /// The service itself: the committer of every commit that it makes, unless set by flags.
    #[must_use]
    pub fn service() -> Self {
        Self::new("Collectory", "collectory@localhost")
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The e-mail address.
    #[must_use]
    pub fn email(&self) -> &str {
        &self.email
    }
}

fn cleaned(text: &str) -> String {
    let blank = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    let kept: String = text
        .chars()
        .filter(|c| !matches!(c, '<' | '>'))
        .map(|c| if blank(c) { ' ' } else { c })
        .take(Actor::TEXT_CHARS_MAX)
        .collect();
    kept.trim_matches(|c: char| c.is_whitespace() || matches!(c, '.' | ',' | ':' | ';' | '"' | '\\' | '\''))
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_name_can_forge_a_line_or_an_address() {
        let actor = Actor::new("Mara\nCommitter: <x@y> \u{2028}z", "m<a>ra@example.org\n");
        assert_eq!(actor.name(), "Mara Committer: x@y  z");
        assert_eq!(actor.email(), "mara@example.org");
    }

    #[test]
    fn what_git_would_alter_is_refused_where_somebody_can_mend_it() {
        assert_eq!((Actor::check_name("Mara"), Actor::check_email("mara@example.org")), (Ok(()), Ok(())));
        for name in ["", "<", "a<b", " a", "a.", "anonymous", "a\nb"] {
            assert!(Actor::check_name(name).is_err(), "{name:?}");
        }
        for email in ["", "a<b", "not an email", "a@b,", "a\u{7f}@b"] {
            assert!(Actor::check_email(email).is_err(), "{email:?}");
        }
    }

    #[test]
    fn an_empty_name_is_anonymous() {
        assert_eq!(Actor::new(" <> ", "\n"), Actor::anonymous());
        assert_eq!(Actor::anonymous().name(), "anonymous");
        assert_eq!(Actor::anonymous().email(), "anonymous@localhost");
    }
}
