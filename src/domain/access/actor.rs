//! On whose behalf a change is made.

use std::borrow::Cow;

/// The person or program behind a change, as git writes an author.
///
/// Git ends a name at `<` and a line at a line break, and has no way to escape either, so a name
/// or an e-mail address is cleaned when the actor is made: control characters and line separators
/// become blanks, `<` and `>` are left out, and blanks and punctuation at the edges are dropped
/// as git does (`strbuf_addstr_without_crud` in `ident.c`). What is left empty is `anonymous`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Actor {
    name: Cow<'static, str>,
    email: Cow<'static, str>,
}

impl Actor {
    /// The most characters a name or an e-mail address keeps.
    pub const TEXT_CHARS_MAX: usize = 256;

    /// Makes an actor, cleaned as described above.
    #[must_use]
    pub fn new(name: &str, email: &str) -> Self {
        let or = |text: String, default| if text.is_empty() { default } else { Cow::Owned(text) };
        let Self { name: no_name, email: no_email } = Self::anonymous();
        Self { name: or(cleaned(name), no_name), email: or(cleaned(email).replace(' ', ""), no_email) }
    }

    /// Takes a name that git can hold as it is, and that is not [`anonymous`](Self::anonymous)'s.
    ///
    /// # Errors
    ///
    /// Says what a name may be.
    pub fn check_name(name: &str) -> Result<(), String> {
        if Self::new(name, "").name == name && name != Self::anonymous().name {
            return Ok(());
        }
        Err(format!(
            "{name:?} can't be the name of an author in git: a name is not empty, not `anonymous`, has no `<`, `>` or control characters and no blanks or punctuation at its edges"
        ))
    }

    /// Takes an e-mail address that git can hold as it is.
    ///
    /// # Errors
    ///
    /// Says what an address may be.
    pub fn check_email(email: &str) -> Result<(), String> {
        if !email.is_empty() && Self::new("", email).email == email {
            return Ok(());
        }
        Err(format!(
            "{email:?} can't be an e-mail address in git: it is not empty, has no blanks, `<`, `>` or control characters and no punctuation at its edges"
        ))
    }

    /// Whoever made a change when no authorizer named anybody.
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
