//! The index as bytes, stored beside the repository.
//!
//! This is derived data: one that does not fit (another format version, another folder, a wrong checksum) is
//! rebuilt. [`IndexBuilder::advance`](crate::engine::history::index::build::IndexBuilder::advance) checks that its
//! head is a commit along the first parents of the branch. Nothing else needs checking, because a commit's id covers
//! everything before it.
//!
//! ```text
//! "collectory history 5\n"  fingerprint: 32 bytes
//! actors: count, then name and e-mail   keys: count, then each     texts: length, bytes
//! commits: count, then id, time, actor, origin, damage and fork, events
//! events: count, then id, key, action and whether suppressed, file and its blob   numbers: little endian
//! CRC-32 of everything before
//! ```

use std::collections::HashMap;

use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::domain::file_name::FileExtension;
use crate::domain::{Actor, Key, Revision};
use crate::engine::history::event::{Action, Origin};
use crate::engine::history::index::forks::Fork;
use crate::engine::history::index::row::{CommitRow, Version};
use crate::engine::history::index::{Index, VersionChange, number};
use crate::store::{BlobId, Special, TreeEntry};

const MAGIC: &[u8] = b"collectory history 5\n";
const SUM_BYTES: usize = 4;
/// The bit set in the action byte of a suppressed event.
const SUPPRESSED: u8 = 1 << 7;

/// Hashes what an index depends on besides the commits.
pub(crate) fn fingerprint(folder: &str, committers: &[String]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for text in std::iter::once(folder).chain(committers.iter().map(String::as_str)) {
        hasher.update((text.len() as u64).to_le_bytes());
        hasher.update(text);
    }
    hasher.finalize().into()
}

pub(crate) fn write(index: &Index, fingerprint: &[u8; 32]) -> Vec<u8> {
    let mut out = Vec::with_capacity(index.len() as usize * 38 + index.events_len() as usize * 46);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(fingerprint);
    write_number(&mut out, number(index.actors().count()));
    for actor in index.actors() {
        write_text(&mut out, actor.name());
        write_text(&mut out, actor.email());
    }
    write_number(&mut out, index.keys_len());
    for key in 0..index.keys_len() {
        write_text(&mut out, index.key(key).as_str());
    }
    write_number(&mut out, index.len());
    for (at, row) in index.commits().enumerate() {
        out.extend_from_slice(row.revision.as_bytes());
        out.extend_from_slice(&row.at.to_le_bytes());
        write_number(&mut out, row.actor);
        out.push(row.origin as u8);
        let fork = index.forks().get(number(at));
        out.push(u8::from(row.is_damaged) | u8::from(fork.is_some()) << 1);
        if let Some(Fork { start, onto, is_main }) = fork {
            write_number(&mut out, start);
            write_number(&mut out, onto.map_or(0, |onto| onto + 1));
            out.push(u8::from(is_main));
        }
        let events = index.events_of(number(at));
        write_number(&mut out, events.end - events.start);
        for number in events {
            let event = index.event(number);
            out.extend_from_slice(event.id.as_bytes());
            write_number(&mut out, event.key);
            out.push(event.action as u8 | if index.is_suppressed(number) { SUPPRESSED } else { 0 });
            write_version(&mut out, event.after);
        }
    }
    let sum = crc32fast::hash(&out);
    write_number(&mut out, sum);
    out
}

/// Deserializes an index; `None` if the bytes are damaged or have another fingerprint. `key` parses keys.
pub(crate) fn read(bytes: &[u8], fingerprint: &[u8; 32], key: &dyn Fn(&str) -> Option<Key>) -> Option<Index> {
    let (content, sum) = bytes.split_at_checked(bytes.len().checked_sub(SUM_BYTES)?)?;
    if crc32fast::hash(content).to_le_bytes() != *sum {
        return None;
    }
    let rest = content.strip_prefix(MAGIC)?.strip_prefix(fingerprint)?;
    let mut from = Reader(rest);
    let mut index = Index::default();
    let mut numbers = HashMap::new();
    for _ in 0..from.number()? {
        let (name, email) = (from.text()?, from.text()?);
        index.actor_number(&Actor::new(name, email), &mut numbers);
    }
    for _ in 0..from.number()? {
        index.restore_key(key(from.text()?)?);
    }
    let actors = number(numbers.len());
    for _ in 0..from.number()? {
        restore_commit(&mut index, &mut from, actors)?;
    }
    index.restored();
    from.0.is_empty().then_some(index)
}

