//! New tokens.

use anyhow::anyhow;
use chrono::{DateTime, SubsecRound as _, TimeDelta, Utc};
use clap::builder::{NonEmptyStringValueParser, TypedValueParser as _};
use sha2::{Digest as _, Sha256};

use crate::cli::Failure;
use crate::domain::{Expiry, Grant, KeyPattern, Right, SecretHash};
use crate::format::policy::NewToken;
use crate::http::Clock;

/// The properties of a new token.
#[derive(Debug, clap::Args)]
pub(crate) struct NewTokenArgs {
    /// Who the token is for: the author of the commits that are made with it.
    #[arg(required = true, value_parser = NonEmptyStringValueParser::new().try_map(name))]
    name: Option<String>,

    /// The e-mail address of the author; NAME@localhost by default.
    #[arg(long, env = "COLLECTORY_EMAIL", value_name = "EMAIL")]
    email: Option<String>,

    /// What the token allows: read (lists, collections, their stream, problems, changes, the OpenAPI documents),
    /// write (create, update, delete), audit (the history: events, past states, differences, blame; with write also
    /// undo and restore), operate (the service itself). The default is read,write, unless only --grant is given.
    #[arg(long, env = "COLLECTORY_MAY", value_name = "RIGHTS", value_delimiter = ',', value_parser = right)]
    may: Option<Vec<Right>>,

    /// The keys of the collections that --may applies to, with `*` for any run of characters; may be given several
    /// times. The default is every key.
    #[arg(long, env = "COLLECTORY_KEYS", value_name = "PATTERN", value_parser = KeyPattern::parse)]
    keys: Vec<KeyPattern>,

    /// Further rights, each for its own keys: `write:blog-*`, `read,audit:blog-*,pages`; may be given several times.
    #[arg(long = "grant", env = "COLLECTORY_GRANT", value_name = "RIGHTS:PATTERNS", value_parser = grant)]
    grants: Vec<Grant>,

    /// When the token expires: after a number of days (`90d`), hours (`12h`) or minutes (`30m`), at the end of a day
    /// (UTC), or at a time. By default it does not expire.
    #[arg(long, env = "COLLECTORY_EXPIRES", value_name = "WHEN", value_parser = expiry)]
    expires: Option<Expiry>,
}

/// The number of random bytes in a secret.
const SECRET_BYTES: usize = 32;

/// Refuses the names of the subcommands.
fn name(name: String) -> Result<String, &'static str> {
    if matches!(name.as_str(), "list" | "revoke") {
        Err("`list` and `revoke` are no names of tokens")
    } else {
        Ok(name)
    }
}

fn right(name: &str) -> Result<Right, String> {
    Right::parse(name).ok_or_else(|| format!("there are {}", Right::ALL.map(Right::as_str).join(", ")))
}

fn grant(text: &str) -> Result<Grant, String> {
    let (rights, keys) = text.split_once(':').ok_or("write it as write:blog-*")?;
    Ok(Grant {
        rights: rights.split(',').map(right).collect::<Result<_, _>>()?,
        keys: keys.split(',').map(KeyPattern::parse).collect::<Result<_, _>>()?,
    })
}

fn expiry(text: &str) -> Result<Expiry, String> {
    expiry_from(text, Clock::system().now())
}

fn expiry_from(text: &str, now: DateTime<Utc>) -> Result<Expiry, String> {
    let counted = |unit| text.strip_suffix(unit).and_then(|count| count.parse::<u32>().ok());
    let after = |delta| now.checked_add_signed(delta).ok_or("that is too far away");
    if let Some(days) = counted('d') {
        return Ok(Expiry::Day(after(TimeDelta::days(days.into()))?.date_naive()));
    }
    let spans = [
        counted('h').map(|hours| TimeDelta::hours(hours.into())),
        counted('m').map(|minutes| TimeDelta::minutes(minutes.into())),
    ];
    let expiry = match spans.into_iter().flatten().next() {
        Some(span) => Expiry::Time(after(span)?.trunc_subsecs(0)),
        None => Expiry::parse(text).map_err(|error| format!("{error}, or as 90d, 12h or 30m"))?,
    };
    if expiry.has_passed(now) {
        return Err(format!("{expiry} has passed already; the token would be good for nothing"));
    }
    Ok(expiry)
}

impl NewTokenArgs {
    pub(crate) const fn is_named(&self) -> bool {
        self.name.is_some()
    }

    /// Returns the token as the file stores it.
    pub(crate) fn token(self, secret: &str) -> Result<NewToken, Failure> {
        let grants = self.grants();
        let name = self.name.ok_or_else(|| Failure::Usage("say who the token is for".into()))?;
        Ok(NewToken {
            name,
            email: self.email,
            secret_hash: SecretHash::new(Sha256::digest(secret).into()),
            grants,
            created: Some(Clock::system().now().trunc_subsecs(0)),
            expires: self.expires,
        })
    }

    /// Returns the grant of `--may` and `--keys`, which is also the default, followed by each `--grant`.
    fn grants(&self) -> Vec<Grant> {
        let is_said = self.may.is_some() || !self.keys.is_empty() || self.grants.is_empty();
        let own = is_said.then(|| Grant {
            rights: self.may.clone().unwrap_or_else(|| vec![Right::Read, Right::Write]),
            keys: if self.keys.is_empty() { vec![KeyPattern::every()] } else { self.keys.clone() },
        });
        own.into_iter().chain(self.grants.iter().cloned()).collect()
    }
}

/// Returns random text with a prefix that secret scanners can recognize.
pub(crate) fn secret() -> anyhow::Result<String> {
    let mut chance = [0; SECRET_BYTES];
    getrandom::fill(&mut chance).map_err(|error| anyhow!("the system gives no random bytes: {error}"))?;
    Ok(chance.iter().fold("collectory_".to_owned(), |text, byte| format!("{text}{byte:02x}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_long_printable_and_different() {
        let (one, two) = (secret().unwrap(), secret().unwrap());
        assert_eq!(one.len(), "collectory_".len() + 64);
        assert!(one.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'));
        assert_ne!(one, two);
    }

    #[test]
    fn an_end_is_a_span_a_day_or_a_time() {
        let now = "2026-11-22T12:00:00.5Z".parse().unwrap();
        let written = |text| expiry_from(text, now).map(|expiry| expiry.to_string());
        assert_eq!(written("90d").as_deref(), Ok("2027-02-20"));
        assert_eq!(written("12h").as_deref(), Ok("2026-11-23T00:00:00Z"));
        assert_eq!(written("2027-03-01").as_deref(), Ok("2027-03-01"));
        assert_eq!(written("2027-03-01T13:00:00+01:00").as_deref(), Ok("2027-03-01T12:00:00Z"));
        assert_eq!(written("2026-11-22").as_deref(), Ok("2026-11-22"), "to the end of the day");
        for text in ["2026-11-21", "2026-11-22T12:00:00Z", "0h"] {
            assert!(written(text).unwrap_err().contains("has passed already"), "{text}");
        }
        for text in ["", "90", "d", "-1d", "4294967295d", "soon"] {
            assert!(written(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_grant_names_rights_and_keys() {
        let parsed = grant("read,audit:blog-*,pages").unwrap();
        assert_eq!((parsed.rights, parsed.keys.len()), (vec![Right::Read, Right::Audit], 2));
        for text in ["", "write", "write:", ":blog-*", "wirte:*", "write:a/b"] {
            assert!(grant(text).is_err(), "{text}");
        }
    }
}
