//! What a notification of the file system means.
//!
//! This is decided on the thread that delivers notifications, so that the many irrelevant ones, those of git's lock
//! files and of our own drafts, do not wake the watcher's thread.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use notify::event::{AccessKind, AccessMode, Event, EventKind, ModifyKind};

use crate::domain::file_name::is_collection_file;
use crate::watch::WatchedPaths;
use crate::watch::debounce::Touch;

/// The meaning of a notification.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// A file of the collections folder was touched.
    File(String, Touch),
    /// The branch may have moved, or another may be checked out.
    Branch,
    /// The folders themselves changed: everything has to be watched and read anew.
    Folders,
}

/// Decides what a notification means.
#[derive(Debug)]
pub(crate) struct EventClassifier {
    places: WatchedPaths,
    folders: BTreeSet<PathBuf>,
}

impl EventClassifier {
    pub(crate) fn new(places: WatchedPaths) -> Self {
        let mut folders: BTreeSet<PathBuf> =
            places.branch_files.iter().filter_map(|file| file.parent().map(Path::to_owned)).collect();
        if let Some((root, folder)) = &places.work_tree {
            folders.extend(folder.ancestors().take_while(|at| at.starts_with(root)).map(Path::to_owned));
        }
        Self { places, folders }
    }

    /// Returns every folder to be watched, whether it exists or not.
    pub(crate) const fn folders(&self) -> &BTreeSet<PathBuf> {
        &self.folders
    }

    /// Returns what a notification means, if anything.
    pub(crate) fn of(&self, notice: notify::Result<Event>) -> Vec<Meaning> {
        match notice {
            Ok(event) if event.need_rescan() => {
                tracing::debug!("the system lost notices, reading everything");
                vec![Meaning::Folders]
            }
            Ok(event) => event.paths.iter().filter_map(|path| self.of_one(event.kind, path)).collect(),
            Err(error) => {
                tracing::warn!(%error, "the file watcher reports an error, reading everything");
                vec![Meaning::Folders]
            }
        }
    }

    fn of_one(&self, kind: EventKind, path: &Path) -> Option<Meaning> {
        let touch = touch(kind)?;
        let is_gone = matches!(kind, EventKind::Remove(_));
        let mut branch_files = self.places.branch_files.iter();
        if branch_files.any(|file| file == path || (is_gone && is_lock_of(path, file))) {
            return Some(Meaning::Branch);
        }
        let appeared_or_went = !matches!(kind, EventKind::Modify(ModifyKind::Data(_)) | EventKind::Access(_));
        if appeared_or_went && self.folders.contains(path) {
            return Some(Meaning::Folders);
        }
        let (_, folder) = self.places.work_tree.as_ref()?;
        // A name that is not UTF-8 is reported as the journal shows it.
        let name = path.file_name()?.to_string_lossy();
        (path.parent() == Some(folder) && is_collection_file(&name))
            .then(|| Meaning::File(name.into_owned(), touch))
    }
}

/// Returns whether `path` is the lock file that git creates for `file`.
fn is_lock_of(path: &Path, file: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "lock") && path.with_extension("") == file
}

fn touch(kind: EventKind) -> Option<Touch> {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write))
        | EventKind::Modify(ModifyKind::Name(_))
        | EventKind::Remove(_) => Some(Touch::Done),
        EventKind::Create(_) | EventKind::Modify(_) | EventKind::Any | EventKind::Other => {
            Some(Touch::Writing)
        }
        EventKind::Access(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use notify::event::{CreateKind, DataChange, Flag, RemoveKind, RenameMode};

    fn meanings() -> EventClassifier {
        EventClassifier::new(WatchedPaths {
            work_tree: Some(("/r".into(), "/r/cms/collections".into())),
            branch_files: vec!["/r/.git/HEAD".into(), "/r/.git/refs/heads/main".into()],
        })
    }

    const WRITTEN: EventKind = EventKind::Modify(ModifyKind::Data(DataChange::Any));
    const MOVED: EventKind = EventKind::Modify(ModifyKind::Name(RenameMode::To));
    const GONE: EventKind = EventKind::Remove(RemoveKind::Any);
    const MADE: EventKind = EventKind::Create(CreateKind::Any);

    #[track_caller]
    fn means(kind: EventKind, path: &str, meaning: Option<Meaning>) {
        assert_eq!(meanings().of(Ok(Event::new(kind).add_path(path.into()))), Vec::from_iter(meaning));
    }

    #[test]
    fn only_collection_files_of_the_folder_itself_are_told() {
        let file = |name: &str, touch| Some(Meaning::File(name.into(), touch));
        means(WRITTEN, "/r/cms/collections/posts.yaml", file("posts.yaml", Touch::Writing));
        means(MOVED, "/r/cms/collections/posts.yml", file("posts.yml", Touch::Done));
        for other in [
            "/r/cms/collections/.posts.yaml.swp",
            "/r/cms/collections/posts.yaml~",
            "/r/cms/collections/x/posts.yaml",
            "/r/posts.yaml",
        ] {
            means(MOVED, other, None);
        }
    }

    #[test]
    fn a_moved_ref_is_a_branch_and_its_lock_is_one_when_it_goes() {
        means(MOVED, "/r/.git/refs/heads/main", Some(Meaning::Branch));
        means(MADE, "/r/.git/refs/heads/main.lock", None);
        means(WRITTEN, "/r/.git/HEAD.lock", None);
        means(GONE, "/r/.git/HEAD.lock", Some(Meaning::Branch));
        means(GONE, "/r/.git/other.lock", None);
        means(WRITTEN, "/r/.git/HEAD", Some(Meaning::Branch));
    }

    #[test]
    fn a_folder_on_the_way_that_appears_or_goes_means_everything() {
        for folder in ["/r/cms", "/r/cms/collections", "/r/.git/refs/heads"] {
            means(GONE, folder, Some(Meaning::Folders));
            means(MADE, folder, Some(Meaning::Folders));
        }
    }

    #[test]
    fn lost_notices_mean_everything_with_a_path_and_without() {
        let lost = Event::new(EventKind::Other).set_flag(Flag::Rescan);
        let with_path = lost.clone().add_path("/r/cms/collections/posts.yaml".into());
        let error = notify::Error::generic("the queue overflowed");
        for notice in [Ok(lost), Ok(with_path), Err(error)] {
            assert_eq!(meanings().of(notice), [Meaning::Folders]);
        }
    }
}
