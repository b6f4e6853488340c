//! `collectory token`: manages the bearer tokens of a policy file.

mod file;
mod new;

use std::path::PathBuf;

use anyhow::{Context as _, anyhow};

use crate::cli::token::file::PolicyFile;
use crate::cli::token::new::NewTokenArgs;
use crate::cli::{Done, Failure, answer, counted, note, plain, print_lines};
use crate::domain::{Grant, Token as Known};
use crate::format::policy;

/// Add a bearer token to a policy file, list them, or take some back
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, subcommand_negates_reqs = true, long_about = "\
Add a bearer token to a policy file and print its secret, once, as the only line on standard output. The \
file keeps only a hash of it.

The file is made when it is absent, readable by you alone; what is in it stays as it is, comments and all. \
A running service takes the change over by itself. A name may have several tokens, so that one can be \
replaced without a gap: add another, use it everywhere, revoke the old one.")]
pub(crate) struct Token {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    new: NewTokenArgs,

    /// The policy file.
    #[arg(long, env = "COLLECTORY_POLICY", value_name = "FILE", global = true)]
    policy: Option<PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the tokens: name, creation date, first eight digits of the hash, expiry, rights
    List,
    /// Revoke all tokens of a name, or one of them
    Revoke {
        /// The name.
        name: String,

        /// Only the token whose hash begins with these digits, as `list` shows them.
        #[arg(long, env = "COLLECTORY_HASH", value_name = "PREFIX")]
        hash: Option<String>,
    },
}

const EXAMPLES: &str = "\
Examples:
  collectory token Mara --policy policy.yaml --email mara@example.org
  collectory token build-bot --policy policy.yaml --may read --expires 90d
  collectory token Vera --policy policy.yaml --may read,audit --grant 'write:blog-*'
  collectory token Ann --policy policy.yaml --keys 'blog-*' --keys pages
  collectory token list --policy policy.yaml
  collectory token revoke build-bot --hash 9f86d081 --policy policy.yaml
  curl -H \"Authorization: Bearer $TOKEN\" http://127.0.0.1:8080/collections";

/// How many digits of a hash are shown to distinguish tokens.
const HASH_DIGITS: usize = 8;

impl Token {
    pub(crate) fn run(self) -> Result<Done, Failure> {
        let missing = || Failure::Usage("say which policy file: --policy FILE (or COLLECTORY_POLICY)".into());
        let path = self.policy.ok_or_else(missing)?;
        let file = PolicyFile::find(&path)?;
        match (self.command, self.new.is_named()) {
            (None, _) => add(&file, self.new),
            (Some(Command::List), false) => list(&file),
            (Some(Command::Revoke { name, hash }), false) => revoke(&file, &name, hash.as_deref()),
            (Some(_), true) => Err(Failure::Usage("`list` and `revoke` are no names of tokens".into())),
        }
    }
}

fn add(file: &PolicyFile, new: NewTokenArgs) -> Result<Done, Failure> {
    let secret = new::secret()?;
    let token = new.token(&secret)?;
    file.edit(|old| policy::add(old, &token).with_context(|| format!("cannot add to {file}")))?;
    answer(&secret)
        .context("the token was added but its secret could not be printed; revoke it and make another")?;
    note(&format!("added {} to {file}", token.name));
    Ok(Done::Well)
}

fn list(file: &PolicyFile) -> Result<Done, Failure> {
    let text = file.read()?.ok_or_else(|| anyhow!("there is no {file}"))?;
    let tokens = policy::read(text.as_bytes()).map_err(|fault| anyhow!("{file}:{fault}"))?;
    let lines: Vec<String> = tokens.iter().map(|token| plain(&shown(token))).collect();
    print_lines(&lines).context("cannot write the list")?;
    Ok(Done::Well)
}

/// Formats a token as one line: name and address, first digits of the hash, creation date, expiry, rights.
fn shown(token: &Known) -> String {
    let (name, email) = (token.actor.name(), token.actor.email());
    let made = token.created.map_or("unknown".to_owned(), |time| time.format("%Y-%m-%d").to_string());
    let expires = token.expires.map_or("never".to_owned(), |expiry| expiry.to_string());
    let digits = &token.secret_hash.digits()[..HASH_DIGITS];
    let grants: Vec<_> = token.grants.iter().map(granted).collect();
    let grants = if grants.is_empty() { "nothing".to_owned() } else { grants.join("; ") };
    format!("{name} <{email}>  {digits}  made {made}  expires {expires}  {grants}")
}

fn granted(grant: &Grant) -> String {
    let rights: Vec<_> = grant.rights.iter().map(|right| right.as_str()).collect();
    let keys: Vec<_> = grant.keys.iter().map(|pattern| pattern.as_str()).collect();
    let keys = if keys.is_empty() { "no keys".to_owned() } else { keys.join(",") };
    format!("{}:{keys}", rights.join(","))
}

fn revoke(file: &PolicyFile, name: &str, hash: Option<&str>) -> Result<Done, Failure> {
    let prefix = hash.unwrap_or_default().to_ascii_lowercase();
    if hash.is_some_and(|hash| hash.is_empty() || !hash.bytes().all(|byte| byte.is_ascii_hexdigit())) {
        return Err(Failure::Usage(
            "--hash takes the first digits of a hash, as `token list` shows them".into(),
        ));
    }
    let is_meant =
        |token: &Known| token.actor.name() == name && token.secret_hash.digits().starts_with(&prefix);
    let mut count = 0;
    file.edit(|old| {
        let old = old.ok_or_else(|| anyhow!("there is no {file}"))?;
        let (new, gone) = policy::revoke(old, is_meant).with_context(|| format!("cannot edit {file}"))?;
        count = gone.len();
        Ok(new)
    })?;
    if count == 0 {
        let which =
            if prefix.is_empty() { String::new() } else { format!(" with a hash that begins {prefix}") };
        return Err(anyhow!("{name:?} has no token{which} in {file}").into());
    }
    note(&format!("revoked {} of {name} in {file}", counted(count, "token")));
    Ok(Done::Well)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_of_nobody_is_wrong_usage() {
        use clap::Parser as _;
        let parsed = crate::cli::Cli::try_parse_from(["collectory", "token", "", "--policy", "policy.yaml"]);
        assert_eq!(parsed.map(drop).unwrap_err().exit_code(), 2);
    }

    #[test]
    fn a_token_is_listed_in_one_line_without_its_hash() {
        let text = "tokens:\n- {name: Mara, hash: sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08, created: 2026-11-22T09:30:00Z, expires: 2027-03-01, may: [read, audit], keys: ['*'], grants: [{may: [write], keys: [a, 'b-*']}]}\n";
        let tokens = policy::read(text.as_bytes()).unwrap();
        assert_eq!(
            shown(&tokens[0]),
            "Mara <Mara@localhost>  9f86d081  made 2026-11-22  expires 2027-03-01  read,audit:*; write:a,b-*"
        );
    }
}
