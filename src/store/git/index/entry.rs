//! An entry of git's index (gitformat-index(5)).
//!
//! ```text
//! ctime, mtime, device, inode, mode, user, group, length       4 bytes each, two numbers for a time
//! 20 bytes of id · 2 bytes of flags (stage, length of the name) · 2 more when the flags say so
//! version 2, 3: path, then 1 to 8 NULs up to a multiple of 8
//! version 4:    how much of the previous path to drop, then the rest of the path, NUL
//! ```

use crate::store::git::object::id::Oid;
use crate::store::git::object::pack::{distance, read_distance};
use crate::store::git::object::tree::Pointer;

/// The length of an entry before its path: ten numbers, the id, the flags.
pub(super) const FIXED_LEN: usize = 62;
/// The index of the mode among the ten numbers.
const MODE: usize = 6;
const EXTENDED_FLAG: u16 = 0x4000;
/// Extended flag: the file is left out of the work tree.
const SKIP_WORKTREE_FLAG: u16 = 0x4000;
/// Extended flag: only the path is recorded (`git add --intent-to-add`); no content is staged.
const INTENT_TO_ADD_FLAG: u16 = 0x2000;
const STAGE_MASK: u16 = 0x3000;
const NAME_MASK: u16 = 0x0fff;

#[derive(Debug)]
pub(super) struct IndexEntry {
    pub(super) path: Box<[u8]>,
    /// As in [`index_stat`](crate::store::git::disk::stamp::index_stat), with the mode of the tree.
    pub(super) stat: [u32; 10],
    oid: Oid,
    flags: u16,
    extended: u16,
}

impl IndexEntry {
    pub(super) fn pointer(&self) -> Pointer {
        Pointer { mode: self.stat[MODE], oid: self.oid }
    }

    pub(super) const fn stage(&self) -> u16 {
        self.flags & STAGE_MASK
    }

    pub(super) const fn is_intent_to_add(&self) -> bool {
        self.extended & INTENT_TO_ADD_FLAG != 0
    }

    pub(super) const fn is_skipped(&self) -> bool {
        self.extended & SKIP_WORKTREE_FLAG != 0
    }

    pub(super) fn new(path: &str, pointer: Pointer, stat: [u32; 10]) -> Self {
        let flags = u16::try_from(path.len()).unwrap_or(u16::MAX).min(NAME_MASK);
        let mut entry = Self { path: path.as_bytes().into(), stat, oid: pointer.oid, flags, extended: 0 };
        entry.update(pointer, stat);
        entry
    }

    /// Replaces the content of the entry. Flags such as that of `git update-index --assume-unchanged` stay; the
    /// intent-to-add flag is cleared.
    pub(super) fn update(&mut self, Pointer { mode, oid }: Pointer, stat: [u32; 10]) {
        (self.stat, self.oid) = (stat, oid);
        self.stat[MODE] = mode;
        self.extended &= !INTENT_TO_ADD_FLAG;
        if self.extended == 0 {
            self.flags &= !EXTENDED_FLAG;
        }
    }

    /// Returns this entry under the path of another.
    pub(super) fn named(mut self, other: Self) -> Self {
        self.flags = (self.flags & !NAME_MASK) | (other.flags & NAME_MASK);
        self.path = other.path;
        self
    }

    /// Appends the entry in the format of this index version; `before` is the path of the previous entry.
    pub(super) fn encode(&self, out: &mut Vec<u8>, version: u32, before: &[u8]) {
        let start = out.len();
        self.stat.iter().for_each(|number| out.extend_from_slice(&number.to_be_bytes()));
        out.extend_from_slice(&self.oid);
        out.extend_from_slice(&self.flags.to_be_bytes());
        if self.flags & EXTENDED_FLAG != 0 {
            out.extend_from_slice(&self.extended.to_be_bytes());
        }
        if version == 4 {
            let common = before.iter().zip(&self.path).take_while(|(a, b)| a == b).count();
            out.extend(distance((before.len() - common) as u64));
            out.extend_from_slice(&self.path[common..]);
            out.push(0);
        } else {
            out.extend_from_slice(&self.path);
            let len = out.len() - start;
            out.resize(start + (len / 8 + 1) * 8, 0);
        }
    }
}

pub(super) struct IndexCursor<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

impl<'a> IndexCursor<'a> {
    pub(super) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(len)?)?;
        self.at += len;
        Some(taken)
    }

    pub(super) fn number(&mut self) -> Option<u32> {
        self.take(4).map(|bytes| u32::from_be_bytes(bytes.try_into().expect("four bytes")))
    }

    fn flags(&mut self) -> Option<u16> {
        self.take(2).map(|bytes| u16::from_be_bytes(bytes.try_into().expect("two bytes")))
    }

    pub(super) fn entry(&mut self, version: u32, before: &[u8]) -> Option<IndexEntry> {
        let start = self.at;
        let mut stat = [0; 10];
        for number in &mut stat {
            *number = self.number()?;
        }
        let oid = self.take(20)?.try_into().expect("twenty bytes");
        let flags = self.flags()?;
        let extended = match flags & EXTENDED_FLAG {
            0 => 0,
            _ if version == 2 => return None,
            _ => self.flags()?,
        };
        let dropped = if version == 4 { self.distance()? } else { before.len() };
        let kept = &before[..before.len().checked_sub(dropped)?];
        let rest = self.bytes.get(self.at..)?;
        let rest = self.take(rest.iter().position(|byte| *byte == 0)?)?;
        let len = self.at - start;
        self.take(if version == 4 { 1 } else { (len / 8 + 1) * 8 - len })?;
        Some(IndexEntry { path: [kept, rest].concat().into(), stat, oid, flags, extended })
    }

    /// Reads how much of the previous path to drop, encoded like the distances in packs.
    fn distance(&mut self) -> Option<usize> {
        let mut rest = self.bytes[self.at..].iter();
        let distance = read_distance(&mut rest)?;
        self.at = self.bytes.len() - rest.len();
        usize::try_from(distance).ok()
    }
}
