//! The `HEAD` of a repository, which is asked for a dozen times for a group of commits and hardly ever
//! changes: read when its stamp is new, as files of the work tree are (see `worktree::scan::stat_cache`). On a network file
//! system a checkout by another machine is seen when its stamp is, some seconds later.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{AtFlags, CWD};

use crate::store::StoreError;
use crate::store::git::disk::stamp::Stamp;
use crate::store::git::disk::stamp::{is_settled, now_ns};
use crate::store::git::repo::refs::{self, Head};

/// `HEAD`, and what is known of it.
#[derive(Debug, Clone)]
pub(crate) struct HeadFile {
    git_dir: PathBuf,
    known: Arc<Mutex<Option<(Stamp, Head)>>>,
}

impl HeadFile {
    /// The `HEAD` in this folder.
    pub(crate) fn new(git_dir: &Path) -> Self {
        Self { git_dir: git_dir.to_owned(), known: Arc::default() }
    }

    /// What it names.
    pub(crate) fn read(&self) -> Result<Head, StoreError> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.stamp();
        if let (Some(stamp), Some((read, head))) = (&before, &*known)
            && stamp == read
        {
            return Ok(head.clone());
        }
        *known = None;
        let now = now_ns();
        let head = refs::head(&self.git_dir)?;
        *known = before
            .filter(|stamp| is_settled(stamp, now) && self.stamp().as_ref() == Some(stamp))
            .map(|stamp| (stamp, head.clone()));
        Ok(head)
    }

    fn stamp(&self) -> Option<Stamp> {
        let stat = rustix::fs::statat(CWD, self.git_dir.join("HEAD"), AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some(Stamp::of(&stat))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, FileTimes};
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn what_head_names_is_told_however_it_was_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("HEAD");
        let head = HeadFile::new(folder.path());
        assert!(head.read().is_err());
        let names = |name: &str| assert_eq!(head.read().unwrap(), Head::Ref(format!("refs/heads/{name}")));
        let save = |path: &Path, name: &str| fs::write(path, format!("ref: refs/heads/{name}\n")).unwrap();
        // In place, within one tick of the clock.
        for name in ["a", "b", "c"] {
            save(&path, name);
            names(name);
            names(name);
        }
        // Long ago, and then by a rename, as git does it.
        for name in ["d", "e"] {
            let draft = folder.path().join("HEAD.lock");
            save(&draft, name);
            fs::rename(draft, &path).unwrap();
            names(name);
        }
        fs::remove_file(&path).unwrap();
        assert!(head.read().is_err());
        std::os::unix::fs::symlink("refs/heads/f", &path).unwrap();
        names("f");
    }

    #[test]
    fn a_head_that_has_not_changed_is_not_read_again() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("HEAD"), "ref: refs/heads/a\n").unwrap();
        let head = HeadFile::new(folder.path());
        let stamp = head.stamp().unwrap();
        *head.known.lock().unwrap() = Some((stamp, Head::Ref("refs/heads/known".to_owned())));
        assert_eq!(head.read().unwrap(), Head::Ref("refs/heads/known".to_owned()));
        let file = File::options().write(true).open(folder.path().join("HEAD")).unwrap();
        file.set_times(FileTimes::new().set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1)))
            .unwrap();
        assert_eq!(head.read().unwrap(), Head::Ref("refs/heads/a".to_owned()));
    }
}
