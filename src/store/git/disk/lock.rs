//! Git's lock files, taken so that after a kill our own can be distinguished from others.
//!
//! Git locks `x` by creating `x.lock`, writes the new content there and renames it to `x` (lockfile.h). We first
//! create a private file in a folder of our own and then hard-link it to the lock's name. The link fails if the
//! name is taken, like git's `O_EXCL`. After a kill, or if a released lock could not be removed, both names refer
//! to the same inode, which is how [`remove_left`] and [`release_left`] recognise our lock. A lock with any other
//! inode is never touched. (If a file system preserves only one of the two names in a power cut, a person has to
//! remove the lock.)
//!
//! Where hard links are impossible, the private file itself becomes the lock, by a rename that replaces nothing.
//! The identity of that file is recorded beside it beforehand.
//!
//! A lock that receives content is a new inode each time, because after the rename its private name would be a hard
//! link to the live file. A lock that only excludes others ([`HeldLock`]) reuses the same private file.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;

use crate::store::git::disk::barrier::{UnflushedFile, make_folders, remove_if_there};
use crate::store::git::disk::links::{hard_link, is_refused};
use crate::store::git::disk::open::{create_own, open_own, read_own};
use crate::store::{AtPath as _, StoreError};

/// The interval between attempts to take a lock.
const RETRY_MS: u64 = 5;

const PRIVATE_PREFIX: &str = "lock-";

/// The future content of a lock file, written under its private name. What is left there of an earlier one is replaced,
/// and removed at the next start.
#[must_use]
#[derive(Debug)]
pub(crate) struct LockDraft {
    target: PathBuf,
    content: UnflushedFile,
}

/// A lock with content; if it is dropped without [`commit`](Self::commit), it is released and nothing changes.
#[must_use]
#[derive(Debug)]
pub(crate) struct LockFile {
    held: HeldLock,
    private: PathBuf,
    target: PathBuf,
}

impl LockDraft {
    /// Writes the future content of `target` to a private file. If it must be durable, the caller flushes it before
    /// taking the lock.
    ///
    /// `state` is the folder for the private file, on the same file system.
    pub(crate) fn write(state: &Path, target: &Path, content: &[u8]) -> Result<Self, StoreError> {
        make_state_folder(state)?;
        let content = UnflushedFile::write(private(state, target), content)?;
        Ok(Self { target: target.to_owned(), content })
    }

    pub(crate) const fn content(&self) -> &UnflushedFile {
        &self.content
    }

    pub(crate) fn take(self, wait: Duration) -> Result<LockFile, StoreError> {
        let Self { target, content } = self;
        let (private, path) = (content.path().to_owned(), lock_file_path(&target));
        link(&private, &path, wait)?;
        Ok(LockFile { held: HeldLock::of(path, content.into_file()), private, target })
    }
}

impl LockFile {
    /// Replaces the locked file by the lock file, which releases the lock.
    pub(crate) fn commit(self) -> Result<(), StoreError> {
        self.held.check()?;
        fs::rename(&self.held.path, &self.target).at("rename the lock file to", &self.target)?;
        log_left(remove_if_there(&self.private));
        Ok(())
    }
}

/// A lock that excludes others and changes nothing; released on drop.
#[must_use]
#[derive(Debug)]
pub(crate) struct HeldLock {
    path: PathBuf,
    // Kept open, so that no other file can get its inode number.
    file: File,
    is_left: bool,
}

impl HeldLock {
    const fn of(path: PathBuf, file: File) -> Self {
        Self { path, file, is_left: false }
    }

    /// Takes the lock of `target`. `state` is the folder for the private file, on the same file system; `wait` is
    /// how long to wait for another holder.
    pub(crate) fn take(state: &Path, target: &Path, wait: Duration) -> Result<Self, StoreError> {
        let (private, path) = (private(state, target), lock_file_path(target));
        if fs::symlink_metadata(&private).is_err() {
            make_state_folder(state)?;
            create_own(&private).at("make the lock file", &path)?;
        }
        let file = open_own(OpenOptions::new().read(true), &private).at("make the lock file", &path)?;
        link(&private, &path, wait)?;
        Ok(Self::of(path, file))
    }

    /// Takes over the lock of `target` that a killed process of ours left; `None` if there is none. The lock stays
    /// taken throughout.
    ///
    /// Only for the holder of the service lock, which guarantees that no living process owns it.
    pub(crate) fn take_over(state: &Path, target: &Path) -> Result<Option<Self>, StoreError> {
        let path = lock_file_path(target);
        if !is_own_lock(state, target)? {
            return Ok(None);
        }
        let file = open_own(OpenOptions::new().read(true), &path).at("open the lock file", &path)?;
        Ok(Some(Self::of(path, file)))
    }

