//! The provenance of a file: the commit that introduced its current content, and its collection's earlier versions.

use std::collections::{BTreeSet, HashMap, HashSet};

use chrono::{DateTime, Utc};

use crate::domain::{Actor, Revision};
use crate::format::message;
use crate::store::{BlobId, Commit, FileChange, Journal, StoreError, TreeEntry};

/// The commit that introduced the current content of a file.
#[derive(Debug, Clone)]
pub(crate) struct Provenance {
    pub(crate) revision: Revision,
    pub(crate) author: Actor,
    pub(crate) at: DateTime<Utc>,
}

/// The files of one collection as the head has them; the file that counts comes first.
#[derive(Debug, Clone)]
pub(crate) struct CollectionFiles(Vec<(String, Option<TreeEntry>)>);

#[derive(Debug, Default)]
pub(crate) struct Provenances {
    files: HashMap<String, Provenance>,
    pasts: HashMap<String, Past>,
    ages: HashMap<String, usize>,
    merges: Vec<(usize, Merge)>,
}

/// The former files of one collection, along first parents.
#[derive(Debug)]
struct Past {
    head: CollectionFiles,
    /// The files before each commit that changed them, newest first, with the commit's position counted from the head.
    before: Vec<(usize, CollectionFiles)>,
    /// The position of the commit that created the collection; `usize::MAX` until it is found.
    until: usize,
}

/// A merge made by the service.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Merge {
    theirs: Revision,
    ours: Revision,
}

impl Merge {
    fn of(commit: &Commit) -> Option<Self> {
        match commit.parents[..] {
            [theirs, ours] if message::is_merge(&commit.message) => Some(Self { theirs, ours }),
            _ => None,
        }
    }
}

/// One step back in the history of a collection.
#[derive(Debug)]
pub(crate) enum Earlier<'a> {
    /// The files before a commit.
    Files(&'a CollectionFiles),
    /// The commits that a merge brought on top of its first parent, and the files there.
    Brought(Merge, &'a CollectionFiles),
}

impl Earlier<'_> {
    /// Returns the versions of the collection, newest first and in the order of events; `None` for a deletion, before
    /// which the collection has no past. A side that is damaged has none, and concerns nothing else.
    pub(crate) fn versions(
        &self,
        journal: &mut dyn Journal,
    ) -> Result<Vec<Option<(String, BlobId)>>, StoreError> {
        match self {
            Self::Files(files) => {
                let version = files.version().map(|(name, blob)| Some((name.to_owned(), blob)));
                Ok(version.into_iter().collect())
            }
            Self::Brought(merge, theirs) => match brought(journal, *merge, theirs) {
                Err(StoreError::Damaged { .. }) => Ok(Vec::new()),
                versions => versions,
            },
        }
    }
}

/// Returns the versions after each brought commit that changed the collection.
fn brought(
    journal: &mut dyn Journal,
    Merge { theirs, ours }: Merge,
    files: &CollectionFiles,
) -> Result<Vec<Option<(String, BlobId)>>, StoreError> {
    let side: HashSet<Revision> = journal.commits().commits_beyond(ours, theirs)?.into_iter().collect();
    if !side.contains(&ours) {
        return Ok(Vec::new());
    }
    let mut files = files.clone();
    for change in journal.commits().changes(Some(theirs), Some(ours))? {
        files.go_forward(&change);
    }
    let (mut found, mut merges, mut is_over) = (Vec::new(), Vec::new(), false);
    journal.commits().walk(ours, &mut |commit, changes| {
        if !side.contains(&commit.revision) {
            return false;
        }
        let after = files.clone();
        let touching = changes.iter().filter(|change| files.go_back(change)).count();
        if touching > 0 {
            match after.first() {
                Some((name, TreeEntry::File(blob))) => found.push(Some((name.to_owned(), blob))),
                Some((_, TreeEntry::Special(_))) => {}
                None => {
                    found.push(None);
                    is_over = true;
                }
            }
        }
        merges.extend(Merge::of(commit).map(|merge| (found.len(), merge, files.clone())));
        !is_over
    })?;
    // A merge that lost its race brought versions of its own.
    for (at, merge, files) in merges.into_iter().rev() {
        let versions = brought(journal, merge, &files)?;
        found.splice(at..at, versions);
    }
    Ok(found)
}

