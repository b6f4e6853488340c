//! The written form of a token in a policy file.

use std::fmt::Write as _;

use chrono::{DateTime, Utc};

use crate::domain::{Actor, Expiry, Grant, SecretHash, Token, to_the_second};
use crate::format::scalar::{Style, emit_text};

/// A token to add.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewToken {
    /// The name of the actor.
    pub name: String,
    /// The e-mail address of the actor.
    pub email: Option<String>,
    /// The hash of the secret.
    pub secret_hash: SecretHash,
    /// The grants, none of which is empty.
    pub grants: Vec<Grant>,
    /// When the token was created, to the second.
    pub created: Option<DateTime<Utc>>,
    /// When the token expires.
    pub expires: Option<Expiry>,
}

impl NewToken {
    /// The token as it will be read from the file.
    pub(crate) fn granted(&self) -> Token {
        Token {
            actor: actor(&self.name, self.email.as_deref()),
            secret_hash: self.secret_hash,
            grants: self.grants.iter().cloned().collect(),
            created: self.created,
            expires: self.expires,
        }
    }

    /// The members and their values, each as one line of YAML. The expiry is before the grants.
    fn members(&self) -> Vec<(&'static str, String)> {
        let text = |text| emit_text(text, Style::Plain, true);
        let mut members = vec![("name", text(&self.name))];
        members.extend(self.email.as_deref().map(|email| ("email", text(email))));
        members.push(("hash", self.secret_hash.to_string()));
        members.extend(self.created.map(|time| ("created", to_the_second(time))));
        members.extend(self.expires.map(|expiry| ("expires", expiry.to_string())));
        members.extend(
            self.grants.first().into_iter().flat_map(|own| [("may", rights(own)), ("keys", keys(own))]),
        );
        members
    }

    /// The token as an item of a list below `tokens:`.
    pub(crate) fn item(&self, indent: &str) -> String {
        let mut text = String::new();
        let mut mark = "- ";
        for (name, value) in self.members() {
            line(&mut text, &format!("{indent}{mark}{name}: {value}"));
            mark = "  ";
        }
        let further = self.grants.get(1..).unwrap_or_default();
        if !further.is_empty() {
            line(&mut text, &format!("{indent}  grants:"));
        }
        for grant in further {
            line(&mut text, &format!("{indent}    - {}", in_braces(grant)));
        }
        text
    }

    /// The token in braces, as an item of a list in brackets.
    pub(crate) fn flow_item(&self) -> String {
        let mut members = self.members();
        if let Some(further) = self.grants.get(1..).filter(|further| !further.is_empty()) {
            let further: Vec<_> = further.iter().map(in_braces).collect();
            members.push(("grants", format!("[{}]", further.join(", "))));
        }
        let members: Vec<_> = members.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        format!("{{{}}}", members.join(", "))
    }
}

/// The actor of a token; the default for its e-mail address is one at `localhost`.
pub(crate) fn actor(name: &str, email: Option<&str>) -> Actor {
    let local = || name.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect::<String>();
    match email {
        Some(email) => Actor::new(name, email),
        None => Actor::new(name, &format!("{}@localhost", local())),
    }
}

fn line(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("a string takes everything");
}

fn in_braces(grant: &Grant) -> String {
    format!("{{may: {}, keys: {}}}", rights(grant), keys(grant))
}

fn rights(grant: &Grant) -> String {
    let rights: Vec<_> = grant.rights.iter().map(|right| right.as_str()).collect();
    format!("[{}]", rights.join(", "))
}

fn keys(grant: &Grant) -> String {
    let keys: Vec<_> = grant.keys.iter().map(|pattern| format!("\"{pattern}\"")).collect();
    format!("[{}]", keys.join(", "))
}
