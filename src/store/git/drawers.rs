//! Where new files are made.
//!
//! An ext4 without a journal does not give an inode away again for five seconds after it was removed,
//! and looks at each of those in turn for every new file in the same part of the disk
//! (`recently_deleted` in `fs/ext4/ialloc.c`): 0.3 ms and more where some hundred files a second come
//! and go. A write makes three, and with a work tree one more for each file that changes. So they are
//! made in drawers, folders that ext4 puts far from one another (`T` in chattr(1): "the subdirectories
//! under this directory are not related, and thus should be spread apart for allocation purposes"), and
//! moved to where they belong. A file system that does not know that hint gets no drawers.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::IFlags;

/// How many drawers there are; half as many cost a tenth of the writes with a work tree.
const DRAWERS_LEN: usize = 64;

/// So many files are made in a drawer before it is the next one's turn: files that are flushed together
/// should be near one another, and a drawer have a rest of seconds in between.
const FILES_A_TURN: usize = 64;

/// The drawers in a folder of our own.
#[derive(Debug, Clone)]
pub(super) struct Drawers {
    folder: PathBuf,
    made: Arc<AtomicUsize>,
}

impl Drawers {
    /// The drawers of a desk; there are none before [`prepare`](Self::prepare) has made them.
    pub(super) fn new(desk: &Path) -> Self {
        Self { folder: desk.join("drawers"), made: Arc::default() }
    }

    /// Makes the drawers, if the file system has a use for them, and removes what a kill left in them but
    /// drafts of the work tree. Only for the holder of the service lock.
    pub(super) fn prepare(&self) {
        let made = fs::create_dir_all(&self.folder).and_then(|()| spread(&self.folder));
        let made = made.and_then(|()| self.all().try_for_each(fs::create_dir_all));
        if let Err(error) = made {
            tracing::debug!(%error, "new files are made where they belong");
            drop(fs::remove_dir(&self.folder));
        }
        for drawer in self.all() {
            let Ok(entries) = fs::read_dir(drawer) else { continue };
            let left = entries
                .flatten()
                .filter(|entry| entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit));
            left.for_each(|entry| drop(fs::remove_file(entry.path())));
        }
    }

    /// All drawers, made or not.
    pub(super) fn all(&self) -> impl Iterator<Item = PathBuf> {
        (0..DRAWERS_LEN).map(|number| self.drawer(number))
    }

    /// The drawer whose turn it is.
    pub(super) fn one(&self) -> PathBuf {
        self.drawer(self.turn().0)
    }

    /// Makes a new file at `path`, where nothing stands.
    pub(super) fn make(&self, path: &Path) -> io::Result<File> {
        let (drawer, number) = self.turn();
        let draft = self.drawer(drawer).join(number.to_string());
        let Ok(file) = File::create_new(&draft) else { return File::create_new(path) };
        match fs::rename(&draft, path) {
            Ok(()) => Ok(file),
            // Most likely it belongs on another file system.
            Err(_) => fs::remove_file(&draft).and_then(|()| File::create_new(path)),
        }
    }

    fn turn(&self) -> (usize, usize) {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        (number / FILES_A_TURN % DRAWERS_LEN, number)
    }

    fn drawer(&self, number: usize) -> PathBuf {
        self.folder.join(format!("{number:02}"))
    }
}

/// Asks the file system to put the folders in a folder far from one another.
fn spread(folder: &Path) -> io::Result<()> {
    let folder = File::open(folder)?;
    let flags = rustix::fs::ioctl_getflags(&folder)?;
    Ok(rustix::fs::ioctl_setflags(&folder, flags | IFlags::TOPDIR)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        entries.map(|name| name.into_string().unwrap()).collect()
    }

    #[test]
    fn a_new_file_is_made_where_it_belongs_with_drawers_and_without() {
        let desk = tempfile::tempdir().unwrap();
        let drawers = Drawers::new(desk.path());
        let path = desk.path().join("wanted");
        for is_prepared in [false, true] {
            if is_prepared {
                drawers.prepare();
            }
            for _ in 0..2 * FILES_A_TURN {
                drop(drawers.make(&path).unwrap());
                fs::remove_file(&path).unwrap();
            }
            assert!(drawers.all().filter(|drawer| drawer.is_dir()).all(|drawer| names(&drawer).is_empty()));
        }
        assert_eq!(drawers.make(&desk.path().join("no/folder")).unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::remove_dir_all(desk.path().join("drawers")).unwrap();
        drop(drawers.make(&path).unwrap());
        assert!(path.is_file());
    }

    #[test]
    fn what_a_kill_left_in_a_drawer_is_removed_but_not_drafts_of_the_work_tree() {
        let desk = tempfile::tempdir().unwrap();
        let drawers = Drawers::new(desk.path());
        let drawer = drawers.all().next().unwrap();
        fs::create_dir_all(&drawer).unwrap();
        ["17", "file-a.yaml"].iter().for_each(|name| fs::write(drawer.join(name), "").unwrap());
        drawers.prepare();
        assert_eq!(names(&drawer), ["file-a.yaml"]);
    }
}
