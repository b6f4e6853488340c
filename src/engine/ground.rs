//! What a plan needs from the disk, read before it is made, so that planning itself is pure.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::Options;
use super::handle::{Job, Wish};
use super::mirror::{Mirror, names_of};
use super::plan::{Ground, HandEdit};
use crate::domain::{Actor, Collection, Command, Key};
use crate::store::{Journal, Saved, StoreError};

/// Reads from the disk whatever the plan will need, so that planning itself is pure.
pub(super) fn ground<'a, J: Journal>(
    mirror: &'a mut Mirror<J>,
    options: &'a Options,
    jobs: &[Job],
) -> Result<Ground<'a>, StoreError> {
    let mut sources = HashMap::new();
    let mut by_hand = BTreeMap::new();
    let mut files_of = HashMap::new();
    let mut special = HashSet::new();
    let mut blobs = HashMap::new();
    for wish in jobs.iter().flat_map(|job| &job.submission.changes) {
        let key = wish.command.key();
        // A last good version is no ground to build on, and may be nowhere any more.
        let entry = mirror.snapshot().get(key.as_str()).filter(|entry| !entry.stale);
        let blob = entry.map(|entry| entry.blob);
        if let (Command::Update { .. } | Command::Restore(_), Some(blob)) = (&wish.command, blob)
            && !sources.contains_key(&blob)
        {
            sources.insert(blob, mirror.content(blob)?);
        }
        let edits = mirror.edits_of(key);
        if !edits.is_empty() && !by_hand.contains_key(key) {
            let committable = options.serve_uncommitted
                && edits.iter().all(|(_, saved)| !matches!(saved, Saved::Special(_)));
            let event = mirror.event_by_hand(key)?;
            let files = edits.into_iter().map(|(name, saved)| (name, content_of(saved))).collect();
            by_hand.insert(key.clone(), HandEdit { files, event, committable });
        }
        files_of.insert(key.clone(), mirror.files_of(key));
        blobs.extend(names_of(key).into_iter().filter_map(|name| {
            let blob = mirror.committed_blob(&name)?;
            Some((name, blob))
        }));
        if mirror.is_special(key) {
            special.insert(key.clone());
        }
    }
    let mut bases = HashMap::new();
    for wish in jobs.iter().flat_map(|job| &job.submission.changes) {
        bases.extend(bases_of(mirror, wish)?);
    }
    let mut heads = HashMap::new();
    for job in jobs.iter().filter(|job| job.submission.dry_run) {
        for name in keys_of(std::slice::from_ref(job)).flat_map(names_of) {
            if let Some(bytes) = mirror.committed_content(&name)? {
                heads.insert(name, bytes);
            }
        }
    }
    let person = if by_hand.is_empty() { Actor::anonymous() } else { mirror.journal.person() };
    Ok(Ground {
        bases,
        heads,
        blobs,
        sources,
        by_hand,
        files_of,
        special,
        folder: &options.folder,
        person,
        now: (options.clock)(),
        snapshot: mirror.snapshot(),
    })
}

/// How many commits are looked through for the version that an update builds on.
const MERGE_COMMITS_MAX: usize = 1_000;

/// The older versions of its collection that an update may be merged over, by tag.
fn bases_of<J: Journal>(
    mirror: &mut Mirror<J>,
    wish: &Wish,
) -> Result<HashMap<(Key, String), Arc<Collection>>, StoreError> {
    let key = wish.command.key();
    let current = mirror.snapshot().get(key.as_str()).cloned();
    let mut bases = HashMap::new();
    let Some(tags) = wish.condition.mergeable(current.as_deref()) else { return Ok(bases) };
    let mut missing = BTreeSet::new();
    for tag in tags {
        match &current {
            // Somebody in the same batch may be faster.
            Some(entry) if entry.tag() == *tag => {
                bases.insert((key.clone(), tag.clone()), Arc::clone(&entry.collection));
            }
            Some(_) | None => {
                missing.insert(tag.clone());
            }
        }
    }
    // With one tag at hand the others are of no interest: the condition holds, or they are older.
    if bases.is_empty() {
        for (tag, collection) in mirror.older(key, missing, MERGE_COMMITS_MAX)? {
            bases.insert((key.clone(), tag), collection);
        }
    }
    Ok(bases)
}

fn content_of(saved: Saved) -> Option<Vec<u8>> {
    match saved {
        Saved::File { bytes, .. } => Some(bytes),
        Saved::Gone | Saved::Special(_) => None,
    }
}

/// The keys that jobs are about.
pub(super) fn keys_of(jobs: &[Job]) -> impl Iterator<Item = &Key> {
    jobs.iter().flat_map(|job| job.submission.changes.iter().map(|wish| wish.command.key()))
}