fn restore_commit(index: &mut Index, from: &mut Reader<'_>, actors: u32) -> Option<()> {
    let revision = Revision::new(from.array()?);
    let at = i64::from_le_bytes(from.array()?);
    let actor = from.number().filter(|actor| *actor < actors)?;
    let origin = origin(from.byte()?)?;
    let flags = from.byte()?;
    let is_damaged = flags & 1 != 0;
    let commit = index.restore_commit(CommitRow { revision, at, actor, events: 0, origin, is_damaged });
    if flags & 2 != 0 {
        let start = from.number().filter(|start| *start <= commit)?;
        let onto = from.number().filter(|onto| *onto <= start)?.checked_sub(1);
        index.fork(Fork { start, onto, is_main: from.byte()? != 0 });
    }
    for _ in 0..from.number()? {
        let id = Uuid::from_bytes(from.array()?);
        let key = from.number().filter(|key| *key < index.keys_len())?;
        let tag = from.byte()?;
        let change = VersionChange { action: action(tag & !SUPPRESSED)?, after: version(from)? };
        let event = index.restore_event(id, key, change);
        if tag & SUPPRESSED != 0 {
            index.suppress(event);
        }
    }
    index.pair_moves();
    Some(())
}

fn action(tag: u8) -> Option<Action> {
    Action::ALL.into_iter().find(|action| *action as u8 == tag)
}

fn origin(tag: u8) -> Option<Origin> {
    Origin::ALL.into_iter().find(|origin| *origin as u8 == tag)
}

/// Writes a file as one byte, and its blob if it is a regular file: 0 is none, then two values per kind.
fn write_version(out: &mut Vec<u8>, version: Option<Version>) {
    let Some(Version { ending, entry }) = version else { return out.push(0) };
    let ending = match ending {
        FileExtension::Yaml => 1,
        FileExtension::Yml => 2,
    };
    match entry {
        TreeEntry::File(blob) => {
            out.push(ending);
            out.extend_from_slice(blob.as_bytes());
        }
        TreeEntry::Special(Special::Link) => out.push(ending + 2),
        TreeEntry::Special(Special::Folder) => out.push(ending + 4),
        // The only other kind in a commit is a submodule.
        TreeEntry::Special(_) => out.push(ending + 6),
    }
}

#[expect(
    clippy::option_option,
    reason = "the outer one tells bytes that are no file from the absence of one"
)]
fn version(from: &mut Reader<'_>) -> Option<Option<Version>> {
    let tag = from.byte()?;
    let ending = if tag % 2 == 1 { FileExtension::Yaml } else { FileExtension::Yml };
    let entry = match tag {
        0 => return Some(None),
        1 | 2 => TreeEntry::File(BlobId::new(from.array()?)),
        3 | 4 => TreeEntry::Special(Special::Link),
        5 | 6 => TreeEntry::Special(Special::Folder),
        7 | 8 => TreeEntry::Special(Special::Submodule),
        _ => return None,
    };
    Some(Some(Version { ending, entry }))
}

fn write_number(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn write_text(out: &mut Vec<u8>, text: &str) {
    write_number(out, number(text.len()));
    out.extend_from_slice(text.as_bytes());
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn number(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn text(&mut self) -> Option<&'a str> {
        let len = self.number()?;
        std::str::from_utf8(self.take(len as usize)?).ok()
    }
}