impl Provenances {
    pub(crate) fn get(&self, name: &str) -> Option<&Provenance> {
        self.files.get(name)
    }

    /// Returns the earlier versions of a file's collection, newest first, back to its creation: the files that
    /// counted, and the versions that merges brought, in the order of events. Versions before a deletion are not
    /// included, so that a deleted version is never served.
    pub(crate) fn earlier(&self, first_name: &str) -> Vec<Earlier<'_>> {
        let Some(Past { head, before, until }) = self.pasts.get(first_name) else { return Vec::new() };
        let (mut found, mut left) = (Vec::new(), before.iter().peekable());
        let mut theirs = head;
        for (at, merge) in self.merges.iter().take_while(|(at, _)| at <= until) {
            while let Some((_, files)) = left.next_if(|(before, _)| before < at) {
                found.push(Earlier::Files(files));
                theirs = files;
            }
            let changed = left.next_if(|(before, _)| before == at).map(|(_, files)| files);
            theirs = changed.unwrap_or(theirs);
            found.push(Earlier::Brought(*merge, theirs));
            found.extend(changed.map(Earlier::Files));
        }
        found.extend(left.map(|(_, files)| Earlier::Files(files)));
        found
    }

    /// Returns the position of the commit that created a file's collection; a larger position is further from the
    /// head.
    pub(crate) fn age(&self, first_name: &str) -> Option<usize> {
        self.ages.get(first_name).copied()
    }

    /// Records the files of a collection before the commit at a position; returns false if it created the collection.
    fn step_back(&mut self, files: &CollectionFiles, at: usize) -> bool {
        let has_file = files.first().is_some();
        if let Some(past) = self.pasts.get_mut(files.name()) {
            past.before.push((at, files.clone()));
            past.until = if has_file { past.until } else { at };
        }
        if !has_file {
            self.ages.insert(files.name().to_owned(), at);
        }
        has_file
    }

    fn note(&mut self, commit: &Commit, change: &FileChange) {
        self.files.entry(change.name.clone()).or_insert_with(|| Provenance {
            revision: commit.revision,
            author: commit.author.clone(),
            at: commit.at,
        });
    }
}

impl CollectionFiles {
    /// Creates the files of one collection as the head has them; at least one.
    pub(crate) fn new(files: impl IntoIterator<Item = (String, Option<TreeEntry>)>) -> Self {
        Self(files.into_iter().collect())
    }

    /// Returns the name that identifies the collection.
    fn name(&self) -> &str {
        &self.0[0].0
    }

    /// Undoes a change; returns false if it is of a file of another collection.
    fn go_back(&mut self, change: &FileChange) -> bool {
        let found = self.0.iter_mut().find(|(name, _)| *name == change.name);
        found.map(|(_, entry)| *entry = change.before).is_some()
    }

    /// Applies a change, if it is of one of the files.
    fn go_forward(&mut self, change: &FileChange) {
        if let Some((_, entry)) = self.0.iter_mut().find(|(name, _)| *name == change.name) {
            *entry = change.after;
        }
    }

    /// Returns the file that counts, and its content.
    pub(crate) fn version(&self) -> Option<(&str, BlobId)> {
        match self.first() {
            Some((name, TreeEntry::File(blob))) => Some((name, blob)),
            Some((_, TreeEntry::Special(_))) | None => None,
        }
    }

    fn first(&self) -> Option<(&str, TreeEntry)> {
        self.0.iter().find_map(|(name, entry)| Some((name.as_str(), (*entry)?)))
    }
}

