//! The work tree, compared with the head.
//!
//! A file is hashed when its stamp (inode, length, times) is new, and remembered. A stamp proves
//! nothing while the file could still change within the same tick of the file system's clock (the
//! "racy git" problem, `Documentation/technical/racy-git.txt`), so what was read that soon after
//! its last change is read again the next time.

use std::collections::{BTreeSet, HashMap};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{Dir, FileType, Stat};

use super::barrier::read_if_there;
use super::branch::DETACHED;
use super::folder::{Content, Folder, Found, Stamp, kind};
use super::index::GitIndex;
use super::object::Oid;
use super::place::Place;
use super::read::is_told;
use super::refs::{self, Head};
use super::tree::RawTree;
use crate::store::{BlobId, Edit, Look, Saved, StoreError, WorkTree};

/// The longest tick of a clock that counts finer than seconds (100 ticks a second), twice.
const FINE_TICK_NS: i128 = 20_000_000;
/// The tick of FAT, the coarsest there is.
const COARSE_TICK_NS: i128 = 2_000_000_000;

/// What is known of the files of the work tree.
#[derive(Debug, Default)]
pub(super) struct StatCache {
    known: HashMap<String, Known>,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    stamp: Stamp,
    oid: Oid,
    settled: bool,
}

/// Compares; see [`Journal::work_tree`](crate::store::Journal::work_tree).
pub(super) fn compare(
    place: &Place,
    branch: &str,
    cache: &mut StatCache,
    head: &RawTree,
    look: Look<'_>,
    despite_locks: bool,
) -> Result<WorkTree, StoreError> {
    if let Some(why) = away(place, branch)? {
        return Ok(WorkTree::Away(why));
    }
    if is_busy(place) && !despite_locks {
        return Ok(WorkTree::Busy);
    }
    let mut edits = match Folder::collections(place, false)? {
        Found::Folder(folder) => edits(&folder, cache, head, look)?,
        Found::Nothing => all_gone(head, look),
        Found::Obstacle(path) => {
            return Ok(WorkTree::Away(format!(
                "{} is no folder, and links are not followed",
                path.display()
            )));
        }
    };
    if edits.iter().any(|edit| edit.now == Saved::Gone) {
        forget_skipped(place, &mut edits)?;
    }
    // A checkout that began meanwhile has changed files that the head does not explain.
    if (is_busy(place) && !despite_locks) || away(place, branch)?.is_some() {
        return Ok(WorkTree::Busy);
    }
    Ok(WorkTree::Here { edits, half_done: half_done(place) })
}

/// Takes out what git was told to leave out of the work tree (`git sparse-checkout`): nobody has
/// deleted it.
fn forget_skipped(place: &Place, edits: &mut Vec<Edit>) -> Result<(), StoreError> {
    let Some(bytes) = read_if_there(&place.git_dir.join("index"))? else { return Ok(()) };
    if let Ok(index) = GitIndex::parse(&bytes) {
        edits.retain(|edit| edit.now != Saved::Gone || !index.is_skipped(&place.inside(&edit.name)));
    }
    Ok(())
}

/// Why the work tree does not show the branch.
pub(super) fn away(place: &Place, branch: &str) -> Result<Option<String>, StoreError> {
    if place.work_tree.is_none() {
        return Ok(Some("the repository is bare".to_owned()));
    }
    Ok(match refs::head(&place.git_dir)? {
        Head::Ref(name) if name == branch => None,
        Head::Ref(name) => {
            Some(format!("the branch `{}` is checked out", name.strip_prefix("refs/heads/").unwrap_or(&name)))
        }
        Head::Detached(_) if branch == DETACHED => None,
        Head::Detached(_) => Some(match half_done(place) {
            Some(what) => format!("HEAD is detached in the middle of {what}"),
            None => "HEAD is detached".to_owned(),
        }),
    })
}

fn is_busy(place: &Place) -> bool {
    ["index.lock", "HEAD.lock"].iter().any(|lock| place.git_dir.join(lock).symlink_metadata().is_ok())
}

/// What `git status` would say is under way (`wt_status_get_state` in git's `wt-status.c`).
fn half_done(place: &Place) -> Option<&'static str> {
    const SIGNS: [(&str, &str); 6] = [
        ("rebase-merge", "a rebase"),
        ("rebase-apply", "a rebase"),
        ("MERGE_HEAD", "a merge"),
        ("CHERRY_PICK_HEAD", "a cherry-pick"),
        ("REVERT_HEAD", "a revert"),
        ("BISECT_LOG", "a bisection"),
    ];
    SIGNS.iter().find(|(file, _)| place.git_dir.join(file).exists()).map(|(_, what)| *what)
}

fn all_gone(head: &RawTree, look: Look<'_>) -> Vec<Edit> {
    let names: Vec<String> = match look {
        Look::All => told(head).collect(),
        Look::At(names) => names
            .iter()
            .filter(|name| is_told(name) && head.get(name.as_bytes()).is_some())
            .cloned()
            .collect(),
    };
    names.into_iter().map(|name| Edit { name, now: Saved::Gone }).collect()
}

