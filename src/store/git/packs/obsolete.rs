//! Obsolete packs: all their objects are in another pack, and they are removed when nobody reads them any more.

use crate::store::git::disk::state_file::StateFile;
use crate::store::git::object::pack::is_name;
use crate::store::git::packs::geometry::PackSize;

/// How many parts of merged packs may be left while writes continue.
const OBSOLETE_LEN_MAX: usize = 300;

/// How many bytes these may have: the pack of each group contains a whole tree, which is large if there are many
/// collections.
const OBSOLETE_BYTES_MAX: u64 = 512 << 20;

/// Parts of merged packs, oldest merge first, each with the pack that now has its objects.
#[derive(Debug)]
pub(crate) struct ObsoletePacks {
    note: StateFile,
    pub(crate) parts: Vec<(String, String)>,
    /// The total size of the parts merged since the start or the last sweep.
    pub(crate) bytes: u64,
}

impl ObsoletePacks {
    pub(crate) fn read(note: StateFile) -> Self {
        let text = note.read().ok().flatten().unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let pairs = text.lines().filter_map(|line| line.split_once(' '));
        let pairs = pairs.filter(|(part, whole)| is_name(part.as_bytes()) && is_name(whole.as_bytes()));
        Self {
            note,
            parts: pairs.map(|(part, whole)| (part.to_owned(), whole.to_owned())).collect(),
            bytes: 0,
        }
    }

    pub(crate) fn change(&mut self, change: impl FnOnce(&mut Vec<(String, String)>)) {
        let before = self.parts.len();
        change(&mut self.parts);
        if self.parts.len() != before {
            let text: String = self.parts.iter().map(|(part, whole)| format!("{part} {whole}\n")).collect();
            if let Err(error) = self.note.replace(text.as_bytes()) {
                tracing::warn!(%error, cause = error.cause(), "cannot note which packs are in another one");
            }
        }
    }

    pub(crate) fn add(&mut self, parts: &[PackSize], whole: &str) {
        self.bytes += parts.iter().map(|part| part.bytes).sum::<u64>();
        let parts = parts.iter().map(|part| (part.name.clone(), whole.to_owned()));
        self.change(|obsolete| obsolete.extend(parts));
    }

    pub(crate) const fn len(&self) -> usize {
        self.parts.len()
    }

    /// Reports whether there are so many that they are removed although writes continue.
    pub(crate) const fn are_many(&self) -> bool {
        self.parts.len() > OBSOLETE_LEN_MAX || self.bytes > OBSOLETE_BYTES_MAX
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.parts.iter().any(|(part, _)| part == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::git::disk::barrier::Barrier;

    #[test]
    fn spare_packs_are_many_by_number_or_by_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let note = |name| StateFile::new(folder.path(), name, &Barrier::default());
        let part = |n: usize, bytes| PackSize { objects: 1, bytes, name: format!("pack-{n:040x}") };
        let mut obsolete = ObsoletePacks::read(note("spare-packs"));
        obsolete.add(&(0..OBSOLETE_LEN_MAX).map(|n| part(n, 1)).collect::<Vec<_>>(), "whole");
        assert!(!obsolete.are_many());
        obsolete.add(&[part(OBSOLETE_LEN_MAX, 1)], "whole");
        assert!(obsolete.are_many());
        let mut obsolete = ObsoletePacks::read(note("others"));
        obsolete.add(&[part(0, OBSOLETE_BYTES_MAX)], "whole");
        assert!(!obsolete.are_many());
        obsolete.add(&[part(1, 1)], "whole");
        assert!(obsolete.are_many());
    }
}
