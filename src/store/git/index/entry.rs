//! An entry of git's index (gitformat-index(5)), as it was read or anew.
//!
//! ```text
//! ctime, mtime, device, inode, mode, user, group, length       4 bytes each, times two numbers
//! 20 bytes of id · 2 bytes of flags (stage, length of the name) · 2 more when the flags say so
//! version 2, 3: path, then 1 to 8 NULs up to a multiple of 8
//! version 4:    how much of the path before to drop, then the rest of the path, NUL
//! ```

use std::ops::Range;

use crate::store::git::object::pack::{distance, read_distance};
use crate::store::git::object::tree::Pointer;

/// The part of an entry before its path: ten numbers, the id, the flags.
pub(super) const FIXED_LEN: usize = 62;
const STAT_LEN: usize = 40;
/// Which of the ten numbers is the mode.
const MODE_FIELD: usize = 6;
const EXTENDED_FLAG: u16 = 0x4000;
/// In the extended flags: the file is left out of the work tree.
const SKIP_WORKTREE_FLAG: u16 = 0x4000;
/// In the extended flags: the path is announced (`git add --intent-to-add`), nothing of it is staged.
const INTENT_TO_ADD_FLAG: u16 = 0x2000;
const STAGE_MASK: u16 = 0x3000;
const NAME_MASK: u16 = 0x0fff;

#[derive(Debug)]
pub(super) struct IndexEntry {
    fixed: Fixed,
    extended: Option<[u8; 2]>,
    path: Path,
}

/// The part of an entry before its path: where it was read, or another one.
#[derive(Debug)]
enum Fixed {
    At(usize),
    New(Box<[u8; FIXED_LEN]>),
}

/// A path: where it was read, or another one, or one that was not written out.
#[derive(Debug)]
enum Path {
    At(Range<usize>),
    New(Box<[u8]>),
}

impl IndexEntry {
    pub(super) fn fixed<'a>(&'a self, bytes: &'a [u8]) -> &'a [u8] {
        match &self.fixed {
            Fixed::At(start) => &bytes[*start..start + FIXED_LEN],
            Fixed::New(fixed) => &fixed[..],
        }
    }

    pub(super) fn path<'a>(&'a self, bytes: &'a [u8]) -> &'a [u8] {
        match &self.path {
            Path::At(range) => &bytes[range.clone()],
            Path::New(path) => path,
        }
    }

    fn flags(&self, bytes: &[u8]) -> u16 {
        let fixed = self.fixed(bytes);
        u16::from_be_bytes([fixed[60], fixed[61]])
    }

    pub(super) fn pointer(&self, bytes: &[u8]) -> Pointer {
        let fixed = self.fixed(bytes);
        let mode = u32::from_be_bytes(fixed[24..28].try_into().expect("four bytes"));
        Pointer { mode, oid: fixed[STAT_LEN..60].try_into().expect("twenty bytes") }
    }

    pub(super) fn stage(&self, bytes: &[u8]) -> u16 {
        self.flags(bytes) & STAGE_MASK
    }

    fn extended_flags(&self) -> u16 {
        self.extended.map_or(0, u16::from_be_bytes)
    }

    pub(super) fn is_announced(&self) -> bool {
        self.extended_flags() & INTENT_TO_ADD_FLAG != 0
    }

    pub(super) fn is_skipped(&self) -> bool {
        self.extended_flags() & SKIP_WORKTREE_FLAG != 0
    }

    /// A new entry for a path.
    pub(super) fn new(path: &str, pointer: Pointer, stat: [u32; 10]) -> Self {
        let name_len = u16::try_from(path.len()).unwrap_or(u16::MAX).min(NAME_MASK);
        let fixed = Fixed::New(fixed(pointer, stat, name_len));
        Self { fixed, extended: None, path: Path::New(path.as_bytes().into()) }
    }

    /// Has it say something else. `git update-index --assume-unchanged` and its like stay what they are; that the path
    /// is only announced does not.
    pub(super) fn update(&mut self, bytes: &[u8], pointer: Pointer, stat: [u32; 10]) {
        let extended = self.extended_flags() & !INTENT_TO_ADD_FLAG;
        let flags = self.flags(bytes) & !if extended == 0 { EXTENDED_FLAG } else { 0 };
        self.fixed = Fixed::New(fixed(pointer, stat, flags));
        self.extended = (extended != 0).then(|| extended.to_be_bytes());
    }

    /// Appends it as it stands in an index of this version; `before` is the path of the entry before.
    pub(super) fn encode(&self, out: &mut Vec<u8>, bytes: &[u8], version: u32, before: &[u8]) {
        let (start, path) = (out.len(), self.path(bytes));
        out.extend_from_slice(self.fixed(bytes));
        out.extend_from_slice(self.extended.as_ref().map_or(&[][..], |extended| extended));
        if version == 4 {
            let common = before.iter().zip(path).take_while(|(a, b)| a == b).count();
            out.extend(distance((before.len() - common) as u64));
            out.extend_from_slice(&path[common..]);
            out.push(0);
        } else {
            out.extend_from_slice(path);
            let len = out.len() - start;
            out.resize(start + (len / 8 + 1) * 8, 0);
        }
    }
}

/// The part of an entry before its path.
fn fixed(Pointer { mode, oid }: Pointer, stat: [u32; 10], flags: u16) -> Box<[u8; FIXED_LEN]> {
    let mut fixed = Box::new([0; FIXED_LEN]);
    for (field, value) in stat.into_iter().enumerate() {
        let value = if field == MODE_FIELD { mode } else { value };
        fixed[4 * field..][..4].copy_from_slice(&value.to_be_bytes());
    }
    fixed[STAT_LEN..60].copy_from_slice(&oid);
    fixed[60..].copy_from_slice(&flags.to_be_bytes());
    fixed
}

/// Reads an index on.
pub(super) struct Cursor<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(len)?)?;
        self.at += len;
        Some(taken)
    }

    pub(super) fn number(&mut self) -> Option<u32> {
        self.take(4).map(|bytes| u32::from_be_bytes(bytes.try_into().expect("four bytes")))
    }

    pub(super) fn entry(&mut self, version: u32, before: &[u8]) -> Option<IndexEntry> {
        let start = self.at;
        let fixed = self.take(FIXED_LEN)?;
        let flags = u16::from_be_bytes([fixed[60], fixed[61]]);
        let extended = match flags & EXTENDED_FLAG {
            0 => None,
            _ if version == 2 => return None,
            _ => Some(self.take(2)?.try_into().expect("two bytes")),
        };
        let mut kept = before.len();
        if version == 4 {
            kept = kept.checked_sub(self.distance()?)?;
        }
        let (path, rest) = (self.at, &self.bytes[self.at..]);
        let rest = self.take(rest.iter().position(|byte| *byte == 0)?)?;
        if version == 4 {
            self.take(1)?;
            let path = Path::New([&before[..kept], rest].concat().into());
            return Some(IndexEntry { fixed: Fixed::At(start), extended, path });
        }
        let path = Path::At(path..self.at);
        let len = self.at - start;
        self.take((len / 8 + 1) * 8 - len)?;
        Some(IndexEntry { fixed: Fixed::At(start), extended, path })
    }

    /// How much of the path before to drop, as the distances in packs are written.
    fn distance(&mut self) -> Option<usize> {
        let mut rest = self.bytes[self.at..].iter();
        let distance = read_distance(&mut rest)?;
        self.at = self.bytes.len() - rest.len();
        usize::try_from(distance).ok()
    }
}
