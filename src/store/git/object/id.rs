//! Git's objects as bytes: how they are named, and how a commit is written and read.
//!
//! The name of an object is the SHA-1 of `<kind> <length>\0<content>` (gitformat-pack(5),
//! gitformat-loose(5)). Contents that callers choose, blobs and commits, are hashed with detection
//! of SHA-1 collisions, as git does; trees and checksums, which nobody can choose freely, are
//! hashed with the processor's own SHA-1 instructions, four to six times as fast.

use chrono::{DateTime, Utc};
use sha1::{Digest as _, Sha1};

use crate::domain::{Actor, Revision};
use crate::store::git::object::encoding::Encoding;
use crate::store::{Commit, StoreError};

/// The name of an object, raw.
pub(crate) type Oid = [u8; 20];

/// The kinds of objects that are written, with their numbers in a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Commit = 1,
    Tree = 2,
    Blob = 3,
}

impl Kind {
    /// What it is called in an object's header.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Tree => "tree",
            Self::Blob => "blob",
        }
    }
}

/// The name of an object with this content.
///
/// # Errors
///
/// Refuses content that was made to collide with other content under SHA-1.
pub(crate) fn name(kind: Kind, content: &[u8]) -> Result<Oid, StoreError> {
    let header = format!("{} {}\0", kind.word(), content.len());
    if kind == Kind::Tree {
        return Ok(Sha1::new().chain_update(header).chain_update(content).finalize().into());
    }
    let mut hasher = sha1_checked::Sha1::new();
    hasher.update(header);
    hasher.update(content);
    let result = hasher.try_finalize();
    if result.has_collision() {
        let source = git2::Error::from_str("the content was made to collide with other content under SHA-1");
        return Err(StoreError::Git { action: format!("name a {}", kind.word()), source });
    }
    Ok((*result.hash()).into())
}

/// Names a blob whose content arrives in pieces.
pub(crate) struct BlobHasher(sha1_checked::Sha1);

impl BlobHasher {
    /// Begins a blob of `len` bytes.
    pub(crate) fn new(len: u64) -> Self {
        let mut hasher = sha1_checked::Sha1::new();
        hasher.update(format!("blob {len}\0"));
        Self(hasher)
    }

    /// Takes the next piece.
    pub(crate) fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// The name; colliding content gets the name that git's collision detection gives it, which
    /// equals no other object's.
    pub(crate) fn finish(self) -> Oid {
        (*self.0.try_finalize().hash()).into()
    }
}

/// Forty digits.
pub(crate) fn hex(oid: &Oid) -> String {
    Revision::new(*oid).to_string()
}

/// Reads forty digits.
pub(crate) fn unhex(digits: &[u8]) -> Option<Oid> {
    std::str::from_utf8(digits).ok()?.parse::<Revision>().ok().map(|revision| *revision.as_bytes())
}

/// Writes a commit object, as `git cat-file commit` shows it:
///
/// ```text
/// tree <hex>
/// parent <hex>                     one line each
/// author <name> <<email>> <seconds> +0000
/// committer <name> <<email>> <seconds> +0000
///                                  `sign` puts gpgsig here; other tools, encoding and more
/// <message>
/// ```
pub(crate) fn encode_commit(
    tree: &Oid,
    parent: Option<&Oid>,
    [author, committer]: [&Actor; 2],
    at: DateTime<Utc>,
    message: &str,
) -> Vec<u8> {
    let parent = parent.map(|oid| format!("parent {}\n", hex(oid))).unwrap_or_default();
    // Git reads times as unsigned seconds; a clock before 1970 must not make an unreadable commit.
    let seconds = at.timestamp().max(0);
    let line = |role, actor: &Actor| format!("{role} {} <{}> {seconds} +0000\n", actor.name(), actor.email());
    // Git refuses a commit with a NUL in it (`nulInCommit` of git-fsck(1)).
    let message = message.replace('\0', " ");
    let end = if message.ends_with('\n') { "" } else { "\n" };
    let (author, committer) = (line("author", author), line("committer", committer));
    format!("tree {}\n{parent}{author}{committer}\n{message}{end}", hex(tree)).into_bytes()
}

/// A commit as it is read.
#[derive(Debug)]
pub(crate) struct ParsedCommit {
    /// Its tree.
    pub(crate) tree: Oid,
    /// What readers outside learn of it.
    pub(crate) commit: Commit,
}