/// Walks the history once for all of these collections, back to the creation of each.
pub(crate) fn provenance(
    journal: &mut dyn Journal,
    head: Revision,
    mut open: Vec<CollectionFiles>,
) -> Result<Provenances, StoreError> {
    let mut provenances = Provenances::default();
    let mut age = 0;
    open.retain(|files| files.first().is_some());
    if open.is_empty() {
        return Ok(provenances);
    }
    // A map, because a commit may change thousands of files, and there may be as many collections.
    let mut by_name: HashMap<String, usize> = HashMap::new();
    for (at, files) in open.iter().enumerate() {
        let past = Past { head: files.clone(), before: Vec::new(), until: usize::MAX };
        provenances.pasts.insert(files.name().to_owned(), past);
        by_name.extend(files.0.iter().map(|(name, _)| (name.clone(), at)));
    }
    journal.commits().walk(head, &mut |commit, changes| {
        age += 1;
        provenances.merges.extend(Merge::of(commit).map(|merge| (age, merge)));
        let mut touched = BTreeSet::new();
        for change in changes {
            if let Some(at) = by_name.get(&change.name) {
                open[*at].go_back(change);
                provenances.note(commit, change);
                touched.insert(*at);
            }
        }
        for files in touched.into_iter().map(|at| &open[at]) {
            if !provenances.step_back(files, age) {
                for (name, _) in &files.0 {
                    by_name.remove(name);
                }
            }
        }
        !by_name.is_empty()
    })?;
    Ok(provenances)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::git::testing::{CommitSpec, NewEntry, Repo};

    const WHO: (&str, &str) = ("Mara", "mara@example.org");
    const MERGE: &str = "Merge\n\nCollectory-Origin: merge\n";

    /// Creates a repository in which the last merge brings an earlier merge that lost its race; `last` is what the
    /// last local commit does to the file. Also returns the head.
    fn merged(last: NewEntry) -> (Repo, Revision) {
        let repo = Repo::bare();
        let make = |parents: &[Revision], put: NewEntry, message: &str| {
            let files = [("posts.yaml", put)];
            repo.make(&CommitSpec { parents, files: &files, message, author: WHO, committer: WHO, at: 9 })
        };
        let file = |text: &str| NewEntry::File(text.to_owned());
        let base = make(&[], file("base"), "base");
        let there = make(&[base], file("there 1"), "there 1");
        let here = make(&[base], file("here 1"), "here 1");
        let lost = make(&[there, here], file("lost"), MERGE);
        let here = make(&[lost], last, "here 2");
        let there = make(&[there], file("there 2"), "there 2");
        let merge = make(&[there, here], file("there 2"), MERGE);
        repo.point("refs/heads/main", merge);
        (repo, merge)
    }

    /// Returns the versions that would be served if everything newer were broken, newest first.
    fn earlier(repo: &Repo, head: Revision) -> Vec<Option<BlobId>> {
        let mut journal = repo.open();
        let of_head = TreeEntry::File(BlobId::of(b"there 2"));
        let files =
            CollectionFiles::new([("posts.yaml".to_owned(), Some(of_head)), ("posts.yml".to_owned(), None)]);
        let provenances = provenance(&mut journal, head, vec![files]).unwrap();
        let earlier = provenances.earlier("posts.yaml").into_iter();
        let versions = earlier.flat_map(|earlier| earlier.versions(&mut journal).unwrap());
        versions.map(|version| version.map(|(_, blob)| blob)).collect()
    }

    #[test]
    fn what_merges_bring_comes_before_what_they_stand_on_as_events_tell_it() {
        let (repo, head) = merged(NewEntry::File("here 2".to_owned()));
        let names = ["here 2", "lost", "here 1", "there 1", "base"];
        let blobs = names.map(|text| Some(BlobId::of(text.as_bytes())));
        assert_eq!(earlier(&repo, head), blobs);
    }

    #[test]
    fn what_stood_before_a_deletion_that_a_merge_brings_is_told_to_be_over() {
        let (repo, head) = merged(NewEntry::Nothing);
        assert_eq!(earlier(&repo, head)[0], None);
    }
}