    /// Fails if the lock file is no longer ours: a person may have removed it by hand and another process taken the
    /// lock.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let there = fs::symlink_metadata(&self.path).at("look at the lock file", &self.path)?;
        if self.is(&there)? { Ok(()) } else { Err(StoreError::Locked { path: self.path.clone() }) }
    }

    /// Leaves the lock where it is, as a kill would, for [`take_over`](Self::take_over).
    pub(crate) fn leave(mut self) {
        self.is_left = true;
    }

    fn release(&self) -> Result<(), StoreError> {
        let there = fs::symlink_metadata(&self.path).at_if_there("look at the lock file", &self.path)?;
        match there {
            Some(there) if self.is(&there)? => remove_if_there(&self.path),
            Some(_) | None => Ok(()),
        }
    }

    fn is(&self, there: &Metadata) -> Result<bool, StoreError> {
        let ours = self.file.metadata().at("look at the lock file", &self.path)?;
        Ok(same_inode(there, &ours))
    }
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        if !self.is_left {
            log_left(self.release());
        }
    }
}

/// Creates our folder if it has been removed.
fn make_state_folder(state: &Path) -> Result<(), StoreError> {
    make_folders(state.parent().unwrap_or(state), state).map(drop)
}

/// Logs a lock that could not be removed: until it is, nobody can commit.
fn log_left(released: Result<(), StoreError>) {
    if let Err(error) = released {
        tracing::warn!(%error, cause = error.cause(), "a lock file of our own could not be removed; it is tried again");
    }
}

/// Removes our lock of `target` if it still exists although it was released, because its removal failed.
///
/// Only for the one thread that takes our locks of `target`, while it holds none.
pub(crate) fn release_left(state: &Path, target: &Path) -> Result<(), StoreError> {
    if !is_own_lock(state, target)? {
        return Ok(());
    }
    let path = lock_file_path(target);
    tracing::info!(path = %path.display(), "removing a lock file of our own that could not be removed before");
    remove_if_there(&path)
}

pub(crate) fn lock_file_path(target: &Path) -> PathBuf {
    target.with_added_extension("lock")
}

fn private(state: &Path, target: &Path) -> PathBuf {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    // A branch may be called `team/index`, whose lock is another one than that of the index.
    let kind = if target.starts_with(state.with_file_name("refs")) { "ref-" } else { "" };
    state.join(format!("{PRIVATE_PREFIX}{kind}{name}"))
}

fn link(private: &Path, path: &Path, wait: Duration) -> Result<(), StoreError> {
    let deadline = Instant::now() + wait;
    loop {
        let linked = match hard_link(private, path) {
            Err(error) if is_refused(&error) => move_noted(private, path),
            linked => linked,
        };
        match linked {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(error).at("make the lock file", path);
            }
            Err(_) if Instant::now() >= deadline => return Err(StoreError::Locked { path: path.to_owned() }),
            // Git holds its locks for milliseconds and does not announce their release.
            Err(_) => thread::sleep(Duration::from_millis(RETRY_MS)),
        }
    }
}

/// Turns a private file into the lock, after recording that it is ours.
fn move_noted(private: &Path, path: &Path) -> io::Result<()> {
    create_own(&note_of(private))?.write_all(identity(&fs::symlink_metadata(private)?).as_bytes())?;
    match rustix::fs::renameat_with(CWD, private, CWD, path, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            // The empty file made here is only replaced; a kill at this instant leaves it for a person to remove.
            File::create_new(path).and_then(|_| fs::rename(private, path))
        }
        moved => moved.map_err(io::Error::from),
    }
}

/// The path at which the identity of a private file is recorded.
fn note_of(private: &Path) -> PathBuf {
    private.with_added_extension("id")
}

/// Distinguishes a file from all others, including one that reuses its inode number later.
fn identity(file: &Metadata) -> String {
    format!("{} {} {}.{:09}\n", file.dev(), file.ino(), file.mtime(), file.mtime_nsec())
}

/// Removes the locks that a killed process of ours left below `roots`, and its private files.
///
/// Only for the holder of the service lock, which guarantees that no living process owns them.
pub(crate) fn remove_left(state: &Path, roots: &[&Path]) -> Result<(), StoreError> {
    roots.iter().try_for_each(|root| remove_ours(state, root))?;
    let entries = fs::read_dir(state).into_iter().flatten().flatten();
    let private = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PRIVATE_PREFIX));
    private.map(|entry| entry.path()).try_for_each(|path| remove_if_there(&path))
}

