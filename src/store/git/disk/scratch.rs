//! Where new files are made.
//!
//! An ext4 without a journal does not give an inode away again for a minute after it was removed, and
//! looks at each of those in turn for every new file in the same part of the disk (`recently_deleted` in
//! `fs/ext4/ialloc.c`): up to 0.6 ms a file where some hundred files a second come and go. A write makes
//! three, with a work tree five and one more for each file that changes. So they are made in a drawer and moved
//! to where they belong. A drawer is a folder that is used for a moment, and the next one is in another part
//! of the disk, since ext4 is told so (`T` in chattr(1): "the subdirectories under this directory are not
//! related, and thus should be spread apart for allocation purposes"). Any other file system needs no
//! drawers, and gets none.
//!
//! A file has the group and the access list of the folder that it was made in: that of ours in the repository.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::IFlags;

/// For how long files are made in one drawer: those that are flushed together should be near one another,
/// but few of those that were made in it removed again.
const TURN: Duration = Duration::from_millis(250);

/// How many drawers there are at most, each a folder without a file. With their turns it is a minute before
/// a drawer is used again.
const DRAWERS_LEN: usize = 256;

/// The drawers in a folder of our own.
#[derive(Debug, Clone)]
pub(crate) struct Drawers {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    folder: PathBuf,
    /// How many files were made.
    made: AtomicUsize,
    /// Whose turn it is; nobody's as long as there are to be no drawers.
    turn: Mutex<Option<Turn>>,
}

#[derive(Debug)]
struct Turn {
    drawers: Vec<PathBuf>,
    number: usize,
    began: Instant,
}

impl Turn {
    /// Goes on to the next drawer, one more as long as there are not too many.
    fn pass_on(&mut self, folder: &Path) -> io::Result<()> {
        self.began = Instant::now();
        self.number += 1;
        if self.drawers.len() < DRAWERS_LEN {
            // The name decides about the part of the disk; the repositories there should not share one.
            let drawer = folder.join(getrandom::u32().unwrap_or_default().to_string());
            fs::create_dir(&drawer)?;
            self.number = self.drawers.len();
            self.drawers.push(drawer);
        }
        Ok(())
    }

    fn drawer(&self) -> PathBuf {
        self.drawers[self.number % self.drawers.len()].clone()
    }
}

impl Drawers {
    /// The drawers of a desk; nothing is made in one before [`open`](Self::open).
    pub(crate) fn new(desk: &Path) -> Self {
        let (made, turn) = Default::default();
        Self { shared: Arc::new(Shared { folder: desk.join("drawers"), made, turn }) }
    }

    /// The drawers that there are.
    pub(crate) fn all(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.shared.folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
    }

    /// Removes what a kill left but drafts of the work tree, and uses drawers from now on where the file
    /// system needs them. Only for the holder of the service lock.
    pub(crate) fn open(&self) {
        for drawer in self.all() {
            let files = fs::read_dir(&drawer).into_iter().flatten().flatten().map(|entry| entry.path());
            files.filter(|path| is_left(path)).for_each(|path| drop(fs::remove_file(path)));
        }
        if self.shared.folder.parent().is_some_and(lacks_journal)
            && let Err(error) = self.use_drawers()
        {
            tracing::debug!(%error, "new files are made where they belong");
        }
    }

    fn use_drawers(&self) -> io::Result<()> {
        let folder = &self.shared.folder;
        fs::create_dir_all(folder)?;
        let opened = File::open(folder)?;
        let flags = rustix::fs::ioctl_getflags(&opened)?;
        rustix::fs::ioctl_setflags(&opened, flags | IFlags::TOPDIR)?;
        // Most likely not where the last process has just removed files.
        let number = getrandom::u32().unwrap_or_default() as usize;
        let mut turn = Turn { drawers: self.all(), number, began: Instant::now() };
        turn.pass_on(folder)?;
        *self.turn() = Some(turn);
        Ok(())
    }

    /// The drawer whose turn it is, if there are any.
    pub(crate) fn one(&self) -> Option<PathBuf> {
        let mut turn = self.turn();
        let turn = turn.as_mut()?;
        if turn.began.elapsed() >= TURN
            && let Err(error) = turn.pass_on(&self.shared.folder)
        {
            tracing::debug!(%error, "there are fewer drawers than there should be");
        }
        Some(turn.drawer())
    }

