//! Fuzz targets for all code that reads input from outside: each takes any bytes, and panics only if the service has a
//! fault. `tests/fuzz` has a corpus for each, and runs them for long; the tests here run them on the corpus, and on a
//! bounded number of inputs derived from it.

use std::sync::Arc;

use chrono::DateTime;
use uuid::Uuid;

use crate::domain::{Actor, Attribute, Catalog, Collection, Event, Key, Kind, Revision, Value};
use crate::exchange;
use crate::format::{self, message};
use crate::http::fuzz as http;
use crate::store::git::fuzz as git;
use crate::store::signature::{AllowedSigners, SignatureChecker, SignatureStatus};
use crate::store::{Commit, RawSignature};

/// A target: its name, and the function that takes an input.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: &[Target] = &[
    ("yaml_reading", yaml_reading),
    ("yaml_editing", yaml_editing),
    ("documents", http::document),
    ("queries", http::query),
    ("accept", http::accept),
    ("policy", policy),
    ("messages", messages),
    ("loose_objects", git::loose_object),
    ("pack_indexes", git::pack_index),
    ("git_index", git::git_index),
    ("deltas", git::delta),
    ("imports", imports),
    ("webhooks", webhooks),
    ("signatures", signatures),
];

/// Runs the target of this name on an input.
///
/// # Panics
///
/// Panics on a fault, and if there is no such target.
pub fn run(name: &str, bytes: &[u8]) {
    let (_, target) = TARGETS.iter().find(|(its, _)| *its == name).expect("a target has this name");
    target(bytes);
}

fn key() -> Key {
    Key::parse("posts").expect("it is one")
}

/// Checks that a collection survives being written and read again.
fn yaml_reading(bytes: &[u8]) {
    if let Ok(collection) = format::read(&key(), bytes) {
        let written = format::write(&collection);
        assert_eq!(format::read(&key(), &written).as_ref(), Ok(&collection));
        drop(format::attribute_lines(bytes));
    }
}

/// Checks edits of a file: the first line of the input, up to 40 bytes of it, is the new name, the rest is the file.
fn yaml_editing(bytes: &[u8]) {
    let (name, file) = bytes
        .iter()
        .position(|byte| *byte == b'\n')
        .map_or((&b""[..], bytes), |end| (&bytes[..end.min(40)], &bytes[end + 1..]));
    let Ok(before) = format::read(&key(), file) else { return };
    let edited = format::edit(file, &before, &before);
    assert_eq!(edited.bytes, file, "what changes nothing leaves every byte");
    let name = Value::from(&*String::from_utf8_lossy(name));
    let attribute = Attribute::parse(before.kind(), "name").expect("every kind has it");
    let others = before.attributes().iter().filter(|(its, _)| *its != attribute);
    let attributes = others.map(|(its, value)| (its.as_str().to_owned(), value.clone()));
    let Ok(after) =
        Collection::from_file(key(), before.kind(), attributes.chain([("name".to_owned(), name)]))
    else {
        return;
    };
    let edited = format::edit(file, &before, &after);
    assert_eq!(format::read(&key(), &edited.bytes).as_ref(), Ok(&after), "it holds what was wanted");
    let back = format::edit(&edited.bytes, &after, &before);
    assert_eq!(format::read(&key(), &back.bytes).as_ref(), Ok(&before));
}

fn policy(bytes: &[u8]) {
    drop(format::policy::read(bytes));
}

/// Checks that any message can be parsed, and that no reason of a caller becomes a trailer or an event.
fn messages(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    drop(message::parse(&text));
    drop(message::idempotency(&text));
    let about = message::MessageDetails {
        reason: Some(&text),
        request_id: Some(&text),
        ..message::MessageDetails::default()
    };
    let collection = Collection::new(key(), Kind::Media, []).expect("nothing is required");
    let event = Event::Created(Arc::new(collection));
    let parsed = message::parse(&message::compose(&[(Uuid::nil(), &event)], &about));
    assert_eq!(parsed.events.len(), 1);
    assert!(parsed.origin.is_none() && parsed.reverses.is_none());
}

/// Checks that every import candidate can be written and read again, whatever its source.
fn imports(bytes: &[u8]) {
    let options =
        exchange::ImportOptions { keep_files: true, media_key: key(), schemas: exchange::Schemas::default() };
    let Ok(parsed) = exchange::parse(bytes, None) else { return };
    let Ok(source) = parsed.read(&options, &Catalog::default()) else { return };
    for candidate in source.candidates {
        let collection = candidate.collection;
        assert_eq!(format::read(collection.key(), &format::write(&collection)).as_ref(), Ok(&*collection));
    }
}

