//! The two layers that a collection is served from: the committed file, and the saved file on top of it.
//!
//! ```text
//! work tree   posts.yaml (edited)                       uncommitted, wins when valid
//! head        posts.yaml   pages.yml   media.yaml       committed
//!             ─────────────────────────────────
//! served      posts        pages       media
//! ```
//!
//! [`resolve`] decides what is served for one key. It is pure: from the files under the two names that a key can
//! have, it derives what to serve and what is wrong. A [`Claim`] decides between keys that differ in letter case
//! only. The same two rules apply to past revisions.

use std::fmt::Display;
use std::sync::Arc;

use crate::domain::{Collection, Key};
use crate::engine::projection::Entry;
use crate::engine::projection::problem::Serving;
use crate::format::{self, Fault};
use crate::store::{BlobId, Damage, Special, StoreError};

/// One of the two files of a key.
#[derive(Debug, Clone)]
pub(crate) struct KeyFile {
    /// The name inside the collections folder.
    pub(crate) name: String,
    /// The collection that was read from it, or its faults.
    pub(crate) content: Reading,
    /// Whether the file exists, or is the one that counts, in the work tree only.
    pub(crate) uncommitted: bool,
}

/// The result of reading a file as a collection.
pub(crate) type Reading = Result<ParsedVersion, Vec<Fault>>;

/// A version of a collection that could be read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ParsedVersion {
    pub(crate) blob: BlobId,
    pub(crate) collection: Arc<Collection>,
    /// What its file lacks by the rules for requests.
    pub(crate) missing_status_names: Vec<Fault>,
}

impl ParsedVersion {
    /// Reads the content of a file.
    pub(crate) fn read(key: &Key, blob: BlobId, bytes: &[u8]) -> Reading {
        let collection = format::read(key, bytes)?;
        let missing_status_names = format::missing_status_names(&collection, bytes);
        Ok(Self { blob, collection: Arc::new(collection), missing_status_names })
    }

    /// Returns the version that an entry serves; `None` if its file lacks something: those faults are not in the
    /// entry.
    pub(crate) fn of_entry(entry: &Entry) -> Option<Self> {
        let Entry { collection, blob, .. } = entry;
        let good =
            || Self { blob: *blob, collection: Arc::clone(collection), missing_status_names: Vec::new() };
        collection.missing_status_names().is_empty().then(good)
    }
}

/// What to serve for a key, before times and authors are known; nothing by default.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct KeyResolution {
    /// The served version and the name of its file.
    pub(crate) served: Option<(String, ParsedVersion)>,
    /// Whether the served version is not committed.
    pub(crate) uncommitted: bool,
    /// Whether the served version is older than the file.
    pub(crate) stale: bool,
    /// The broken files; the file that counts comes first.
    pub(crate) broken: Vec<BrokenFile>,
}

impl KeyResolution {
    /// Returns what readers get in place of a broken file.
    pub(crate) fn serving(&self, broken: &BrokenFile) -> Serving {
        match &self.served {
            Some((name, _)) if *name == broken.name && !self.stale => Serving::AsWritten,
            Some(_) => Serving::LastGood,
            None => Serving::Nothing,
        }
    }
}

/// A file with faults.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BrokenFile {
    /// The name inside the collections folder.
    pub(crate) name: String,
    /// The faults with their places; at least one.
    pub(crate) faults: Vec<Fault>,
    /// Whether the fault exists in the work tree only.
    pub(crate) uncommitted: bool,
}

/// The last good version of a broken file.
#[derive(Debug, Clone)]
pub(crate) struct LastGood {
    pub(crate) name: String,
    pub(crate) good: ParsedVersion,
    /// Whether it was a saved edit that was never committed.
    pub(crate) uncommitted: bool,
}

