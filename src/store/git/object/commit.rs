//! Commits as raw bytes.
//!
//! ```text
//! tree <hex>
//! parent <hex>                     one line each
//! author <name> <<email>> <seconds> <zone>
//! committer <name> <<email>> <seconds> <zone>
//!                                  gpgsig, encoding and more; continuation lines begin with a space
//! <message>
//! ```
//!
//! Git writes the lines in this order, and `git fsck` requires it. Git takes the tree and the parents from the
//! first lines and ignores any others (`parse_commit_buffer` in `commit.c`). This module does the same, so that
//! both agree on what a commit contains. A commit whose other lines are out of order is read as far as it makes
//! sense, and its [flaw](RawCommit::flaw) is reported.

use chrono::{DateTime, Utc};

use crate::domain::{Actor, Revision};
use crate::store::git::object::encoding;
use crate::store::git::object::id::unhex;
use crate::store::{Commit, RawSignature, TreeId};

/// The start of the header with the signature.
const SIGNATURE: &[u8] = b"gpgsig ";

/// The note appended to the message of a commit that is too large to be read whole.
const CUT: &str = "\n\n[This commit is very large: the rest of this message is left out]";

pub(crate) fn encode_commit(
    tree: TreeId,
    parents: &[Revision],
    [author, committer]: [&Actor; 2],
    at: DateTime<Utc>,
    message: &str,
) -> Vec<u8> {
    let parents: String = parents.iter().map(|parent| format!("parent {parent}\n")).collect();
    // Git reads times as unsigned seconds; a clock before 1970 must not make an unreadable commit.
    let seconds = at.timestamp().max(0);
    let line = |role, actor: &Actor| format!("{role} {} <{}> {seconds} +0000\n", actor.name(), actor.email());
    // Git refuses a commit with a NUL in it (`nulInCommit` of git-fsck(1)).
    let message = message.replace('\0', " ");
    let end = if message.ends_with('\n') { "" } else { "\n" };
    let (author, committer) = (line("author", author), line("committer", committer));
    format!("tree {tree}\n{parents}{author}{committer}\n{message}{end}").into_bytes()
}

/// Returns a commit object with its signature: the header `gpgsig`, after all others (gitformat-signature(5)).
pub(crate) fn with_signature(commit: &[u8], armor: &str) -> Vec<u8> {
    let end = commit.windows(2).position(|pair| pair == b"\n\n");
    let (headers, rest) = commit.split_at(end.expect("an empty line ends the headers") + 1);
    // Every line of a header except the first begins with a space.
    let lines: String = armor.lines().map(|line| format!(" {line}\n")).collect();
    [headers, b"gpgsig", lines.as_bytes(), rest].concat()
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RawCommit<'a> {
    pub(crate) tree: TreeId,
    pub(crate) parents: Vec<Revision>,
    /// What `git fsck --strict` reports about its headers, if anything.
    pub(crate) flaw: Option<&'static str>,
    /// Whether it is signed; see [`signature`].
    pub(crate) is_signed: bool,
    author: &'a [u8],
    committer: &'a [u8],
    message: &'a [u8],
    encoding: &'static encoding_rs::Encoding,
    is_cut: bool,
}