/// Reads a commit object; `None` when it is not one.
///
/// Odd commits of other tools are read as far as they make sense: a missing author is anonymous, a
/// missing time is 1970, an encoding that is not known here is read as if it were UTF-8.
pub(crate) fn parse_commit(revision: Revision, raw: &[u8]) -> Option<ParsedCommit> {
    // Every encoding that is known has ASCII for the words and ends of lines.
    let text = Encoding::of_commit(raw).decode(raw);
    let (headers, message) = text.split_once("\n\n").unwrap_or((text.trim_end_matches('\n'), ""));
    let mut lines = headers.lines();
    let tree = unhex(lines.next()?.strip_prefix("tree ")?.as_bytes())?;
    let mut parents = Vec::new();
    let mut author = None;
    let mut committer = None;
    for line in lines {
        if let Some(parent) = line.strip_prefix("parent ") {
            parents.push(parent.parse().ok()?);
        } else if let Some(rest) = line.strip_prefix("author ") {
            author = author.or_else(|| Some(parse_actor(rest)));
        } else if let Some(rest) = line.strip_prefix("committer ") {
            committer = committer.or_else(|| Some(parse_actor(rest)));
        }
    }
    let nobody = || (Actor::anonymous(), DateTime::UNIX_EPOCH);
    let (author, _) = author.unwrap_or_else(nobody);
    let (committer, at) = committer.unwrap_or_else(nobody);
    let message = message.to_owned();
    Some(ParsedCommit { tree, commit: Commit { revision, parents, author, committer, at, message } })
}

fn parse_actor(line: &str) -> (Actor, DateTime<Utc>) {
    let (name, rest) = line.split_once('<').unwrap_or((line, ""));
    let (email, time) = rest.rsplit_once('>').unwrap_or((rest, ""));
    let seconds = time.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0);
    let at = DateTime::from_timestamp(seconds, 0).unwrap_or(DateTime::UNIX_EPOCH);
    (Actor::new(name, email), at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_have_the_names_that_git_gives_them() {
        // `git hash-object` of nothing, of "hello\n", and the empty tree.
        assert_eq!(hex(&name(Kind::Blob, b"").unwrap()), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
        assert_eq!(hex(&name(Kind::Blob, b"hello\n").unwrap()), "ce013625030ba8dba906f756967f9e9ca394464a");
        assert_eq!(hex(&name(Kind::Tree, b"").unwrap()), "4b825dc642cb6eb9a060e54bf8d69288fbee4904");
        let mut pieces = BlobHasher::new(6);
        pieces.update(b"hel");
        pieces.update(b"lo\n");
        assert_eq!(pieces.finish(), name(Kind::Blob, b"hello\n").unwrap());
    }

    #[test]
    fn a_commit_reads_as_it_was_written() {
        let mara = Actor::new("Mara Ö", "mara@example.org");
        let at = DateTime::from_timestamp(1_700_000_000, 0).unwrap();
        let raw =
            encode_commit(&[1; 20], Some(&[2; 20]), [&mara, &Actor::service()], at, "Update posts\n\nbody");
        let read = parse_commit(Revision::new([9; 20]), &raw).unwrap();
        assert_eq!(read.tree, [1; 20]);
        assert_eq!(read.commit.parents, [Revision::new([2; 20])]);
        assert_eq!((read.commit.author, read.commit.committer), (mara, Actor::service()));
        assert_eq!((read.commit.at, read.commit.message.as_str()), (at, "Update posts\n\nbody\n"));
    }

    #[test]
    fn commits_of_other_tools_are_read_as_far_as_they_make_sense() {
        let raw = b"tree 0101010101010101010101010101010101010101\nauthor <x> nonsense\nencoding latin1\n\nGr\xfc\xdfe";
        let read = parse_commit(Revision::new([9; 20]), raw).unwrap();
        assert_eq!((read.commit.author.name(), read.commit.author.email()), ("anonymous", "x"));
        assert_eq!(read.commit.at, DateTime::UNIX_EPOCH);
        assert_eq!(read.commit.message, "Grüße");
        assert!(parse_commit(Revision::new([9; 20]), b"tree nonsense").is_none());
    }
}