fn told(head: &RawTree) -> impl Iterator<Item = String> {
    head.iter().map(|entry| String::from_utf8_lossy(entry.name).into_owned()).filter(|name| is_told(name))
}

fn edits(
    folder: &Folder,
    cache: &mut StatCache,
    head: &RawTree,
    look: Look<'_>,
) -> Result<Vec<Edit>, StoreError> {
    let names = match look {
        Look::All => list(folder)?,
        // Whatever a caller asks for, only names of the folder itself are looked at.
        Look::At(names) => {
            let own = names.iter().filter(|name| is_told(name) && !name.contains(['/', '\0']));
            own.cloned().collect::<BTreeSet<_>>().into_iter().collect()
        }
    };
    let mut edits = Vec::new();
    for name in &names {
        if let Some(now) = edit(folder, cache, head, name)? {
            edits.push(Edit { name: name.clone(), now });
        }
    }
    if matches!(look, Look::All) {
        cache.known.retain(|name, _| names.binary_search(name).is_ok());
        let gone = told(head).filter(|name| names.binary_search(name).is_err());
        edits.extend(gone.map(|name| Edit { name, now: Saved::Gone }));
        edits.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    }
    Ok(edits)
}

/// The names in the folder that may be collection files, sorted.
fn list(folder: &Folder) -> Result<Vec<String>, StoreError> {
    let failed = |errno: rustix::io::Errno| StoreError::at("read the folder", &folder.path, errno.into());
    let mut names = Vec::new();
    for entry in Dir::read_from(&folder.fd).map_err(failed)? {
        // A name that is no UTF-8 is no key; the engine would not know what to call it.
        if let Ok(name) = entry.map_err(failed)?.file_name().to_str()
            && is_told(name)
        {
            names.push(name.to_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}

fn edit(
    folder: &Folder,
    cache: &mut StatCache,
    head: &RawTree,
    name: &str,
) -> Result<Option<Saved>, StoreError> {
    let committed = head.get(name.as_bytes());
    let Some(stat) = folder.stat(name)? else {
        cache.known.remove(name);
        return Ok(committed.map(|_| Saved::Gone));
    };
    let special = |what| {
        // What is no file in the head either is no edit.
        let expected = committed.is_some_and(|pointer| !pointer.is_file());
        (!expected).then_some(Saved::Special(what))
    };
    if let Some(what) = named(&stat) {
        return Ok(special(what));
    }
    let committed = committed.filter(|pointer| pointer.is_file()).map(|pointer| pointer.oid);
    if committed.is_some() && cache.find(name, &stat) == committed {
        return Ok(None);
    }
    let Some(content) = folder.read(name)? else { return vanished(folder, head, name, special) };
    cache.keep(name, &content);
    let is_edit = committed != Some(content.oid);
    Ok(is_edit.then(|| Saved::File { blob: BlobId::new(content.oid), bytes: content.bytes }))
}

/// What to say of a file that was there and could not be opened.
fn vanished(
    folder: &Folder,
    head: &RawTree,
    name: &str,
    special: impl Fn(&'static str) -> Option<Saved>,
) -> Result<Option<Saved>, StoreError> {
    Ok(match folder.stat(name)? {
        None => head.get(name.as_bytes()).map(|_| Saved::Gone),
        Some(stat) => special(named(&stat).unwrap_or("a file that can't be read now")),
    })
}

fn named(stat: &Stat) -> Option<&'static str> {
    match kind(stat) {
        FileType::RegularFile => None,
        FileType::Directory => Some("a folder"),
        FileType::Symlink => Some("a symbolic link"),
        FileType::Fifo => Some("a pipe"),
        FileType::Socket => Some("a socket"),
        _ => Some("a device"),
    }
}

impl StatCache {
    fn find(&self, name: &str, stat: &Stat) -> Option<Oid> {
        let known = self.known.get(name)?;
        (known.settled && known.stamp == Stamp::of(stat)).then_some(known.oid)
    }

    fn keep(&mut self, name: &str, content: &Content) {
        let stamp = Stamp::of(&content.stat);
        self.known.insert(
            name.to_owned(),
            Known { stamp, oid: content.oid, settled: is_settled(&stamp, now_ns()) },
        );
    }
}

/// Whether a change after `now` would show in the stamp.
fn is_settled(stamp: &Stamp, now_ns: i128) -> bool {
    let newest = stamp.newest_ns();
    // Times that are whole milliseconds come from a clock that may count no finer than FAT's.
    let tick = if newest % 1_000_000 == 0 { COARSE_TICK_NS } else { FINE_TICK_NS };
    newest + tick < now_ns
}

#[expect(clippy::disallowed_methods, reason = "compared with times that the file system's clock gave")]
fn now_ns() -> i128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i128::try_from(since.as_nanos()).unwrap_or(i128::MAX)
}
