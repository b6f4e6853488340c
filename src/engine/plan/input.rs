//! The input of a plan, read from the disk in advance so that planning itself is pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use uuid::Uuid;

use crate::domain::file_name::names_of;
use crate::domain::{Actor, Command, Key};
use crate::engine::mirror::Mirror;
use crate::engine::mirror::contents::Bases;
use crate::engine::options::Options;
use crate::engine::plan::edits::EditSources;
use crate::engine::plan::{HandEdit, PlanFiles, PlanInput, Rival, RivalFile};
use crate::engine::projection::tag_content_id;
use crate::engine::signal::Job;
use crate::store::{FILE_BYTES_KEPT_MAX, StoreError, WorkTreeEntry};

/// Reads everything that the plan needs from the disk. Contents are read as far as the turn has time for them.
pub(crate) fn input<'a>(
    mirror: &'a mut Mirror,
    options: &'a Options,
    jobs: &[Job],
    sources: &'a mut EditSources,
) -> Result<PlanInput<'a>, StoreError> {
    let mut files = PlanFiles::default();
    for (job, change) in jobs.iter().flat_map(|job| job.submission.changes.iter().map(move |it| (job, it))) {
        let key = change.command.key();
        // An update can't build on a last good version, whose content may no longer exist anywhere.
        let entry = mirror.snapshot().get(key.as_str()).filter(|entry| !entry.stale);
        let blob = entry.map(|entry| entry.blob);
        if let (Command::Update { .. } | Command::Restore(_), Some(blob)) = (&change.command, blob) {
            sources.fetch(blob, || mirror.content(blob))?;
        }
        let found = rivals_of(mirror, key);
        for key in std::iter::once(key).chain(found.iter().map(|rival| &rival.key)) {
            if !files.by_hand.contains_key(key)
                && let Some(edit) = hand_edit(mirror, options, key)?
            {
                files.by_hand.insert(key.clone(), edit);
            }
            for name in names_of(key) {
                if let Some(blob) = mirror.committed_blob(&name) {
                    if job.submission.dry_run {
                        sources.fetch(blob, || mirror.content(blob))?;
                    }
                    files.blobs.insert(name, blob);
                }
            }
        }
        if !found.is_empty() {
            files.rivals.insert(key.clone(), found);
        }
        if let Some(name) = mirror.open_file_of(key) {
            files.open.insert(key.clone(), name.clone());
        }
        files.names_by_key.insert(key.clone(), mirror.files_of(key));
        if mirror.is_special(key) {
            files.special.insert(key.clone());
        }
    }
    let bases = bases_of(mirror, jobs)?;
    let person =
        if files.by_hand.is_empty() { Actor::anonymous() } else { mirror.journal.hand_edit_author() };
    Ok(PlanInput {
        bases,
        files,
        sources,
        operations_bytes_max: options.writer.operations_bytes_max,
        folder: &options.mirror.folder,
        hand_edit_author: person,
        now: (options.mirror.clock)(),
        new_id: Uuid::now_v7,
        snapshot: mirror.snapshot(),
    })
}

/// Returns what a person saved for this key and did not commit.
fn hand_edit(mirror: &mut Mirror, options: &Options, key: &Key) -> Result<Option<HandEdit>, StoreError> {
    let edits = mirror.edits_of(key);
    if edits.is_empty() {
        return Ok(None);
    }
    let is_special = |(name, saved): &(String, WorkTreeEntry)| {
        matches!(saved, WorkTreeEntry::Special(_)) || mirror.is_committed_special(name)
    };
    let committable = options.mirror.serve_uncommitted && !edits.iter().any(is_special);
    let converted = edits.iter().find_map(|(name, saved)| match saved {
        WorkTreeEntry::File { bytes, .. } if mirror.journal.is_converted(name, bytes) => Some(name.clone()),
        WorkTreeEntry::File { .. } | WorkTreeEntry::Deleted | WorkTreeEntry::Special(_) => None,
    });
    let event = mirror.event_by_hand(key)?;
    let (mut files, mut unread) = (Vec::with_capacity(edits.len()), None);
    for (name, saved) in edits {
        let content = match saved {
            WorkTreeEntry::File { blob, bytes } if bytes.len() >= FILE_BYTES_KEPT_MAX => {
                let whole = mirror.journal.work_tree_content(&name, blob)?;
                if whole.is_none() {
                    unread = Some(name.clone());
                }
                Some(whole.unwrap_or(bytes))
            }
            WorkTreeEntry::File { bytes, .. } => Some(bytes),
            WorkTreeEntry::Deleted | WorkTreeEntry::Special(_) => None,
        };
        files.push((name, content));
    }
    Ok(Some(HandEdit { files, event, committable, converted, unread }))
}

