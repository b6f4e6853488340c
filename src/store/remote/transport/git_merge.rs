//! What the `git` command does for a merge: the merge base, the differences, files that are not collections, the tree.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::process::Stdio;
use std::time::Instant;

use crate::domain::Revision;
use crate::store::remote::error::RemoteError;
use crate::store::remote::transport::folder::create;
use crate::store::remote::transport::git::{Git, not_run};
use crate::store::remote::transport::process::ProcessOutput;
use crate::store::{BlobId, TreeId};

/// The empty tree, which git knows without having the object.
const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MergedEntry {
    mode: u32,
    /// Of a blob, or of another object wrapped as one.
    id: BlobId,
}

impl MergedEntry {
    /// The content, if it is a regular file.
    pub(crate) fn file(self) -> Option<BlobId> {
        matches!(self.mode, 0o100_644 | 0o100_755).then_some(self.id)
    }
}

/// The change of a path between two revisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RawChange {
    pub(crate) before: Option<MergedEntry>,
    pub(crate) after: Option<MergedEntry>,
}

/// Changes by path, as bytes.
pub(crate) type Changes = BTreeMap<Vec<u8>, RawChange>;

/// Two commits to be merged, and their merge base if they have one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parted {
    pub(crate) base: Option<Revision>,
    pub(crate) ours: Revision,
    pub(crate) theirs: Revision,
}

/// The result of merging the files that are not collections.
#[derive(Debug, Default)]
pub(crate) struct Others {
    /// The tree that git has merged, if that was needed.
    pub(crate) tree: Option<TreeId>,
    /// The entries to be put into it.
    pub(crate) taken: Vec<(Vec<u8>, Option<MergedEntry>)>,
    /// The paths whose remote version stays.
    pub(crate) conflicts: Vec<String>,
}

impl Git {
    /// Returns the merge base of two commits; `None` if they have none.
    pub(crate) fn merge_base(
        &self,
        one: Revision,
        other: Revision,
        until: Instant,
    ) -> Result<Option<Revision>, RemoteError> {
        let (ended, bytes) = self.work(&["merge-base", &one.to_string(), &other.to_string()], None, until)?;
        match ended.status.and_then(|status| status.code()) {
            Some(0) => Ok(first_line(&bytes).parse().ok()),
            Some(1) => Ok(None),
            _ => Err(self.failure(&ended)),
        }
    }

    /// Returns the differences between two commits, file by file.
    pub(crate) fn diff(
        &self,
        from: Option<Revision>,
        to: Revision,
        until: Instant,
    ) -> Result<Changes, RemoteError> {
        let from = from.map_or_else(|| EMPTY_TREE.to_owned(), |from| from.to_string());
        let arguments =
            ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", &from, &to.to_string()];
        Ok(changes(&self.well(&arguments, None, until)?))
    }

    /// Merges what both sides did to files that are not collections: `here` has our changes to such files, `there` all
    /// changes of the remote.
    pub(crate) fn merge_others(
        &self,
        parted: Parted,
        here: &Changes,
        there: &Changes,
        is_collection: &dyn Fn(&[u8]) -> bool,
        until: Instant,
    ) -> Result<Others, RemoteError> {
        if here.is_empty() {
            return Ok(Others::default());
        }
        if there.keys().all(|path| is_collection(path)) {
            // A file of ours below a collection of theirs would replace it.
            let (below, beside): (Vec<_>, Vec<_>) =
                here.iter().partition(|(path, change)| change.after.is_some() && is_below(path, there));
            let taken = beside.into_iter().map(|(path, change)| (path.clone(), change.after)).collect();
            let conflicts = below.into_iter().map(|(path, _)| shown(path)).collect();
            return Ok(Others { tree: None, taken, conflicts });
        }
        let [theirs, ours] = [parted.theirs, parted.ours].map(|side| side.to_string());
        let mut arguments = vec!["merge-tree", "--write-tree", "-z", "--name-only", "--no-messages"];
        arguments.extend(parted.base.is_none().then_some("--allow-unrelated-histories"));
        arguments.extend([theirs.as_str(), ours.as_str()]);
        let (ended, bytes) = self.work(&arguments, None, until)?;
        let mut words = bytes.split(|byte| *byte == 0);
        let tree = words.next().and_then(|word| id(std::str::from_utf8(word).ok()?));
        let is_merged = matches!(ended.status.and_then(|status| status.code()), Some(0 | 1));
        let Some(tree) = tree.filter(|_| is_merged) else {
            // This git can't merge trees, or not these two: the remote's version stays.
            tracing::warn!(
                error = self.failure(&ended).to_string(),
                "files that are no collections could not be merged"
            );
            let conflicts = here.keys().map(|path| shown(path)).collect();
            return Ok(Others { conflicts, ..Others::default() });
        };
        let version_kept = |path: &[u8]| {
            let theirs = there.get(path).map(|change| change.after);
            theirs.or_else(|| here.get(path).map(|change| change.before))
        };
        let mut others = Others { tree: Some(TreeId::new(tree)), ..Others::default() };
        for path in words.filter(|path| !path.is_empty() && !is_collection(path)) {
            match version_kept(path) {
                Some(entry) => {
                    others.taken.push((path.to_vec(), entry));
                    others.conflicts.push(shown(path));
                }
                // If one side has a folder there, git puts the other's file beside it under a name of its own.
                None => {
                    others.taken.push((path.to_vec(), None));
                    let end = path.iter().rposition(|byte| *byte == b'~').unwrap_or(path.len());
                    others
                        .taken
                        .extend(version_kept(&path[..end]).map(|entry| (path[..end].to_vec(), entry)));
                    others.conflicts.push(shown(&path[..end]));
                }
            }
        }
        Ok(others)
    }