/// Decides what is served for `key` from its two files, or `last_good` if the file that counts is broken. A valid
/// second file takes the place of a last good version where there never was one.
pub(crate) fn resolve(
    key: &Key,
    yaml: Option<KeyFile>,
    yml: Option<KeyFile>,
    last_good: Option<LastGood>,
) -> KeyResolution {
    let mut broken = Vec::new();
    let (file, second) = if yaml.is_some() { (yaml, yml) } else { (yml, None) };
    let Some(KeyFile { name, content, uncommitted }) = file else { return KeyResolution::default() };
    if let Some(second) = &second {
        broken.push(BrokenFile {
            name: second.name.clone(),
            faults: vec![Fault::at_start(format!(
                "`{name}` exists too and takes precedence; remove one of the two files of `{key}`"
            ))],
            // The presence of two files is committed only if both files are.
            uncommitted: uncommitted || second.uncommitted,
        });
    }
    let faults = match content {
        Ok(good) => {
            if !good.missing_status_names.is_empty() {
                let faults = good.missing_status_names.clone();
                broken.insert(0, BrokenFile { name: name.clone(), faults, uncommitted });
            }
            return KeyResolution { served: Some((name, good)), uncommitted, stale: false, broken };
        }
        Err(faults) => faults,
    };
    broken.insert(0, BrokenFile { name, faults, uncommitted });
    match last_good_of(last_good, second) {
        Some(LastGood { name, good, uncommitted }) => {
            KeyResolution { served: Some((name, good)), uncommitted, stale: true, broken }
        }
        None => KeyResolution { broken, ..KeyResolution::default() },
    }
}

/// Returns the last good version, or the valid second file: where there never was a good version, or where that is one
/// of the second file, which may have changed since.
fn last_good_of(last_good: Option<LastGood>, second: Option<KeyFile>) -> Option<LastGood> {
    let second = second.and_then(|KeyFile { name, content, uncommitted }| {
        content.ok().map(|good| LastGood { name, good, uncommitted })
    });
    match (last_good, second) {
        (Some(last), Some(second)) if last.name == second.name => {
            Some(LastGood { uncommitted: last.uncommitted || second.uncommitted, ..second })
        }
        (last, second) => last.or(second),
    }
}

/// The claim of a key to be served, among keys that differ from it in letter case only: the least claim wins. A
/// committed key comes before one that is only saved, then the key that has had a file for longer, then the key
/// that is first in byte order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Claim<T> {
    /// Whether the head has no file for the key.
    pub(crate) is_new: bool,
    /// When the file first appeared; smaller is earlier.
    pub(crate) since: T,
    pub(crate) key: Key,
}

/// Returns the fault of a file whose key is not served because another key differs from it in letter case only. The
/// message does not name the other key: not everyone who sees this problem may read that collection.
pub(crate) fn hidden_by_other_case(key: &Key) -> Fault {
    Fault::at_start(format!(
        "another key differs from `{key}` in letter case only; some disks can't hold both, so only the other is served"
    ))
}

/// Returns the fault of an entry that can't be read as a file.
pub(crate) fn special_entry_fault(what: Special) -> Fault {
    const UNREADABLE: &str = "this file can't be read now; let the service's user read it, with `chmod u+r` or `chown`, \
                              and if it may, see whether the disk is well";
    match what {
        Special::Unreadable => Fault::at_start(UNREADABLE),
        what => not_a_file(what),
    }
}

pub(crate) fn not_a_file(what: impl Display) -> Fault {
    Fault::at_start(format!(
        "this is {what}; only regular files are read, and nothing is followed out of the folder"
    ))
}