/// Returns the keys that differ from this one in letter case only, with their files.
fn rivals_of(mirror: &Mirror, key: &Key) -> Vec<Rival> {
    let file = |name: String| {
        // A special entry at the head exists until a person has committed its removal.
        let stands = mirror.file_exists(&name) || mirror.is_committed_special(&name);
        let is_committed = mirror.is_committed(&name);
        (is_committed || stands).then_some(RivalFile { name, is_committed, is_visible: stands })
    };
    let rival = |key: Key| Rival { files: names_of(&key).into_iter().filter_map(file).collect(), key };
    mirror.rivals_of(key).into_iter().map(rival).collect()
}

/// Returns the possible file names of a key, and those of the keys that differ from it in letter case only.
pub(crate) fn names_with_rivals(mirror: &Mirror, key: &Key) -> Vec<String> {
    let rivals = mirror.rivals_of(key);
    std::iter::once(key).chain(&rivals).flat_map(names_of).collect()
}

/// Maximum number of commits that are searched for the versions that updates build on.
const MERGE_COMMITS_MAX: usize = 1_000;

/// Number of commits that are searched however long it takes.
const MERGE_COMMITS_SURE: usize = 100;

/// Time limit for searching the remaining commits, because all jobs wait; a version not found then counts as too old.
const MERGE_SEARCH_TIME_MAX: Duration = Duration::from_millis(50);

/// Returns the older versions that updates may be merged over, by content, in one search of the history for all.
fn bases_of(mirror: &mut Mirror, jobs: &[Job]) -> Result<Bases, StoreError> {
    let mut bases = HashMap::new();
    let mut missing: BTreeMap<Key, BTreeSet<String>> = BTreeMap::new();
    for change in jobs.iter().flat_map(|job| &job.submission.changes) {
        let key = change.command.key();
        let current = mirror.snapshot().get(key.as_str());
        let Some(tags) = change.condition.mergeable(current.map(AsRef::as_ref)) else { continue };
        // An earlier job of the batch may change the collection before an update that names the current version. With
        // that version at hand no other is needed: either the condition holds, or the other versions are older.
        match current.filter(|entry| tags.iter().any(|tag| entry.is_tagged(tag))) {
            Some(entry) => {
                drop(bases.insert((key.clone(), entry.blob.to_string()), Arc::clone(&entry.collection)));
            }
            None => {
                let contents = tags.iter().map(|tag| tag_content_id(tag).to_owned());
                missing.entry(key.clone()).or_default().extend(contents);
            }
        }
    }
    let began = Instant::now();
    let mut seen = 0;
    let found = mirror.older(missing, &mut || {
        seen += 1;
        seen < MERGE_COMMITS_SURE || (seen < MERGE_COMMITS_MAX && began.elapsed() < MERGE_SEARCH_TIME_MAX)
    })?;
    bases.extend(found);
    Ok(bases)
}

/// Returns the keys that jobs concern.
pub(crate) fn keys_of(jobs: &[Job]) -> impl Iterator<Item = &Key> {
    jobs.iter().flat_map(|job| job.submission.changes.iter().map(|change| change.command.key()))
}