    /// Writes the tree of a commit, or another tree, with some entries replaced; `None` removes one.
    pub(crate) fn tree_with(
        &self,
        start: &str,
        entries: &BTreeMap<Vec<u8>, Option<MergedEntry>>,
        until: Instant,
    ) -> Result<TreeId, RemoteError> {
        let index = self.folder().join("merge-index");
        drop(fs::remove_file(&index));
        self.well(&["read-tree", start], None, until)?;
        if !entries.is_empty() {
            let mut info = Vec::new();
            for (path, entry) in entries {
                let (mode, id) = entry.map_or((0, BlobId::new([0; 20])), |entry| (entry.mode, entry.id));
                info.extend_from_slice(format!("{mode:o} {id}\t").as_bytes());
                info.extend_from_slice(path);
                info.push(0);
            }
            self.well(&["update-index", "--add", "--replace", "-z", "--index-info"], Some(&info), until)?;
        }
        let written = self.well(&["write-tree"], None, until)?;
        drop(fs::remove_file(&index));
        let tree = id(first_line(&written)).map(TreeId::new);
        tree.ok_or_else(|| RemoteError::Unreachable("git wrote no tree".to_owned()))
    }

    fn well(&self, arguments: &[&str], input: Option<&[u8]>, until: Instant) -> Result<Vec<u8>, RemoteError> {
        let (ended, bytes) = self.work(arguments, input, until)?;
        if ended.is_success() { Ok(bytes) } else { Err(self.failure(&ended)) }
    }

    /// Runs a command that uses no network, with a private index; returns its whole output.
    fn work(
        &self,
        arguments: &[&str],
        input: Option<&[u8]>,
        until: Instant,
    ) -> Result<(ProcessOutput, Vec<u8>), RemoteError> {
        self.check_fit()?;
        let [given, said] = ["merge-input", "merge-output"].map(|name| self.folder().join(name));
        let mut stdin = Stdio::null();
        if let Some(input) = input {
            not_run(create(&given).and_then(|mut file| file.write_all(input)))?;
            stdin = not_run(File::open(&given))?.into();
        }
        let output = not_run(create(&said))?;
        let mut command = self.command(arguments);
        command.env("GIT_INDEX_FILE", self.folder().join("merge-index"));
        let ended = not_run(self.processes.run_with(command, stdin, Some(output), until))?;
        let bytes = not_run(fs::read(&said))?;
        [given, said].iter().for_each(|path| drop(fs::remove_file(path)));
        Ok((ended, bytes))
    }

    fn failure(&self, ended: &ProcessOutput) -> RemoteError {
        RemoteError::Unreachable(format!("git could not merge: {}", self.redacted_stderr(ended)))
    }
}

/// Returns whether a side has a file where this path has a folder.
fn is_below(path: &[u8], changes: &Changes) -> bool {
    let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    let mut folders = ends.filter_map(|end| changes.get(&path[..end]));
    folders.any(|change| change.after.is_some())
}

fn first_line(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default().lines().next().unwrap_or_default()
}

/// Parses the id of an object of any type.
fn id(text: &str) -> Option<[u8; 20]> {
    text.parse::<Revision>().ok().map(|id| *id.as_bytes())
}

fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

/// Parses `:MODE MODE ID ID LETTER` and the path after it.
fn changes(bytes: &[u8]) -> Changes {
    let mut words = bytes.split(|byte| *byte == 0);
    let mut found = Changes::new();
    while let (Some(header), Some(path)) = (words.next(), words.next()) {
        let header = std::str::from_utf8(header).unwrap_or_default().trim_start_matches(':');
        let fields: Vec<&str> = header.split(' ').collect();
        let [old, new, before, after, _] = fields[..] else { continue };
        let entry = |mode: &str, name: &str| {
            let mode = u32::from_str_radix(mode, 8).ok().filter(|mode| *mode != 0)?;
            Some(MergedEntry { mode, id: BlobId::new(id(name)?) })
        };
        found.insert(path.to_vec(), RawChange { before: entry(old, before), after: entry(new, after) });
    }
    found
}
