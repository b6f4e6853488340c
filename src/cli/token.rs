//! `collectory token`: one more bearer token in a policy file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use sha2::{Digest as _, Sha256};

use super::{Done, Failure, answer, note};
use crate::domain::{KeyPattern, Permission};
use crate::format::policy::{self, NewToken};

/// Add a bearer token to a policy file
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, long_about = "\
Add a bearer token to a policy file and print its secret, once, as the only line on standard output. The \
file keeps only a hash of it.

The file is made when it is absent, readable by you alone; what is in it stays as it is, comments and all. \
A running service takes the change over by itself. To take a token back, delete its entry.")]
pub(super) struct Token {
    /// Who the token is for: the author of the commits that are made with it.
    name: String,

    /// The policy file.
    #[arg(long, env = "COLLECTORY_POLICY", value_name = "FILE")]
    policy: PathBuf,

    /// The e-mail address of the author; NAME@localhost without it.
    #[arg(long, env = "COLLECTORY_EMAIL", value_name = "EMAIL")]
    email: Option<String>,

    /// What the token allows: read (lists, collections, problems, the OpenAPI documents), write
    /// (create, update, delete, undo, restore), audit (the history: events, past states,
    /// differences, blame, the stream, changes).
    #[arg(long, env = "COLLECTORY_MAY", value_name = "PERMISSIONS", value_delimiter = ',',
          default_value = "read,write", value_parser = permission)]
    may: Vec<Permission>,

    /// The keys of the collections that the token is for, with `*` for any run of characters;
    /// may be given several times. Every key without it.
    #[arg(long, env = "COLLECTORY_KEYS", value_name = "PATTERN", value_parser = KeyPattern::parse)]
    keys: Vec<KeyPattern>,
}

const EXAMPLES: &str = "\
Examples:
  collectory token Mara --policy policy.yaml --email mara@example.org
  collectory token build-bot --policy policy.yaml --may read
  collectory token Vera --policy policy.yaml --may read,audit
  collectory token Ann --policy policy.yaml --keys 'blog-*' --keys pages
  curl -H \"Authorization: Bearer $TOKEN\" http://127.0.0.1:8080/collections";

/// How much chance is in a secret.
const SECRET_BYTES: usize = 32;

fn permission(name: &str) -> Result<Permission, String> {
    Permission::parse(name)
        .ok_or_else(|| format!("there are {}", Permission::ALL.map(Permission::as_str).join(", ")))
}

impl Token {
    pub(super) fn run(self) -> Result<Done, Failure> {
        let secret = secret()?;
        let token = NewToken {
            name: self.name,
            email: self.email,
            secret_hash: Sha256::digest(&secret).into(),
            may: self.may,
            keys: (!self.keys.is_empty()).then_some(self.keys),
        };
        add(&self.policy, &token)?;
        answer(&secret)
            .context("the token was added but its secret could not be printed; delete it and make another")?;
        note(&format!("added {} to {}", token.name, self.policy.display()));
        Ok(Done::Well)
    }
}

/// Chance from the system, printable, with a beginning by which secret scanners can know it.
fn secret() -> anyhow::Result<String> {
    let mut chance = [0; SECRET_BYTES];
    getrandom::fill(&mut chance).map_err(|error| anyhow!("the system gives no random bytes: {error}"))?;
    Ok(chance.iter().fold("collectory_".to_owned(), |text, byte| format!("{text}{byte:02x}")))
}

/// Replaces the file by one with the token, in one step; nothing changes if that fails.
fn add(path: &Path, token: &NewToken) -> anyhow::Result<()> {
    // A link is followed, so that it stays one.
    let path = match fs::canonicalize(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => path.to_owned(),
        found => found.with_context(|| format!("cannot find {}", path.display()))?,
    };
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    let handle = File::open(&folder).with_context(|| format!("cannot open {}", folder.display()))?;
    // Two of us at a time would lose a token; released when the handle is closed.
    handle.lock().with_context(|| format!("cannot lock {}", folder.display()))?;

    let old = match fs::read_to_string(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        read => Some(read.with_context(|| format!("cannot read {}", path.display()))?),
    };
    let new =
        policy::add(old.as_deref(), token).with_context(|| format!("cannot add to {}", path.display()))?;
    replace(&path, &folder, new.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
    // The rename is durable once the folder is.
    handle.sync_all().with_context(|| format!("cannot flush {}", folder.display()))
}

/// Writes beside the file and renames, so a reader sees the old or the new one. Owner and mode
/// stay; a new file is for its owner alone.
fn replace(path: &Path, folder: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = folder.join(format!(".policy-{}.tmp", uuid::Uuid::new_v4().simple()));
    let written = write_like(&temporary, path, bytes).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // Nothing to be done about one that can't be removed either; the first error is the news.
        let _left = fs::remove_file(&temporary);
    }
    written
}

fn write_like(temporary: &Path, model: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(temporary)?;
    match fs::metadata(model) {
        Ok(metadata) => {
            let made = file.metadata()?;
            if (made.uid(), made.gid()) != (metadata.uid(), metadata.gid()) {
                fchown(&file, Some(metadata.uid()), Some(metadata.gid()))?;
            }
            file.set_permissions(fs::Permissions::from_mode(metadata.mode() & 0o7777))?;
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::policy::testing::token;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn secrets_are_long_printable_and_different() {
        let (one, two) = (secret().unwrap(), secret().unwrap());
        assert_eq!(one.len(), "collectory_".len() + 64);
        assert!(one.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'));
        assert_ne!(one, two);
    }

    #[test]
    fn a_new_file_is_for_its_owner_alone_and_an_old_one_keeps_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy.yaml");
        add(&path, &token("Mara")).unwrap();
        assert_eq!(mode(&path), 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        add(&path, &token("Ann")).unwrap();
        assert_eq!(mode(&path), 0o640);
        let names = policy::read(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(names.iter().map(|grant| grant.actor.name()).collect::<Vec<_>>(), ["Mara", "Ann"]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn a_refused_token_leaves_the_file_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy.yaml");
        add(&path, &token("Mara")).unwrap();
        let before = fs::read(&path).unwrap();
        let error = add(&path, &token("Mara")).unwrap_err();
        assert!(format!("{error:#}").contains("there is a token of \"Mara\" already"), "{error:#}");
        assert_eq!(fs::read(&path).unwrap(), before);
    }

    #[test]
    fn a_link_to_the_file_stays_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("policy.yaml"), folder.path().join("link.yaml"));
        add(&path, &token("Mara")).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        add(&link, &token("Ann")).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(policy::read(&fs::read(&path).unwrap()).unwrap().len(), 2);
    }
}