/// Reports whether the lock of `target` is one of ours, held or left behind.
///
/// # Errors
///
/// Fails if that can't be determined: a lock that a kill has left tells what was under way.
pub(crate) fn is_own_lock(state: &Path, target: &Path) -> Result<bool, StoreError> {
    const LOOK: &str = "look at the lock file";
    let (lock, private) = (lock_file_path(target), private(state, target));
    let Some(there) = fs::symlink_metadata(&lock).at_if_there(LOOK, &lock)? else { return Ok(false) };
    let ours = fs::symlink_metadata(&private).at_if_there(LOOK, &private)?;
    if ours.is_some_and(|ours| same_inode(&there, &ours)) {
        return Ok(true);
    }
    let note = note_of(&private);
    let noted = read_own(&note).at_if_there("read", &note)?;
    Ok(noted.is_some_and(|noted| noted == identity(&there).as_bytes()))
}

fn remove_ours(state: &Path, path: &Path) -> Result<(), StoreError> {
    if fs::symlink_metadata(path).is_ok_and(|there| there.is_dir()) {
        let mut entries = fs::read_dir(path).into_iter().flatten().flatten();
        return entries.try_for_each(|entry| remove_ours(state, &entry.path()));
    }
    if path.extension().is_some_and(|extension| extension == "lock")
        && is_own_lock(state, &path.with_extension(""))?
    {
        tracing::info!(path = %path.display(), "removing a lock file that this service left when it was killed");
        remove_if_there(path)?;
    }
    Ok(())
}