    /// Makes a new file at `path`, where nothing stands but perhaps what a kill left.
    pub(crate) fn make(&self, path: &Path) -> io::Result<File> {
        if let Some(file) = self.make_in_drawer(path) {
            return Ok(file);
        }
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => File::create_new(path),
        }
    }

    /// The file, unless it can't be made in a drawer, most likely as it belongs on another file system.
    fn make_in_drawer(&self, path: &Path) -> Option<File> {
        let drawer = self.one()?;
        let draft = drawer.join(self.shared.made.fetch_add(1, Ordering::Relaxed).to_string());
        let file = File::create_new(&draft).ok()?;
        match fs::rename(&draft, path) {
            Ok(()) => Some(file),
            Err(_) => {
                drop(fs::remove_file(&draft));
                None
            }
        }
    }

    fn turn(&self) -> MutexGuard<'_, Option<Turn>> {
        self.shared.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a file was made by a process that is no more, and is of no use to anybody. A kill leaves empty
/// ones; after a power cut one may have come back under the name that it had here, and unless the system
/// knows of the other name as well, this may be the only one that counts.
fn is_left(path: &Path) -> bool {
    let is_made_here =
        path.file_name().is_some_and(|name| name.as_encoded_bytes().iter().all(u8::is_ascii_digit));
    is_made_here && fs::symlink_metadata(path).is_ok_and(|file| file.len() == 0 || file.nlink() > 1)
}

/// Whether a folder is on an ext4 without a journal (`journal_task` in
/// `Documentation/ABI/testing/sysfs-fs-ext4` of Linux).
fn lacks_journal(folder: &Path) -> bool {
    let journal = || {
        let device = fs::metadata(folder)?.dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let device = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}"))?;
        let name = device.file_name().unwrap_or_default();
        fs::read_to_string(Path::new("/sys/fs/ext4").join(name).join("journal_task"))
    };
    journal().is_ok_and(|journal: String| journal.trim_end() == "<none>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_is_made_where_it_belongs_with_drawers_and_without() {
        let desk = tempfile::tempdir().unwrap();
        let drawers = Drawers::new(desk.path());
        let path = desk.path().join("wanted");
        let make = || {
            drop(drawers.make(&path).unwrap());
            fs::remove_file(&path).unwrap();
        };
        make();
        assert!(drawers.one().is_none());
        // As if the file system knew the hint.
        let folder = desk.path().join("drawers");
        fs::create_dir(&folder).unwrap();
        let mut turn = Turn { drawers: Vec::new(), number: 7, began: Instant::now() };
        (0..DRAWERS_LEN + 1).for_each(|_| turn.pass_on(&folder).unwrap());
        assert_eq!(drawers.all().len(), DRAWERS_LEN);
        assert_eq!(turn.drawer(), turn.drawers[0], "each in its turn");
        *drawers.turn() = Some(turn);
        make();
        let made = drawers.one().unwrap().join(drawers.shared.made.load(Ordering::Relaxed).to_string());
        fs::write(&made, "in the way").unwrap();
        make();
        assert_eq!(fs::read_to_string(&made).unwrap(), "in the way");
        fs::remove_file(made).unwrap();
        assert!(drawers.all().iter().all(|drawer| fs::read_dir(drawer).unwrap().next().is_none()));
        assert_eq!(drawers.make(&desk.path().join("no/folder")).unwrap_err().kind(), io::ErrorKind::NotFound);
        drop(fs::remove_dir_all(desk.path().join("drawers")));
        make();
    }

    #[test]
    fn what_a_kill_left_in_a_drawer_is_removed_and_nothing_else() {
        let desk = tempfile::tempdir().unwrap();
        let drawers = Drawers::new(desk.path());
        let [one, other] = ["drawers/3", "drawers/4"].map(|drawer| desk.path().join(drawer));
        [&one, &other].iter().for_each(|drawer| fs::create_dir_all(drawer).unwrap());
        let (draft, made) = (one.join("file-a.yaml"), one.join("17"));
        [&draft, &made].iter().for_each(|file| fs::write(file, "").unwrap());
        let [content, named] = ["18", "19"].map(|name| other.join(name));
        [&content, &named].iter().for_each(|file| fs::write(file, "content").unwrap());
        fs::hard_link(&named, desk.path().join("pack")).unwrap();
        drawers.open();
        assert!(draft.exists() && content.exists() && !made.exists() && !named.exists());
    }
}