fn webhooks(bytes: &[u8]) {
    drop(format::webhooks::read(bytes));
}

/// Uses the input as allowed signers, as revoked keys, and as the armored signature of an empty text.
fn signatures(bytes: &[u8]) {
    let (allowed, _) = AllowedSigners::parse(bytes);
    let mut checker = SignatureChecker::new(Some(allowed));
    drop(checker.revoke(bytes));
    let raw = RawSignature { signature: bytes.to_vec(), signed: Vec::new() };
    let commit = Commit {
        revision: Revision::new([7; 20]),
        parents: Vec::new(),
        author: Actor::service(),
        committer: Actor::service(),
        at: DateTime::UNIX_EPOCH,
        message: String::new(),
    };
    let judged = checker.check(Some(&raw), &commit);
    assert!(!matches!(judged, SignatureStatus::None), "there is one");
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::panic::{catch_unwind, resume_unwind};
    use std::path::{Path, PathBuf};

    use super::*;
    /// The number of inputs made for each target, unless `COLLECTORY_FUZZ_INPUTS` gives it.
    const INPUTS: usize = 2_000;

    /// The maximum length of an input: slightly more than the largest file that is read.
    const LEN_MAX: usize = 70_000;

    fn said(name: &str) -> Option<usize> {
        #[expect(clippy::disallowed_methods, reason = "how long a run is, is the tester's to say")]
        let text = std::env::var(name).ok()?;
        text.parse().ok()
    }

    fn corpus(name: &str) -> Vec<Vec<u8>> {
        let folder: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus").join(name);
        let mut files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        assert!(!files.is_empty(), "{} has nothing to begin with", folder.display());
        files.iter().map(|file| fs::read(file).unwrap()).collect()
    }

    #[test]
    fn every_input_of_the_corpus_is_read_without_a_fault() {
        for (name, target) in TARGETS {
            corpus(name).iter().for_each(|input| target(input));
        }
    }

    #[test]
    #[expect(clippy::print_stdout, reason = "how to try it again")]
    fn inputs_that_nobody_thought_of_are_read_without_a_fault() {
        let inputs = said("COLLECTORY_FUZZ_INPUTS").unwrap_or(INPUTS);
        // The same in every run, so that results depend on the change alone. A long run takes a random seed.
        let seed =
            said("COLLECTORY_FUZZ_SEED").unwrap_or(if inputs == INPUTS { 1 } else { fastrand::usize(..) });
        println!("COLLECTORY_FUZZ_SEED={seed}");
        for (name, target) in TARGETS {
            let corpus = corpus(name);
            let mut random = fastrand::Rng::with_seed(seed as u64);
            let mut at = 0;
            while at < inputs {
                let mut input = corpus[random.usize(..corpus.len())].clone();
                // Several changes in sequence, with a run after each.
                for _ in 0..random.usize(1..16) {
                    mutate(&mut input, &corpus, &mut random);
                    if let Err(fault) = catch_unwind(|| target(&input)) {
                        let path = std::env::temp_dir().join(format!("collectory-fuzz-{name}"));
                        fs::write(&path, &input).unwrap();
                        println!("the input is in {}", path.display());
                        resume_unwind(fault);
                    }
                    at += 1;
                }
            }
        }
    }

    /// Mutates an input as fuzzers do: flips bits, replaces bytes, and removes, repeats or imports parts.
    fn mutate(input: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut fastrand::Rng) {
        const TELLING: &[u8] = b"\0\n\r\t \"'#%&*+,-./09:;<=>?@[\\]^_`az{|}~\x7f\x80\xff";
        let len = input.len();
        let at = random.usize(..=len);
        let end = (at + random.usize(..16)).min(len);
        match random.u8(..8) {
            0 if at < len => input[at] ^= 1 << random.u8(..8),
            1 if at < len => input[at] = random.u8(..),
            2 if at < len => input[at] = TELLING[random.usize(..TELLING.len())],
            3 => input.insert(at, TELLING[random.usize(..TELLING.len())]),
            4 => drop(input.drain(at..end)),
            5 => {
                let part = input[at..end].to_vec();
                let to = random.usize(..=len);
                input.splice(to..to, part);
            }
            6 => {
                let other = &corpus[random.usize(..corpus.len())];
                let from = random.usize(..=other.len());
                let to = (from + random.usize(..64)).min(other.len());
                input.splice(at..end, other[from..to].iter().copied());
            }
            _ => input.truncate(at),
        }
        input.truncate(LEN_MAX);
    }
}