impl<'a> RawCommit<'a> {
    /// Parses a commit object, or the beginning of one.
    ///
    /// # Errors
    ///
    /// Returns the reason why git would not accept it as a commit either.
    pub(crate) fn parse(bytes: &'a [u8], is_cut: bool) -> Result<Self, &'static str> {
        let (header, message) =
            split(bytes).or((!is_cut).then_some((bytes, &b""[..]))).ok_or("its header is too long")?;
        let mut lines = header.split(|byte| *byte == b'\n').peekable();
        let tree =
            lines.next().and_then(|line| unhex(line.strip_prefix(b"tree ")?)).ok_or("it has no tree")?;
        let mut parents = Vec::new();
        while let Some(parent) = lines.peek().and_then(|line| line.strip_prefix(b"parent ")) {
            let parent = unhex(parent).ok_or("it has a parent that makes no sense")?;
            parents.push(Revision::new(parent));
            lines.next();
        }
        let rest: Vec<_> = lines.collect();
        let of = |role: &[u8]| rest.iter().find_map(|line| line.strip_prefix(role)).unwrap_or_default();
        Ok(Self {
            tree: TreeId::new(tree),
            parents,
            flaw: flaw(&rest),
            is_signed: rest.iter().any(|line| line.starts_with(SIGNATURE)),
            author: of(b"author "),
            committer: of(b"committer "),
            message,
            encoding: encoding::among(rest.iter().copied()),
            is_cut,
        })
    }

    /// Converts it to the commit that the rest of the service uses.
    pub(crate) fn to_commit(&self, revision: Revision) -> Commit {
        let (author, _) = person(&encoding::decode(self.encoding, self.author));
        let (committer, at) = person(&encoding::decode(self.encoding, self.committer));
        let mut message = encoding::decode(self.encoding, self.message).into_owned();
        if self.is_cut {
            message.truncate(message.trim_end_matches(char::REPLACEMENT_CHARACTER).len());
            message.push_str(CUT);
        }
        Commit { revision, parents: self.parents.clone(), author, committer, at, message }
    }

    pub(crate) fn at(&self) -> DateTime<Utc> {
        person(&encoding::decode(self.encoding, self.committer)).1
    }
}

/// Returns how the lines after tree and parents deviate from git's format, in the words of `git fsck`
/// (`fsck_commit` in `fsck.c`).
fn flaw(rest: &[&[u8]]) -> Option<&'static str> {
    let authors = rest.iter().take_while(|line| line.starts_with(b"author ")).count();
    let has_committer = rest.get(authors).is_some_and(|line| line.starts_with(b"committer "));
    match authors {
        0 => Some("missingAuthor: its author does not stand where it must"),
        1 if has_committer => None,
        1 => Some("missingCommitter: its committer does not stand where it must"),
        _ => Some("multipleAuthors: it has several authors"),
    }
}

fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = bytes.windows(2).position(|pair| pair == b"\n\n")?;
    Some((&bytes[..at], &bytes[at + 2..]))
}

/// Parses `NAME <EMAIL> SECONDS ZONE` as leniently as git does (`split_ident_line` in `ident.c`): the time follows
/// the last `>`.
fn person(line: &str) -> (Actor, DateTime<Utc>) {
    let (who, when) = line.rsplit_once('>').unwrap_or((line, ""));
    let (name, email) = who.split_once('<').unwrap_or((who, ""));
    let seconds = when.split_whitespace().next().and_then(|text| text.parse().ok()).unwrap_or(0);
    (Actor::new(name, email), DateTime::from_timestamp(seconds, 0).unwrap_or_default())
}

/// Returns the signature of a commit object and the bytes that it signs: all but the signature headers. A repository
/// with SHA-256 object ids has a signature header of its own (`parse_buffer_signed_by_header` in git's `commit.c`).
pub(crate) fn signature(bytes: &[u8]) -> Option<RawSignature> {
    let header = split(bytes).map_or(bytes, |(header, _)| &bytes[..=header.len()]);
    let mut found = RawSignature { signature: Vec::new(), signed: Vec::new() };
    let mut inside = Inside::Other;
    for line in header.split_inclusive(|byte| *byte == b'\n') {
        let continued = line.strip_prefix(b" ");
        let text = line.strip_prefix(SIGNATURE);
        inside = match (continued.is_some(), text.is_some()) {
            (true, _) => inside,
            (false, true) => Inside::Signature,
            (false, false) if line.starts_with(b"gpgsig") => Inside::OtherSignature,
            (false, false) => Inside::Other,
        };
        match inside {
            Inside::Signature => found.signature.extend_from_slice(continued.or(text).unwrap_or(line)),
            Inside::OtherSignature => {}
            Inside::Other => found.signed.extend_from_slice(line),
        }
    }
    found.signed.extend_from_slice(&bytes[header.len()..]);
    (!found.signature.is_empty()).then_some(found)
}

#[derive(Clone, Copy)]
enum Inside {
    Signature,
    OtherSignature,
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef01234567";

    #[test]
    fn a_commit_is_read_as_git_writes_it() {
        let text = format!(
            "tree {ID}\nparent {ID}\nparent {ID}\nauthor Mara <mara@example.org> 5 +0100\n\
             committer C <c@d> 1700000000 +0000\nencoding x\n\nSubject\n\nBody\n\ntree x\n"
        );
        let commit = RawCommit::parse(text.as_bytes(), false).unwrap().to_commit(ID.parse().unwrap());
        assert_eq!(commit.parents.len(), 2);
        assert_eq!((commit.author.name(), commit.author.email()), ("Mara", "mara@example.org"));
        assert_eq!(commit.at.timestamp(), 1_700_000_000);
        assert_eq!(commit.message, "Subject\n\nBody\n\ntree x\n");
    }

