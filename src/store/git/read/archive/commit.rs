//! Commits as raw bytes.
//!
//! A commit is a run of header lines (`tree`, `parent`, `author`, `committer`, `gpgsig` and
//! others, continued lines begin with a blank), an empty line and the message (`commit.c`).

use chrono::{DateTime, Utc};

use crate::domain::{Actor, Revision};
use crate::store::git::object::encoding::Encoding;
use crate::store::{Commit, RawSignature};

/// What a commit object tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store::git) struct RawCommit<'a> {
    pub(super) tree: Revision,
    pub(super) parents: Vec<Revision>,
    author: &'a [u8],
    committer: &'a [u8],
    message: &'a [u8],
    encoding: Encoding,
}

impl<'a> RawCommit<'a> {
    /// Reads a commit object; `None` when it is none.
    pub(in crate::store::git) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (header, message) = split(bytes);
        let mut commit = Self {
            tree: Revision::new([0; 20]),
            parents: Vec::new(),
            author: b"",
            committer: b"",
            message,
            encoding: Encoding::default(),
        };
        let mut has_tree = false;
        let mut lines = header.split(|byte| *byte == b'\n');
        while let Some(line) = lines.next() {
            if let Some(id) = line.strip_prefix(b"tree ") {
                commit.tree = revision(id)?;
                has_tree = true;
            } else if let Some(id) = line.strip_prefix(b"parent ") {
                commit.parents.push(revision(id)?);
            } else if let Some(who) = line.strip_prefix(b"author ") {
                commit.author = who;
            } else if let Some(who) = line.strip_prefix(b"committer ") {
                commit.committer = who;
                commit.encoding = Encoding::among(lines);
                break;
            }
        }
        has_tree.then_some(commit)
    }

    /// The commit as the rest of the service knows it.
    pub(in crate::store::git) fn told(&self, revision: Revision) -> Commit {
        let (author, _) = person(&self.encoding.decode(self.author));
        let (committer, at) = person(&self.encoding.decode(self.committer));
        Commit {
            revision,
            parents: self.parents.clone(),
            author,
            committer,
            at,
            message: self.encoding.decode(self.message).into_owned(),
        }
    }
}

/// The header and the message of a commit.
fn split(bytes: &[u8]) -> (&[u8], &[u8]) {
    match bytes.windows(2).position(|pair| pair == b"\n\n") {
        Some(at) => (&bytes[..=at], &bytes[at + 2..]),
        None => (bytes, b""),
    }
}

fn revision(hex: &[u8]) -> Option<Revision> {
    std::str::from_utf8(hex).ok()?.parse().ok()
}

/// `NAME <EMAIL> SECONDS ZONE`, as leniently as git reads it (`split_ident_line` in `ident.c`):
/// the time stands after the last `>`.
fn person(line: &str) -> (Actor, DateTime<Utc>) {
    let (who, when) = line.rsplit_once('>').unwrap_or((line, ""));
    let (name, email) = who.split_once('<').unwrap_or((who, ""));
    let seconds = when.split_whitespace().next().and_then(|text| text.parse().ok()).unwrap_or(0);
    (Actor::new(name, email), DateTime::from_timestamp(seconds, 0).unwrap_or_default())
}

/// The signature of a commit object and what it signs: everything but the signatures' headers, of
/// which a repository with SHA-256 names has another one (`parse_buffer_signed_by_header` in git's
/// `commit.c`).
pub(super) fn signature(bytes: &[u8]) -> Option<RawSignature> {
    let (header, _) = split(bytes);
    let mut found = RawSignature { signature: Vec::new(), signed: Vec::new() };
    let mut inside = Inside::Other;
    for line in header.split_inclusive(|byte| *byte == b'\n') {
        let continued = line.strip_prefix(b" ");
        let text = line.strip_prefix(b"gpgsig ");
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

/// The header that a line belongs to.
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
        let commit = RawCommit::parse(text.as_bytes()).unwrap().told(ID.parse().unwrap());
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
        let commit = RawCommit::parse(&raw).unwrap().told(ID.parse().unwrap());
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
}
