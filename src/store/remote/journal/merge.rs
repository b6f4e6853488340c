//! Merges the remote's branch with the local one after both have advanced.
//!
//! The first parent is the remote's head, so that events and cursors are the same everywhere; the second is ours, so
//! that acknowledged commits keep their ids. Files that only one side has changed are taken as they are. Git merges
//! the others, except collections ([`Merger`](crate::store::remote::merger::Merger)).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::domain::{Revision, file_name};
use crate::store::remote::journal::RemoteJournal;
use crate::store::remote::merger::{FileSides, Resolution, SideFile, Sides};
use crate::store::remote::transport::git_merge::{Changes, MergedEntry, Parted, RawChange};
use crate::store::{Draft, FILE_BYTES_KEPT_MAX, Journal as _, StoreError};

/// The two sides of a merge.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MergeRequest {
    /// The remote's head.
    pub(crate) theirs: Revision,
    /// The commit to be merged into it.
    pub(crate) ours: Revision,
    /// Whether the remote once had `ours` and lost it.
    pub(crate) is_restored: bool,
}

/// The entries that replace those of the tree that a merge starts from; `None` removes one.
type Entries = BTreeMap<Vec<u8>, Option<MergedEntry>>;

/// The files of a merge whose content neither side has, as a draft lists them.
type NewFiles = Vec<(String, Option<Vec<u8>>)>;

impl RemoteJournal {
    /// Creates a merge commit; no branch moves to it.
    pub(crate) fn merge(&mut self, join: MergeRequest) -> Result<Revision, StoreError> {
        let MergeRequest { theirs, ours, is_restored } = join;
        let (link, until) = (Arc::clone(&self.link), self.link.deadline());
        let base = link.git.merge_base(theirs, ours, until)?;
        let here = link.git.diff(base, ours, until)?;
        let there = link.git.diff(base, theirs, until)?;
        let is_collection = |path: &[u8]| link.settings.collection_name(path).is_some();
        let (mut files, others): (Changes, Changes) =
            here.into_iter().partition(|(path, _)| is_collection(path));
        for (path, change) in twins(&files, &there) {
            files.entry(path).or_insert(RawChange { before: change.before, after: change.before });
        }
        let parted = Parted { base, ours, theirs };
        let others = link.git.merge_others(parted, &others, &there, &is_collection, until)?;
        let is_created = |(path, change): (&Vec<u8>, &RawChange)| {
            change.before.is_none().then(|| link.settings.collection_name(path)).flatten()
        };
        let sides = files.iter().map(|(path, change)| self.sides(path, *change, &there));
        let sides = Sides {
            files: sides.collect::<Result<_, _>>()?,
            created: there.iter().filter_map(is_created).collect(),
            conflicts: others.conflicts,
            ours,
            commits: self.inner.commits().commits_beyond(ours, theirs)?.len(),
            is_restored,
        };
        let decision = link.settings.merger.merge(&sides);

        let theirs_now = there.iter().filter(|(path, _)| is_collection(path));
        let takes = decision.resolutions.into_iter().zip(sides.files);
        let (mut entries, drafted) = entries_of(&files, theirs_now, takes);
        entries.extend(others.taken);
        let start = others.tree.map_or_else(|| theirs.to_string(), |tree| tree.to_string());
        let tree = link.git.tree_with(&start, &entries, until)?;
        let draft = Draft {
            files: drafted,
            message: decision.message,
            author: link.settings.committer.clone(),
            at: link.now(),
        };
        let merge = self.inner.prepare_merge([theirs, ours], tree, &draft)?;
        link.counters.conflicts.add(decision.conflicts as u64);
        tracing::info!(
            %merge, %theirs, %ours, commits = sides.commits, conflicts = decision.conflicts,
            "what is here was merged with what the remote has"
        );
        Ok(merge)
    }

    fn sides(&mut self, path: &[u8], here: RawChange, there: &Changes) -> Result<FileSides, StoreError> {
        let theirs = there.get(path).map_or(here.before, |change| change.after);
        let name = self.link.settings.collection_name(path).unwrap_or_default();
        let [base, ours] = [self.side(here.before)?, self.side(here.after)?];
        let theirs = if is_folder(path, there) { Some(SideFile::Special) } else { self.side(theirs)? };
        Ok(FileSides { name, base, ours, theirs })
    }

    fn side(&mut self, entry: Option<MergedEntry>) -> Result<Option<SideFile>, StoreError> {
        let Some(entry) = entry else { return Ok(None) };
        let Some(blob) = entry.file() else { return Ok(Some(SideFile::Special)) };
        let bytes = self.inner.commits().content(blob)?;
        Ok(Some(if bytes.len() < FILE_BYTES_KEPT_MAX { SideFile::File(bytes) } else { SideFile::Special }))
    }
}

/// Returns the entries of collections, and files with new content: the remote's version unless decided otherwise.
fn entries_of<'a>(
    files: &Changes,
    theirs_now: impl Iterator<Item = (&'a Vec<u8>, &'a RawChange)>,
    takes: impl Iterator<Item = (Resolution, FileSides)>,
) -> (Entries, NewFiles) {
    let mut entries: Entries = files.iter().map(|(path, change)| (path.clone(), change.before)).collect();
    entries.extend(theirs_now.map(|(path, change)| (path.clone(), change.after)));
    let mut drafted = NewFiles::new();
    for ((path, change), (take, sides)) in files.iter().zip(takes) {
        match take {
            Resolution::Theirs => {}
            Resolution::Ours => drop(entries.insert(path.clone(), change.after)),
            Resolution::Bytes(bytes) => drafted.push((sides.name, Some(bytes))),
        }
    }
    (entries, drafted)
}

/// Returns the remote's changes to the twins (`.yml` for `.yaml` and the reverse) of files that were changed here.
fn twins(files: &Changes, there: &Changes) -> Vec<(Vec<u8>, RawChange)> {
    let twin_of = |path: &Vec<u8>| {
        let twin = file_name::with_other_extension(std::str::from_utf8(path).ok()?)?.into_bytes();
        let change = *there.get(&twin)?;
        Some((twin, change))
    };
    files.keys().filter_map(twin_of).collect()
}

/// Returns whether a side has files below a path, which then can't be a file.
fn is_folder(path: &[u8], changes: &Changes) -> bool {
    let below = [path, b"/"].concat();
    let mut inside = changes.range(below.clone()..).take_while(|(path, _)| path.starts_with(&below));
    inside.any(|(_, change)| change.after.is_some())
}