    #[test]
    fn a_commit_in_another_encoding_is_read_in_that() {
        let mut raw =
            format!("tree {ID}\nauthor _ric <e@x> 5 +0100\ncommitter J_rg <j@x> 7 +0000\n").into_bytes();
        raw.extend_from_slice(b"gpgsig a\n encoding x\nencoding ISO-8859-1\n\nraison _t_\n");
        raw.iter_mut().filter(|byte| **byte == b'_').for_each(|byte| *byte = 0xe9);
        let commit = RawCommit::parse(&raw, false).unwrap().to_commit(ID.parse().unwrap());
        assert_eq!((commit.author.name(), commit.committer.name()), ("éric", "Jérg"));
        assert_eq!(commit.message, "raison été\n");
    }

    #[test]
    fn strange_identities_are_read_all_the_same() {
        for (line, name, seconds) in [
            ("<> 7 +0000", "anonymous", 7),
            ("A > B <x> -9 +0000", "A  B", -9),
            ("only", "only", 0),
            ("", "anonymous", 0),
        ] {
            let (actor, at) = person(line);
            assert_eq!((actor.name(), at.timestamp()), (name, seconds), "{line:?}");
        }
    }

    #[test]
    fn a_signature_is_cut_out_and_the_rest_is_what_it_signs() {
        let rest = format!("tree {ID}\nauthor a <a> 1 +0000\ncommitter a <a> 1 +0000\n");
        let signed = format!("{rest}gpgsig -----BEGIN\n abc\n -----END\nencoding x\n\nSubject\n");
        let found = signature(signed.as_bytes()).unwrap();
        assert_eq!(found.signature, b"-----BEGIN\nabc\n-----END\n");
        assert_eq!(String::from_utf8(found.signed).unwrap(), format!("{rest}encoding x\n\nSubject\n"));
        let both = signed.replace("encoding x", "gpgsig-sha256 -----BEGIN\n abc\nencoding x");
        let found = signature(both.as_bytes()).unwrap();
        assert_eq!(found.signature, b"-----BEGIN\nabc\n-----END\n");
        assert_eq!(String::from_utf8(found.signed).unwrap(), format!("{rest}encoding x\n\nSubject\n"));
        assert_eq!(signature(format!("{rest}\nSubject\ngpgsig x\n").as_bytes()), None);
    }

    #[test]
    fn a_commit_reads_as_it_was_written() {
        let mara = Actor::new("Mara Ö", "mara@example.org");
        let at = DateTime::from_timestamp(1_700_000_000, 0).unwrap();
        let (tree, parent) = (TreeId::new([1; 20]), Revision::new([2; 20]));
        let raw = encode_commit(tree, &[parent], [&mara, &Actor::service()], at, "Update posts\n\nbody");
        let read = RawCommit::parse(&raw, false).unwrap();
        assert_eq!((read.tree, read.flaw), (TreeId::new([1; 20]), None));
        let read = read.to_commit(Revision::new([9; 20]));
        assert_eq!(read.parents, [Revision::new([2; 20])]);
        assert_eq!((read.author, read.committer), (mara, Actor::service()));
        assert_eq!((read.at, read.message.as_str()), (at, "Update posts\n\nbody\n"));
    }

    #[test]
    fn commits_of_other_tools_are_read_as_far_as_they_make_sense() {
        let raw = b"tree 0101010101010101010101010101010101010101\nauthor <x> nonsense\nencoding latin1\n\nGr\xfc\xdfe";
        let read = RawCommit::parse(raw, false).unwrap();
        assert!(read.flaw.is_some());
        let read = read.to_commit(Revision::new([9; 20]));
        assert_eq!((read.author.name(), read.author.email()), ("anonymous", "x"));
        assert_eq!(read.at, DateTime::UNIX_EPOCH);
        assert_eq!(read.message, "Grüße");
        assert!(RawCommit::parse(b"tree nonsense", false).is_err());
    }
}