pub(crate) fn same_inode(a: &Metadata, b: &Metadata) -> bool {
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::store::git::disk::failpoint::{Failpoint, Hook};

    fn take(folder: &Path, content: &[u8]) -> Result<LockFile, StoreError> {
        LockDraft::write(folder, &folder.join("x"), content)?.take(Duration::ZERO)
    }

    thread_local! {
        /// Whether file systems in this test refuse hard links.
        static WITHOUT_LINKS: Cell<bool> = const { Cell::new(false) };
    }

    fn folder() -> (tempfile::TempDir, Option<Hook>) {
        let folder = tempfile::tempdir().unwrap();
        let refuse = |step: Failpoint<'_>, _: &Path| match step {
            Failpoint::Link => Err(Errno::PERM.into()),
            _ => Ok(()),
        };
        let hook = WITHOUT_LINKS.get().then(|| Hook::new(folder.path(), refuse));
        (folder, hook)
    }

    #[test]
    fn a_held_lock_keeps_others_away_and_is_released() {
        let (folder, _links) = folder();
        let (x, lock) = (folder.path().join("x"), folder.path().join("x.lock"));
        for _ in 0..2 {
            let held = HeldLock::take(folder.path(), &x, Duration::ZERO).unwrap();
            assert!(is_own_lock(folder.path(), &x).unwrap(), "it is recognised after a kill");
            assert!(matches!(
                HeldLock::take(folder.path(), &x, Duration::ZERO),
                Err(StoreError::Locked { path }) if path == lock
            ));
            drop(held);
            assert!(!lock.exists());
        }
        assert!(!x.exists());
    }

    #[test]
    fn a_lock_that_can_not_be_looked_at_is_not_taken_for_another_s() {
        let (folder, _links) = folder();
        // A name that is too long for a file, as a stand-in for a disk that fails.
        let x = folder.path().join("x".repeat(300));
        assert!(is_own_lock(folder.path(), &x).is_err());
        assert!(HeldLock::take_over(folder.path(), &x).is_err());
    }

    #[test]
    fn a_held_lock_that_somebody_took_over_is_theirs() {
        let (folder, _links) = folder();
        let (x, lock) = (folder.path().join("x"), folder.path().join("x.lock"));
        let held = HeldLock::take(folder.path(), &x, Duration::ZERO).unwrap();
        fs::remove_file(&lock).unwrap();
        fs::write(&lock, b"theirs").unwrap();
        drop(held);
        assert_eq!(fs::read(&lock).unwrap(), b"theirs");
    }

    #[test]
    fn a_lock_is_released_with_or_without_its_content() {
        let (folder, _links) = folder();
        let (x, lock) = (folder.path().join("x"), folder.path().join("x.lock"));
        drop(take(folder.path(), b"new").unwrap());
        assert!(!x.exists() && !lock.exists());
        take(folder.path(), b"new").unwrap().commit().unwrap();
        assert_eq!(fs::read(&x).unwrap(), b"new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_taken_lock_is_told_and_kept() {
        let (folder, _links) = folder();
        let lock = folder.path().join("x.lock");
        fs::write(&lock, "another's").unwrap();
        let error = take(folder.path(), b"new").unwrap_err();
        assert!(matches!(error, StoreError::Locked { path } if path == lock));
        remove_left(folder.path(), &[folder.path()]).unwrap();
        assert_eq!(fs::read(&lock).unwrap(), b"another's");
    }

    #[test]
    fn a_lock_that_a_kill_left_is_recognised_and_another_s_is_not() {
        let (folder, _links) = folder();
        std::mem::forget(take(folder.path(), b"new").unwrap());
        let other = folder.path().join("y.lock");
        fs::write(&other, "").unwrap();
        remove_left(folder.path(), &[folder.path()]).unwrap();
        let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().path()).collect();
        assert_eq!(left, [other]);
    }

    #[test]
    fn a_lock_that_a_kill_left_can_be_taken_over_without_being_released() {
        let (folder, _links) = folder();
        let (x, lock) = (folder.path().join("x"), folder.path().join("x.lock"));
        let hold = || HeldLock::take(folder.path(), &x, Duration::ZERO);
        assert!(HeldLock::take_over(folder.path(), &x).unwrap().is_none());
        std::mem::forget(hold().unwrap());
        let ours = HeldLock::take_over(folder.path(), &x).unwrap().unwrap();
        ours.check().unwrap();
        assert!(hold().is_err());
        drop(ours);
        fs::write(&lock, "another's").unwrap();
        assert!(HeldLock::take_over(folder.path(), &x).unwrap().is_none());
    }

    /// Runs `act` while the folder has another name, as when a person moves the repository away and back.
    fn while_away(folder: &Path, act: impl FnOnce()) {
        let away = folder.with_extension("away");
        fs::rename(folder, &away).unwrap();
        act();
        fs::rename(away, folder).unwrap();
    }

    #[test]
    fn a_lock_that_could_not_be_removed_is_removed_before_the_next_one_is_taken() {
        let (outer, _links) = folder();
        let (folder, x) = (outer.path().join("desk"), outer.path().join("desk/x"));
        fs::create_dir(&folder).unwrap();
        let held = HeldLock::take(&folder, &x, Duration::ZERO).unwrap();
        while_away(&folder, || drop(held));
        assert!(lock_file_path(&x).exists());
        release_left(&folder, &x).unwrap();
        let with_content = take(&folder, b"new").unwrap();
        while_away(&folder, || drop(with_content));
        assert!(lock_file_path(&x).exists());
        release_left(&folder, &x).unwrap();
        take(&folder, b"new").unwrap().commit().unwrap();
        assert_eq!(fs::read(&x).unwrap(), b"new");
        fs::write(lock_file_path(&x), "another's").unwrap();
        release_left(&folder, &x).unwrap();
        assert!(lock_file_path(&x).exists());
    }

    #[test]
    fn the_second_name_of_a_lock_stays_as_long_as_the_lock() {
        let (folder, _links) = folder();
        let (x, elsewhere) = (folder.path().join("x"), folder.path().join("elsewhere"));
        let lock = take(folder.path(), b"new").unwrap();
        fs::rename(lock_file_path(&x), &elsewhere).unwrap();
        drop(lock);
        // Simulates a lock that was absent just when it was to be removed.
        fs::rename(elsewhere, lock_file_path(&x)).unwrap();
        release_left(folder.path(), &x).unwrap();
        assert!(!lock_file_path(&x).exists());
    }

    #[test]
    fn a_repository_that_is_away_is_not_made_again() {
        let (outer, _links) = folder();
        let state = outer.path().join("repository/desk");
        let x = outer.path().join("repository/x");
        assert!(HeldLock::take(&state, &x, Duration::ZERO).is_err());
        assert!(LockDraft::write(&state, &x, b"new").is_err());
        assert!(!outer.path().join("repository").exists());
    }

    #[test]
    fn without_links_locks_are_taken_released_and_recognised_all_the_same() {
        WITHOUT_LINKS.set(true);
        a_held_lock_keeps_others_away_and_is_released();
        a_held_lock_that_somebody_took_over_is_theirs();
        a_taken_lock_is_told_and_kept();
        a_lock_that_a_kill_left_is_recognised_and_another_s_is_not();
        a_lock_that_a_kill_left_can_be_taken_over_without_being_released();
        a_lock_that_could_not_be_removed_is_removed_before_the_next_one_is_taken();
        a_lock_that_someone_took_over_is_not_released_by_us();
        WITHOUT_LINKS.set(false);
    }

    #[test]
    fn a_lock_that_someone_took_over_is_not_released_by_us() {
        let (folder, _links) = folder();
        let ours = take(folder.path(), b"new").unwrap();
        fs::write(folder.path().join("z"), "theirs").unwrap();
        fs::rename(folder.path().join("z"), folder.path().join("x.lock")).unwrap();
        assert!(matches!(ours.commit(), Err(StoreError::Locked { .. })));
        assert_eq!(fs::read(folder.path().join("x.lock")).unwrap(), b"theirs");
    }
}