/// Returns the fault of a file whose object is missing or damaged; `None` if the error is about more than that.
pub(crate) fn damage_fault(error: &StoreError) -> Option<Fault> {
    let StoreError::Damaged { damage, .. } = error else { return None };
    let message = match damage {
        Damage::Promised => error.to_string(),
        Damage::Missing | Damage::Corrupt(_) | Damage::TooLarge(_) => format!(
            "{error}, so what was committed of this file can't be read; `git fsck` tells more, and `git hash-object -w` of an intact copy brings it back"
        ),
    };
    Some(Fault::at_start(message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Kind;

    fn key() -> Key {
        Key::parse("posts").unwrap()
    }

    fn good(name: &str) -> ParsedVersion {
        let attributes = [("name".to_owned(), name.into())];
        let collection = Arc::new(Collection::new(key(), Kind::Document, attributes).unwrap());
        ParsedVersion { blob: BlobId::of(name.as_bytes()), collection, missing_status_names: Vec::new() }
    }

    fn file(name: &str, content: Reading, uncommitted: bool) -> Option<KeyFile> {
        Some(KeyFile { name: name.to_owned(), content, uncommitted })
    }

    fn broken() -> Reading {
        Err(vec![Fault { line: 2, column: 3, message: "bad".into() }])
    }

    #[test]
    fn a_valid_file_is_served_as_it_is() {
        let resolved = resolve(&key(), None, file("posts.yml", Ok(good("a")), true), None);
        assert_eq!(resolved.served, Some(("posts.yml".into(), good("a"))));
        assert!(resolved.uncommitted && !resolved.stale && resolved.broken.is_empty());
    }

    #[test]
    fn of_two_files_the_yaml_one_is_served_and_the_other_is_a_problem() {
        let yaml = file("posts.yaml", Ok(good("a")), false);
        let yml = file("posts.yml", Ok(good("b")), true);
        let resolved = resolve(&key(), yaml, yml, None);
        assert_eq!(resolved.served, Some(("posts.yaml".into(), good("a"))));
        assert!(!resolved.stale, "the file that counts is fine");
        assert_eq!(resolved.broken[0].name, "posts.yml");
        assert!(resolved.broken[0].uncommitted);
        let yaml = file("posts.yaml", Ok(good("a")), true);
        let yml = file("posts.yml", Ok(good("b")), false);
        let resolved = resolve(&key(), yaml, yml, None);
        assert!(resolved.broken[0].uncommitted, "the commit has one file only");
    }

    #[test]
    fn a_broken_file_keeps_its_last_good_version() {
        let last = LastGood { name: "posts.yaml".into(), good: good("old"), uncommitted: true };
        let resolved = resolve(&key(), file("posts.yaml", broken(), true), None, Some(last));
        assert_eq!(resolved.served, Some(("posts.yaml".into(), good("old"))));
        assert!(resolved.uncommitted && resolved.stale);
        assert_eq!((resolved.broken[0].faults[0].line, resolved.broken[0].faults[0].column), (2, 3));
    }

    #[test]
    fn a_valid_second_file_is_served_while_the_first_never_was_good() {
        let [yaml, yml] = [("posts.yaml", broken()), ("posts.yml", Ok(good("b")))];
        let second = |uncommitted| file(yml.0, yml.1.clone(), uncommitted);
        let first = || file(yaml.0, yaml.1.clone(), true);
        let resolved = resolve(&key(), first(), second(false), None);
        assert_eq!(resolved.served, Some(("posts.yml".into(), good("b"))));
        assert!(resolved.stale && !resolved.uncommitted);
        let served = LastGood { name: "posts.yml".into(), good: good("a"), uncommitted: true };
        let resolved = resolve(&key(), first(), second(true), Some(served));
        assert_eq!(resolved.served, Some(("posts.yml".into(), good("b"))), "it has changed since");
        let last = LastGood { name: "posts.yaml".into(), good: good("old"), uncommitted: false };
        let resolved = resolve(&key(), first(), second(true), Some(last));
        assert_eq!(resolved.served, Some(("posts.yaml".into(), good("old"))));
    }

    #[test]
    fn of_a_file_that_may_not_be_read_it_is_told_what_to_do() {
        let unreadable = file("posts.yaml", Err(vec![special_entry_fault(Special::Unreadable)]), true);
        let message = resolve(&key(), unreadable, None, None).broken.remove(0).faults.remove(0).message;
        assert!(message.contains("can't be read") && message.contains("chmod"), "{message}");
        assert!(!message.contains("only regular files"), "it may well be one: {message}");
    }

    #[test]
    fn a_file_that_never_was_good_is_a_problem_and_nothing_else() {
        for content in [broken(), Err(vec![special_entry_fault(Special::Link)])] {
            let resolved = resolve(&key(), file("posts.yaml", content, false), None, None);
            assert_eq!(resolved.served, None);
            assert_eq!(resolved.broken.len(), 1);
        }
    }
}
